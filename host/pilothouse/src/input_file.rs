//! Reads files that an operator names, up to a size.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::shutdown::while_reading;

/// Returns the content of a regular file of at most `limit` bytes.
///
/// # Errors
/// Errors with one line, without the path. A pipe or a device is refused, because it may have no end.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    if !path.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    read_stream(path, limit)
}

/// Returns the text in a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`read`], and if the content is not UTF-8.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String, String> {
    text(read(path, limit)?)
}

/// Returns the text in a file or a pipe, such as `<(command)` in a shell, of at most `limit` bytes. Blocks until a pipe has ended; a signal ends
/// the process meanwhile.
///
/// # Errors
/// Errors with one line, without the path.
pub(crate) fn read_text_or_pipe(path: &Path, limit: u64) -> Result<String, String> {
    text(while_reading(|| read_stream(path, limit))?)
}

fn read_stream(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    // One byte more than allowed shows that the file is too large.
    file.take(limit + 1).read_to_end(&mut content).map_err(|error| error.to_string())?;
    match content.len() as u64 {
        length if length <= limit => Ok(content),
        _ if limit >= 1 << 20 => Err(format!("it is larger than {} MiB", limit >> 20)),
        _ => Err(format!("it is larger than {limit} bytes")),
    }
}

fn text(content: Vec<u8>) -> Result<String, String> {
    String::from_utf8(content).map_err(|_| "it is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_read_up_to_their_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "abcd").expect("written");
        assert_eq!(read(&file, 4), Ok(b"abcd".to_vec()));
        assert_eq!(read_text(&file, 4), Ok("abcd".to_owned()));
        assert_eq!(read(&file, 3), Err("it is larger than 3 bytes".to_owned()));
        fs::write(&file, vec![b'#'; (1 << 20) + 1]).expect("written");
        assert_eq!(read_text(&file, 1 << 20), Err("it is larger than 1 MiB".to_owned()));
        fs::write(&file, [0xff]).expect("written");
        assert_eq!(read_text(&file, 4), Err("it is not UTF-8".to_owned()));
        assert!(read(&folder.path().join("absent"), 4).is_err());
    }

    #[test]
    fn what_may_have_no_end_is_refused_or_cut() {
        let refused = Err("it is not a regular file".to_owned());
        assert_eq!(read(Path::new("/dev/zero"), 4), refused);
        assert_eq!(read(tempfile::tempdir().expect("a folder").path(), 4), refused);
        assert_eq!(read_text_or_pipe(Path::new("/dev/zero"), 4), Err("it is larger than 4 bytes".to_owned()));
    }

    #[test]
    fn pipes_are_read_to_their_end() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        std::io::Write::write_all(&mut writer, b"piped").expect("written");
        drop(writer);
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        assert_eq!(read_text_or_pipe(Path::new(&path), 5), Ok("piped".to_owned()));
    }
}
