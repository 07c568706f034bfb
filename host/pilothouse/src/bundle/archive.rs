//! A .tar.gz file of bounded size.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, Header};

/// Room for the list of what was left out, and for the archive's end.
const RESERVED: usize = 1 << 20;
/// What the archive's headers and a block of incompressible data add to a file, at most.
const OVERHEAD: usize = 8 << 10;

/// An archive that takes files while they fit.
pub(super) struct Archive {
    builder: Builder<GzEncoder<Vec<u8>>>,
    max_bytes: usize,
    created: u64,
}

impl Archive {
    /// Creates an empty archive. `created` is the time of its files in seconds since 1970.
    pub(super) fn new(max_bytes: usize, created: u64) -> Self {
        let encoder = GzEncoder::new(Vec::new(), Compression::default());
        Self { builder: Builder::new(encoder), max_bytes, created }
    }

    /// Adds a file, or returns `false` if the archive would become too large.
    ///
    /// # Errors
    /// Errors if the path is too long or not relative.
    pub(super) fn append(&mut self, path: &str, text: &str) -> io::Result<bool> {
        // Afterwards, the length of the buffer is that of all files so far.
        self.builder.get_mut().flush()?;
        let used = self.builder.get_ref().get_ref().len();
        let room = self.max_bytes.saturating_sub(used + RESERVED);
        if worst_case(text.len()) > room && compressed_size(text)? > room {
            return Ok(false);
        }
        self.append_unchecked(path, text)?;
        Ok(true)
    }

    fn append_unchecked(&mut self, path: &str, text: &str) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_mtime(self.created);
        header.set_size(text.len() as u64);
        self.builder.append_data(&mut header, format!("pilothouse-bundle/{path}"), text.as_bytes())
    }

    /// Adds the list of what was left out, and returns the archive.
    ///
    /// # Errors
    /// See [`append`](Self::append).
    pub(super) fn finish(mut self, left_out: &str) -> io::Result<Vec<u8>> {
        self.append_unchecked("left-out.txt", left_out)?;
        self.builder.into_inner()?.finish()
    }
}

/// Returns the size of incompressible text in the archive: deflate adds five bytes to each block of at least 16 KiB.
fn worst_case(size: usize) -> usize {
    size + size / 1024 + OVERHEAD
}

fn compressed_size(text: &str) -> io::Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes())?;
    Ok(encoder.finish()?.len() + OVERHEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns text that hardly compresses.
    fn noise(bytes: usize) -> String {
        let mut state: u32 = 1;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b'!' + u8::try_from((state >> 16) % 90).expect("small"))
        };
        (0..bytes).map(|_| next()).collect()
    }

    #[test]
    fn files_are_added_while_they_fit() {
        let max = RESERVED + (256 << 10);
        let mut archive = Archive::new(max, 5);
        assert!(archive.append("small.txt", "text").expect("added"));
        assert!(archive.append("repeated.txt", &"a".repeat(8 << 20)).expect("added"), "it compresses well");
        assert!(!archive.append("noise.txt", &noise(2 << 20)).expect("refused"));
        assert!(archive.append("last.txt", "text").expect("added"), "a small file still fits");
        let bytes = archive.finish("noise.txt: too large\n").expect("an archive");
        assert!(bytes.len() <= max, "{}", bytes.len());
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let entries = archive.entries().expect("entries").map(|entry| entry.expect("an entry"));
        let found: Vec<_> = entries
            .map(|entry| {
                (entry.path().expect("a path").display().to_string(), entry.header().mtime().expect("a time"))
            })
            .collect();
        let expected = ["small.txt", "repeated.txt", "last.txt", "left-out.txt"];
        assert_eq!(found, expected.map(|name| (format!("pilothouse-bundle/{name}"), 5)));
    }
}
