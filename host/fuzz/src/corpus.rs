//! Reads the committed corpus: seeds, and inputs that failed once. Binary files are not committed, so WebAssembly is stored as text and other
//! bytes as hex.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Target;

/// Returns the target's inputs with their file names.
///
/// # Panics
/// If a file of the corpus is unreadable or does not have the format that its extension names.
#[must_use]
pub fn seeds(target: Target) -> Vec<(String, Vec<u8>)> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = files(&crate_folder.join("corpus").join(target.name()));
    if target == Target::Loader {
        // The guests of the plugin crate's tests are seeds too.
        files.extend(self::files(&crate_folder.join("../plugin/tests/guests")));
    }
    files.iter().filter_map(|path| seed(path)).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

fn seed(path: &Path) -> Option<(String, Vec<u8>)> {
    let name = path.file_name()?.to_str()?.to_owned();
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let text = || std::str::from_utf8(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    let input = match path.extension().and_then(|extension| extension.to_str()).unwrap_or_default() {
        "wat" => wat::parse_str(without_faults(text())).unwrap_or_else(|error| panic!("{name}: {error}")),
        "hex" => from_hex(text()).unwrap_or_else(|| panic!("{name} is not hex")),
        "md" => return None,
        _ => bytes,
    };
    Some((name, input))
}

/// Fills in the template `faulty.wat`, whose placeholders the plugin crate's tests replace with the names of faults.
fn without_faults(wat: &str) -> String {
    let placeholders = ["$in-describe", "$in-reconcile", "$in-observe", "$in-index"];
    placeholders.into_iter().fold(wat.to_owned(), |wat, placeholder| wat.replace(placeholder, "$nothing"))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|char| !char.is_whitespace())
        .map(|char| char.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()?;
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
