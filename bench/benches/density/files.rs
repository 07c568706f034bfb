//! Makes many distinct plugins from one file.

use std::fs;
use std::path::Path;

/// Returns the file's name without its extension.
pub(crate) fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Writes `count` copies of a guest to a folder. They differ in a custom section, so that they do not share compiled code.
pub(crate) fn distinct(guest: &Path, folder: &Path, count: usize) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let wasm = fs::read(guest).map_err(|error| failed(guest, error))?;
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for number in 0..count {
        let path = folder.join(format!("plugin-{number}.wasm"));
        let name = b"number";
        let payload = [&[6], &name[..], format!("{number:06}").as_bytes()].concat();
        let length = u8::try_from(payload.len()).map_err(|error| error.to_string())?;
        fs::write(&path, [&wasm[..], &[0, length], &payload].concat())
            .map_err(|error| failed(&path, error))?;
    }
    Ok(())
}
