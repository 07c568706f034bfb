//! What is in the file of a compiled plugin.
//!
//! ```text
//! wasmtime's ELF image │ text: what it was made of and what it states │ its length, u32 │ SHA-256 of all before │ MARK
//! ```
//!
//! Ours is at the end, because wasmtime maps the file from its beginning and looks at no more than its own headers name.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{Key, Sum};
use crate::Form;
use crate::load::{Interface, Stated};

const MARK: &[u8; 16] = b"pilothouse-code\n";
const SUM: usize = 32;
const TAIL: usize = 4 + SUM + MARK.len();
/// The text names versions and interfaces: more is damage.
const MAX_TEXT: u32 = 64 << 10;

/// Why a file of compiled code is not used.
#[derive(Debug, Error)]
pub(crate) enum Unfit {
    #[error("it can't be read: {0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Access(String),
    #[error("it is cut or was never whole")]
    Cut,
    #[error("its checksum is wrong")]
    Damaged,
    #[error("it is {0}")]
    Foreign(&'static str),
    #[error("the engine refuses it: {0}")]
    Engine(String),
}

/// Writes a file from wasmtime's image and what is known of the plugin.
pub(crate) fn write(out: &mut dyn Write, image: &[u8], key: &Key, stated: &Stated) -> io::Result<()> {
    let text = text(key, stated);
    let length = u32::try_from(text.len()).map_err(io::Error::other)?.to_le_bytes();
    let mut sum = Sha256::new();
    for part in [image, text.as_bytes(), &length] {
        sum.update(part);
        out.write_all(part)?;
    }
    out.write_all(&sum.finalize())?;
    out.write_all(MARK)?;
    out.flush()
}

/// Reads the file from its first byte to its last, and returns what it states if it is whole and what the key says.
pub(super) fn check(mut file: &File, key: &Key) -> Result<Stated, Unfit> {
    let size = file.metadata()?.len();
    let summed = size.checked_sub((SUM + MARK.len()) as u64).ok_or(Unfit::Cut)?;
    file.seek(SeekFrom::Start(summed))?;
    let mut end = [0; SUM + MARK.len()];
    file.read_exact(&mut end)?;
    let (expected, mark) = end.split_at(SUM);
    if mark != MARK {
        return Err(Unfit::Cut);
    }
    file.rewind()?;
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 32 << 10];
    let mut left = summed;
    while left > 0 {
        let part = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.read_exact(&mut buffer[..part])?;
        sum.update(&buffer[..part]);
        left -= part as u64;
    }
    if sum.finalize().as_slice() != expected {
        return Err(Unfit::Damaged);
    }
    let text = read_text(file, size)?;
    let stated = parse(&text, key)?;
    Ok(stated)
}

fn read_text(mut file: &File, size: u64) -> Result<String, Unfit> {
    let end = size.checked_sub(TAIL as u64).ok_or(Unfit::Cut)?;
    file.seek(SeekFrom::Start(end))?;
    let mut length = [0; 4];
    file.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    let begin = end.checked_sub(u64::from(length)).filter(|_| length <= MAX_TEXT).ok_or(Unfit::Cut)?;
    file.seek(SeekFrom::Start(begin))?;
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text)?;
    String::from_utf8(text).map_err(|_| Unfit::Foreign("of another format"))
}

fn text(key: &Key, stated: &Stated) -> String {
    let form = match stated.form {
        Form::Component => "component",
        Form::CoreModule => "module",
    };
    let interfaces: Vec<_> = stated.interfaces.iter().map(|interface| interface.name()).collect();
    let Key { engine, plugin } = key;
    format!("{engine}\n{plugin}\n{form}\n{}\n{}\n", stated.package_version, interfaces.join(" "))
}

fn parse(text: &str, key: &Key) -> Result<Stated, Unfit> {
    const OTHER: Unfit = Unfit::Foreign("of another format");
    let lines: Vec<_> = text.lines().collect();
    let [engine, plugin, form, package_version, interfaces] = lines[..] else { return Err(OTHER) };
    let is = |line: &str, sum: &Sum| line == sum.to_string();
    if !is(engine, &key.engine) {
        return Err(Unfit::Foreign("for another version of the engine"));
    }
    if !is(plugin, &key.plugin) {
        return Err(Unfit::Foreign("another plugin's"));
    }
    let form = match form {
        "component" => Form::Component,
        "module" => Form::CoreModule,
        _ => return Err(OTHER),
    };
    let named = |name: &str| Interface::ALL.into_iter().find(|interface| interface.name() == name);
    let interfaces: Option<Vec<_>> = interfaces.split_whitespace().map(named).collect();
    Ok(Stated { form, package_version: package_version.to_owned(), interfaces: interfaces.ok_or(OTHER)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key { engine: Sum::of(b"engine"), plugin: Sum::of(b"plugin") }
    }

    fn stated() -> Stated {
        Stated {
            form: Form::CoreModule,
            package_version: "0.1.3".to_owned(),
            interfaces: vec![Interface::Plugin, Interface::Observe],
        }
    }

    fn written() -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, &[7; 300_000], &key(), &stated()).expect("written");
        bytes
    }

    fn checked(bytes: &[u8], key: &Key) -> Result<Stated, Unfit> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("written");
        check(&file, key)
    }

    #[test]
    fn what_was_written_is_read_back() {
        assert_eq!(checked(&written(), &key()).expect("whole"), stated());
    }

    #[test]
    fn a_changed_byte_is_noticed_wherever_it_is() {
        let whole = written();
        for at in [0, 1, 299_999, 300_001, whole.len() - TAIL, whole.len() - 40, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(checked(&changed, &key()).is_err(), "byte {at} of {}", whole.len());
        }
    }

    #[test]
    fn a_cut_or_longer_file_is_noticed() {
        let whole = written();
        for end in [0, 1, TAIL - 1, TAIL, 1000, whole.len() - 1] {
            assert!(checked(&whole[..end], &key()).is_err(), "cut at {end}");
        }
        assert!(checked(&[&whole[..], b"x"].concat(), &key()).is_err());
        assert!(checked(&[&whole[..1000], &whole[1004..]].concat(), &key()).is_err());
    }

    #[test]
    fn another_engines_and_another_plugins_files_are_told_apart() {
        let other = Key { engine: Sum::of(b"newer"), ..key() };
        assert!(matches!(checked(&written(), &other), Err(Unfit::Foreign(what)) if what.contains("engine")));
        let other = Key { plugin: Sum::of(b"other"), ..key() };
        assert!(matches!(checked(&written(), &other), Err(Unfit::Foreign(what)) if what.contains("plugin")));
    }
}
