//! The files of an archive with their paths. Headers that contain a long path are read here, because the library reads them without a limit.

use std::io::{self, Read};

use tar::{Entry, EntryType, PaxExtensions};

use super::text_of;

/// The maximum number of files and extension headers.
const MAX_ENTRIES: usize = 20_000;
/// The maximum size of an extension header, in bytes. A path has at most 4,096 in Linux.
const MAX_EXTENSION: u64 = 64 << 10;

/// The files of an archive, in order.
pub(super) struct Entries<'a, R: Read> {
    raw: tar::Entries<'a, R>,
    number: usize,
}

impl<'a, R: Read> Entries<'a, R> {
    /// Reads the archive from its beginning.
    pub(super) fn of(archive: &'a mut tar::Archive<R>) -> Result<Self, String> {
        let raw = archive.entries().map_err(|error| text_of(&error))?.raw(true);
        Ok(Self { raw, number: 0 })
    }

    /// Returns the next file and its path; `None` at the end of the archive.
    ///
    /// # Errors
    /// Errors if the archive is damaged, or has too many entries or an extension header that is too large.
    pub(super) fn next_file(&mut self) -> Result<Option<(String, Entry<'a, R>)>, String> {
        let mut long_path = None;
        for entry in self.raw.by_ref() {
            let mut entry = entry.map_err(|error| text_of(&error))?;
            self.number += 1;
            if self.number > MAX_ENTRIES {
                return Err(format!("it has more than {MAX_ENTRIES} entries"));
            }
            match entry.header().entry_type() {
                kind @ (EntryType::GNULongName | EntryType::XHeader) => {
                    let content = extension(&mut entry)?;
                    long_path = match kind {
                        EntryType::GNULongName => Some(text_before_nul(&content)),
                        _ => path_of(&content).or(long_path),
                    };
                }
                EntryType::GNULongLink | EntryType::XGlobalHeader => drop(extension(&mut entry)?),
                EntryType::Regular | EntryType::Continuous => {
                    let path = long_path.unwrap_or_else(|| entry.header().path_bytes().into_owned());
                    return Ok(Some((String::from_utf8_lossy(&path).into_owned(), entry)));
                }
                // Folders and links have nothing to show.
                _ => long_path = None,
            }
        }
        Ok(None)
    }
}

/// Reads an extension header.
fn extension(entry: &mut Entry<'_, impl Read>) -> Result<Vec<u8>, String> {
    if entry.size() > MAX_EXTENSION {
        return Err(format!("an extension header of {} bytes is too large", entry.size()));
    }
    let mut content = Vec::new();
    entry.read_to_end(&mut content).map_err(|error: io::Error| text_of(&error))?;
    Ok(content)
}

fn text_before_nul(content: &[u8]) -> Vec<u8> {
    content.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

/// Returns the path in a PAX header, if it has one.
fn path_of(content: &[u8]) -> Option<Vec<u8>> {
    let paths = PaxExtensions::new(content).flatten().filter(|record| record.key_bytes() == b"path");
    paths.last().map(|record| record.value_bytes().to_vec())
}
