//! Writes recorded reconciles to files: `DIRECTORY/PLUGIN/NUMBER.jsonl`.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::RecordingOptions;
use super::format::{SecretMode, json_line};
use super::nesting::{MAX_NESTING, nesting};
use super::reader::MAX_LINE;
use super::recorder::{CapturedReconcile, RecordedVersion};
use super::secrets::SecretHasher;
use super::segments::{Ring, Segment};
use crate::private_file::{self, Durability};

/// Creates a directory that only this user may read.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes the recordings of all plugins.
pub(super) struct RecordingWriter {
    directory: PathBuf,
    last: u64,
    /// `None` if the values of Secrets are recorded as they are.
    hasher: Option<SecretHasher>,
    plugins: BTreeMap<String, PluginRecording>,
}

/// The recording of one plugin.
struct PluginRecording {
    directory: PathBuf,
    ring: Ring,
    /// The files that may be continued, with their versions: the running one, and its canary.
    open: Vec<(Arc<RecordedVersion>, u64)>,
}

/// The maximum number of a plugin's files that are continued at the same time.
const MAX_OPEN: usize = 2;

/// What became of a reconcile.
#[derive(Debug)]
pub(super) enum LineOutcome {
    /// It was written.
    Written {
        /// The number of bytes.
        bytes: u64,
        /// Why an old file could not be removed; `None` if all that had to be removed were.
        not_removed: Option<io::Error>,
    },
    /// Its line would be too long, or would nest too deeply to be read.
    TooLarge,
}

impl RecordingWriter {
    /// Creates a writer. `key` is the key of the hashes of Secrets.
    pub(super) fn new(options: &RecordingOptions, key: [u8; 32]) -> Self {
        Self {
            directory: options.directory.clone(),
            last: options.last,
            hasher: (options.secrets == SecretMode::Hashed).then(|| SecretHasher::new(key)),
            plugins: BTreeMap::new(),
        }
    }

    /// Writes a reconcile.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written. The next reconcile begins a new file.
    pub(super) fn write(&mut self, captured: &CapturedReconcile) -> io::Result<LineOutcome> {
        let mut recorded = captured.to_recorded();
        if let Some(hasher) = &self.hasher {
            recorded.calls.iter_mut().for_each(|call| hasher.hash_call(call));
        }
        let line = json_line(&recorded)?;
        let is_too_deep = captured.lost_objects(&recorded) || nesting(&line) > MAX_NESTING;
        if is_too_deep || line.len() as u64 > MAX_LINE {
            return Ok(LineOutcome::TooLarge);
        }
        let plugin = match self.plugins.entry(captured.version.plugin.clone()) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(PluginRecording::open(self.directory.join(&captured.version.plugin), self.last)?)
            }
        };
        plugin.write(&captured.version, &line)
    }
}

impl PluginRecording {
    /// Creates the directory, or continues the recording in it with a new file.
    fn open(directory: PathBuf, last: u64) -> io::Result<Self> {
        create_directory(&directory)?;
        let mut existing = Vec::new();
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let Some(number) = entry.file_name().to_str().and_then(number_of) else { continue };
            if entry.file_type()?.is_file() {
                existing.push(measure(&entry.path(), number)?);
            }
        }
        Ok(Self { directory, ring: Ring::new(last, existing), open: Vec::new() })
    }

    /// Appends a line to the file of the version, or to a new one.
    fn write(&mut self, version: &Arc<RecordedVersion>, line: &[u8]) -> io::Result<LineOutcome> {
        let head = version.head_line.as_slice();
        // Removed until the line is complete: after an error, the file may end in the middle of one.
        let position = self.open.iter().position(|(open, _)| open == version);
        let current = position.map(|position| self.open.remove(position).1);
        let placement = self.ring.place(line.len() as u64, head.len() as u64, current);
        let path = self.directory.join(name_of(placement.segment));
        let bytes = if placement.is_new {
            let written = create(&path, &[head, line].concat());
            written.inspect_err(|_| self.ring.forget(placement.segment))?
        } else {
            append(&path, line)?
        };
        if self.open.len() == MAX_OPEN {
            self.open.remove(0);
        }
        self.open.push((Arc::clone(version), placement.segment));
        Ok(LineOutcome::Written { bytes, not_removed: self.remove_expired(placement.segment) })
    }

    /// Removes the files that are not needed after a write to this one. Those that cannot be removed are tried again after the next write.
    /// Returns the first error.
    fn remove_expired(&mut self, written: u64) -> Option<io::Error> {
        let (mut failed, mut first_error) = (Vec::new(), None);
        for segment in self.ring.expire(written) {
            if let Err(error) = remove(&self.directory.join(name_of(segment.number))) {
                failed.push(segment);
                first_error = first_error.or(Some(error));
            }
        }
        self.ring.put_back(failed);
        first_error
    }
}

/// Writes a new file, and returns its size. It gets its name once it is complete: a file without its head cannot be read.
fn create(path: &Path, text: &[u8]) -> io::Result<u64> {
    if fs::symlink_metadata(path).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let partial = path.with_extension("jsonl.partial");
    // A host that was killed may have left one.
    remove(&partial)?;
    private_file::replace(path, &partial, text, Durability::ProcessEnd)?;
    Ok(text.len() as u64)
}

/// Appends a line to a file, and returns the length of the line.
fn append(path: &Path, line: &[u8]) -> io::Result<u64> {
    // Whoever may write to the directory could put a link to another file of this user in its place.
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    OpenOptions::new().append(true).custom_flags(flags).open(path)?.write_all(line)?;
    Ok(line.len() as u64)
}

fn name_of(number: u64) -> String {
    format!("{number:08}.jsonl")
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".jsonl")?;
    // Other notations of a number are not of this module: it could not remove their files.
    digits.parse().ok().filter(|number| name_of(*number) == name)
}

/// Counts the reconciles of a file of an earlier run.
fn measure(path: &Path, number: u64) -> io::Result<Segment> {
    let bytes = fs::metadata(path)?.len();
    let mut reader = BufReader::new(File::open(path)?);
    let mut lines: u64 = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        lines += buffer.iter().filter(|byte| **byte == b'\n').count() as u64;
        let length = buffer.len();
        reader.consume(length);
    }
    Ok(Segment { number, reconciles: lines.saturating_sub(1), bytes })
}

/// Removes a file, which an operator may have removed already.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use pilothouse_model::Object;
    use pilothouse_plugin::{HostAnswer, HostCall, HostRequest};
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::WallClock;
    use crate::recording::recorder::tests::{record, record_of, version_with};
    use crate::recording::{Recorder, RecordingMetrics, RecordingReader};

    struct Setup {
        folder: tempfile::TempDir,
        writer: RecordingWriter,
    }

    fn options(folder: &tempfile::TempDir, last: u64) -> RecordingOptions {
        RecordingOptions { directory: folder.path().join("recordings"), last, secrets: SecretMode::Hashed }
    }

    fn setup(last: u64) -> Setup {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = RecordingWriter::new(&options(&folder, last), [7; 32]);
        Setup { folder, writer }
    }

    /// Returns a reconcile of the plugin and the object with these names.
    fn captured(plugin: &str, name: &str, calls: Vec<HostCall>) -> CapturedReconcile {
        let metrics = RecordingMetrics::register(&mut Registry::default());
        let (recorder, mut captured) = Recorder::new(SecretMode::Hashed, WallClock::default(), metrics);
        record(&recorder, plugin, name, calls);
        captured.receiver.try_recv().expect("a reconcile")
    }

    #[test]
    fn a_reconcile_with_an_object_that_nests_too_deeply_is_left_out_and_the_next_one_can_be_read() {
        let mut setup = setup(10);
        for depth in [100, 122, 126, 200, 1_000] {
            let text = format!(
                r#"{{"apiVersion":"v1","kind":"A","metadata":{{"name":"a"}},"spec":{}{}}}"#,
                "[".repeat(depth),
                "]".repeat(depth)
            );
            let object = Object::from_json(text).expect("an object");
            let request = HostRequest::CacheGet { watch: "w".into(), key: object.key().clone() };
            let call = HostCall { request, answer: HostAnswer::Object(Some(object)) };
            let written = setup.writer.write(&captured("p", "deep", vec![call])).expect("written");
            assert_eq!(matches!(written, LineOutcome::Written { .. }), depth == 100, "{depth}: {written:?}");
        }
        setup.write("p", "next");
        assert_eq!(setup.names("p"), [["deep", "next"]], "in files that can be read");
    }

    impl Setup {
        fn write(&mut self, plugin: &str, name: &str) {
            let written = self.writer.write(&captured(plugin, name, Vec::new())).expect("written");
            assert!(matches!(written, LineOutcome::Written { not_removed: None, .. }), "{written:?}");
        }

        fn directory(&self, plugin: &str) -> PathBuf {
            self.folder.path().join("recordings").join(plugin)
        }

        /// Returns the names of the objects in the recording, file by file.
        fn names(&self, plugin: &str) -> Vec<Vec<String>> {
            let entries = fs::read_dir(self.directory(plugin)).expect("a folder");
            let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
            files.sort();
            files.iter().map(|path| names_in(path)).collect()
        }
    }

    fn names_in(path: &Path) -> Vec<String> {
        let mut reader = RecordingReader::open(path).expect("a recording");
        let mut names = Vec::new();
        while let Some(reconcile) = reader.next_reconcile().expect("a line") {
            names.push(reconcile.name);
        }
        names
    }

    #[test]
    fn the_last_reconciles_of_each_plugin_are_kept() {
        let mut setup = setup(2);
        for name in ["a", "b", "c", "d"] {
            setup.write("p", name);
        }
        setup.write("q", "e");
        assert_eq!(setup.names("p"), [["c"], ["d"]]);
        assert_eq!(setup.names("q"), [["e"]]);
    }

    /// Another user may write to the directory if the operator shares it.
    #[test]
    fn a_link_in_place_of_a_file_is_not_followed() {
        let mut setup = setup(100);
        setup.write("p", "a");
        let (file, victim) =
            (setup.directory("p").join("00000001.jsonl"), setup.folder.path().join("victim"));
        fs::write(&victim, "untouched").expect("written");
        fs::remove_file(&file).expect("removed");
        std::os::unix::fs::symlink(&victim, &file).expect("linked");
        setup.writer.write(&captured("p", "b", Vec::new())).expect_err("a link");
        assert_eq!(fs::read_to_string(&victim).expect("a file"), "untouched");
        fs::remove_file(&file).expect("removed");
        setup.write("p", "c");
        assert_eq!(setup.names("p"), [["c"]], "a new file");
    }

    #[test]
    fn a_restarted_host_continues_with_a_new_file() {
        let mut setup = setup(100);
        setup.write("p", "a");
        setup.write("p", "b");
        setup.writer = RecordingWriter::new(&options(&setup.folder, 100), [8; 32]);
        setup.write("p", "c");
        assert_eq!(setup.names("p"), [vec!["a", "b"], vec!["c"]]);
    }

    #[test]
    fn an_old_file_that_cannot_be_removed_is_tried_again_and_the_reconcile_counts_as_written() {
        let mut setup = setup(1);
        setup.write("p", "a");
        let old = setup.directory("p").join(name_of(1));
        fs::remove_file(&old).expect("removed");
        fs::create_dir(&old).expect("a directory in its place");
        for (number, name) in [(2, "b"), (3, "c")] {
            let written = setup.writer.write(&captured("p", name, Vec::new())).expect("written");
            assert!(matches!(written, LineOutcome::Written { not_removed: Some(_), .. }), "{written:?}");
            assert_eq!(names_in(&setup.directory("p").join(name_of(number))), [name]);
        }
        assert!(!setup.directory("p").join(name_of(2)).exists(), "the others are removed");
        fs::remove_dir(&old).expect("removed");
        fs::write(&old, "").expect("a file that can be removed");
        setup.write("p", "d");
        assert_eq!(setup.names("p"), [["d"]]);
    }

    #[test]
    fn the_head_of_a_version_is_made_once() {
        let metrics = RecordingMetrics::register(&mut Registry::default());
        let (recorder, mut captured) = Recorder::new(SecretMode::Hashed, WallClock::default(), metrics);
        let config = format!(r#"{{"a":"{}"}}"#, "b".repeat(1 << 20));
        let version = version_with(&recorder, "p", &config);
        let mut setup = setup(100);
        let mut write = || {
            record_of(&*version, "a", Vec::new());
            let one = captured.receiver.try_recv().expect("a reconcile");
            allocation_counter::measure(|| drop(setup.writer.write(&one).expect("written")))
        };
        assert!(write().bytes_total > 1 << 20, "it begins a file");
        let continued = write().bytes_total;
        assert!(continued < 64 << 10, "{continued} bytes");
    }

    #[test]
    fn only_the_user_may_read_a_recording() {
        let mut setup = setup(1);
        setup.write("p", "a");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        let directory = setup.directory("p");
        assert_eq!((mode(&directory), mode(&directory.join("00000001.jsonl"))), (0o700, 0o600));
    }

    #[test]
    fn a_failed_write_is_followed_by_a_new_file() {
        let mut setup = setup(100);
        setup.write("p", "a");
        let file = setup.directory("p").join("00000001.jsonl");
        fs::remove_file(&file).expect("removed");
        fs::create_dir(&file).expect("a directory in its place");
        assert!(setup.writer.write(&captured("p", "b", Vec::new())).is_err());
        setup.write("p", "c");
        assert_eq!(names_in(&setup.directory("p").join("00000002.jsonl")), ["c"]);
    }

    #[test]
    fn an_incomplete_file_of_a_killed_host_is_replaced() {
        let mut setup = setup(100);
        let directory = setup.directory("p");
        create_directory(&directory).expect("a directory");
        fs::write(directory.join("00000001.jsonl.partial"), "{\"format\":").expect("written");
        setup.write("p", "a");
        assert_eq!(setup.names("p"), [["a"]], "there is no other file");
    }

    #[test]
    fn writes_that_fail_delete_no_older_recording() {
        let mut setup = setup(1);
        setup.write("p", "a");
        for number in 2..5 {
            let taken = setup.directory("p").join(name_of(number));
            fs::create_dir(&taken).expect("a directory in its place");
            assert!(setup.writer.write(&captured("p", "b", Vec::new())).is_err());
            assert_eq!(names_in(&setup.directory("p").join(name_of(1))), ["a"]);
            fs::remove_dir(&taken).expect("removed");
        }
        setup.write("p", "c");
        let files: Vec<_> = fs::read_dir(setup.directory("p")).expect("a folder").collect();
        assert_eq!((setup.names("p"), files.len()), (vec![vec!["c".to_owned()]], 1));
    }

    #[test]
    fn the_values_of_secrets_are_not_written() {
        let mut setup = setup(1);
        let manifest =
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"a":"swordfish"}}"#;
        let request = HostRequest::ClientCreate { manifest: manifest.to_owned(), subresource: String::new() };
        let create = HostCall { request, answer: HostAnswer::Object(None) };
        setup.writer.write(&captured("p", "a", vec![create])).expect("written");
        let text = fs::read_to_string(setup.directory("p").join("00000001.jsonl")).expect("a file");
        assert!(text.contains("hmac-sha256:") && !text.contains("swordfish"), "{text}");
    }

    #[test]
    fn names_of_other_files_are_no_numbers() {
        assert_eq!(number_of(&name_of(12)), Some(12));
        for name in [
            "12",
            "a.jsonl",
            ".jsonl",
            "-1.jsonl",
            "+0000001.jsonl",
            "12.jsonl",
            "99999999999999999999999.jsonl",
        ] {
            assert_eq!(number_of(name), None, "{name}");
        }
    }
}
