//! The file format of a compiled plugin.
//!
//! ```text
//! wasmtime's ELF image │ text: engine, plugin, module info │ length of the text, u32 │ SHA-256 of all before │ MAGIC
//! ```
//!
//! The host's part follows the image, because wasmtime maps the file from its beginning and reads only what its own headers name.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{ArtifactKey, Sha256Sum};
use crate::Form;
use crate::load::{Interface, ModuleInfo};

const MAGIC: &[u8; 16] = b"pilothouse-code\n";
const DIGEST_SIZE: usize = 32;
const TRAILER_SIZE: usize = 4 + DIGEST_SIZE + MAGIC.len();
/// Maximum length of the text, in bytes. It names versions and interfaces, so a longer one is damage.
const MAX_TEXT: u32 = 64 << 10;

/// Why a file of compiled code is not used.
#[derive(Debug, Error)]
pub(crate) enum ArtifactError {
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Its owner, mode or type is wrong.
    #[error("{0}")]
    Access(String),
    #[error("it is truncated")]
    Truncated,
    #[error("its checksum is wrong")]
    ChecksumMismatch,
    /// It belongs to another engine or plugin, or has another format.
    #[error("it is {0}")]
    Mismatch(&'static str),
    #[error("the engine refuses it: {0}")]
    Engine(String),
}

/// Writes a file from wasmtime's image and what is known of the plugin.
pub(crate) fn write(
    out: &mut dyn Write,
    image: &[u8],
    key: &ArtifactKey,
    info: &ModuleInfo,
) -> io::Result<()> {
    let text = text(key, info);
    let length = u32::try_from(text.len()).map_err(io::Error::other)?.to_le_bytes();
    let mut sum = Sha256::new();
    for part in [image, text.as_bytes(), &length] {
        sum.update(part);
        out.write_all(part)?;
    }
    out.write_all(&sum.finalize())?;
    out.write_all(MAGIC)?;
    out.flush()
}

/// Reads the whole file and returns its module info.
///
/// # Errors
/// If the file is damaged, or belongs to another key.
pub(super) fn verify(mut file: &File, key: &ArtifactKey) -> Result<ModuleInfo, ArtifactError> {
    let size = file.metadata()?.len();
    let summed = size.checked_sub((DIGEST_SIZE + MAGIC.len()) as u64).ok_or(ArtifactError::Truncated)?;
    file.seek(SeekFrom::Start(summed))?;
    let mut end = [0; DIGEST_SIZE + MAGIC.len()];
    file.read_exact(&mut end)?;
    let (expected, magic) = end.split_at(DIGEST_SIZE);
    if magic != MAGIC {
        return Err(ArtifactError::Truncated);
    }
    file.rewind()?;
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 32 << 10];
    let mut remaining = summed;
    while remaining > 0 {
        let length = buffer.len().min(usize::try_from(remaining).unwrap_or(usize::MAX));
        file.read_exact(&mut buffer[..length])?;
        sum.update(&buffer[..length]);
        remaining -= length as u64;
    }
    if sum.finalize().as_slice() != expected {
        return Err(ArtifactError::ChecksumMismatch);
    }
    let text = read_text(file, size)?;
    let info = parse(&text, key)?;
    Ok(info)
}

fn read_text(mut file: &File, size: u64) -> Result<String, ArtifactError> {
    let end = size.checked_sub(TRAILER_SIZE as u64).ok_or(ArtifactError::Truncated)?;
    file.seek(SeekFrom::Start(end))?;
    let mut length = [0; 4];
    file.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    let begin =
        end.checked_sub(u64::from(length)).filter(|_| length <= MAX_TEXT).ok_or(ArtifactError::Truncated)?;
    file.seek(SeekFrom::Start(begin))?;
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text)?;
    String::from_utf8(text).map_err(|_| ArtifactError::Mismatch("of another format"))
}

fn text(key: &ArtifactKey, info: &ModuleInfo) -> String {
    let form = match info.form {
        Form::Component => "component",
        Form::CoreModule => "module",
    };
    let interfaces: Vec<_> = info.interfaces.iter().map(|interface| interface.name()).collect();
    let ArtifactKey { engine, plugin } = key;
    let mut text =
        format!("{engine}\n{plugin}\n{form}\n{}\n{}\n", info.package_version, interfaces.join(" "));
    for warning in &info.warnings {
        text.push_str(warning);
        text.push('\n');
    }
    text
}

fn parse(text: &str, key: &ArtifactKey) -> Result<ModuleInfo, ArtifactError> {
    const OTHER: ArtifactError = ArtifactError::Mismatch("of another format");
    let lines: Vec<_> = text.lines().collect();
    let [engine, plugin, form, package_version, interfaces, warnings @ ..] = &lines[..] else {
        return Err(OTHER);
    };
    let is = |line: &str, sum: &Sha256Sum| line == sum.to_string();
    if !is(engine, &key.engine) {
        return Err(ArtifactError::Mismatch("for another version of the engine"));
    }
    if !is(plugin, &key.plugin) {
        return Err(ArtifactError::Mismatch("another plugin's"));
    }
    let form = match *form {
        "component" => Form::Component,
        "module" => Form::CoreModule,
        _ => return Err(OTHER),
    };
    let named = |name: &str| Interface::ALL.into_iter().find(|interface| interface.name() == name);
    let interfaces: Option<Vec<_>> = interfaces.split_whitespace().map(named).collect();
    Ok(ModuleInfo {
        form,
        package_version: (*package_version).to_owned(),
        interfaces: interfaces.ok_or(OTHER)?,
        warnings: warnings.iter().map(|warning| (*warning).to_owned()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ArtifactKey {
        ArtifactKey { engine: Sha256Sum::of(b"engine"), plugin: Sha256Sum::of(b"plugin") }
    }

    fn info() -> ModuleInfo {
        ModuleInfo {
            form: Form::CoreModule,
            package_version: "0.1.3".to_owned(),
            interfaces: vec![Interface::Plugin, Interface::Observe],
            warnings: vec!["the first warning".to_owned(), "another".to_owned()],
        }
    }

    fn written() -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, &[7; 300_000], &key(), &info()).expect("written");
        bytes
    }

    fn checked(bytes: &[u8], key: &ArtifactKey) -> Result<ModuleInfo, ArtifactError> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("written");
        verify(&file, key)
    }

    #[test]
    fn a_written_file_is_read_back() {
        assert_eq!(checked(&written(), &key()).expect("whole"), info());
    }

    #[test]
    fn any_changed_byte_is_detected() {
        let whole = written();
        for at in [0, 1, 299_999, 300_001, whole.len() - TRAILER_SIZE, whole.len() - 40, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(checked(&changed, &key()).is_err(), "byte {at} of {}", whole.len());
        }
    }

    #[test]
    fn a_truncated_or_extended_file_is_detected() {
        let whole = written();
        for end in [0, 1, TRAILER_SIZE - 1, TRAILER_SIZE, 1000, whole.len() - 1] {
            assert!(checked(&whole[..end], &key()).is_err(), "cut at {end}");
        }
        assert!(checked(&[&whole[..], b"x"].concat(), &key()).is_err());
        assert!(checked(&[&whole[..1000], &whole[1004..]].concat(), &key()).is_err());
    }

    #[test]
    fn files_of_another_engine_or_another_plugin_are_rejected() {
        let other = ArtifactKey { engine: Sha256Sum::of(b"newer"), ..key() };
        assert!(
            matches!(checked(&written(), &other), Err(ArtifactError::Mismatch(what)) if what.contains("engine"))
        );
        let other = ArtifactKey { plugin: Sha256Sum::of(b"other"), ..key() };
        assert!(
            matches!(checked(&written(), &other), Err(ArtifactError::Mismatch(what)) if what.contains("plugin"))
        );
    }
}
