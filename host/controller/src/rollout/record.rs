//! What a restarted host must know of a plugin's versions, as a file beside the compiled plugins.
//!
//! Without it, a host that restarts would run the version that was rolled back, since that is the one in the plugins directory. The file is
//! bounded, and a file that cannot be parsed counts as absent: then the host runs what is in the plugins directory, as on its first start.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::decision::Counts;
use super::known_version::KnownVersion;
use super::probation::Probation;
use super::state::{HeldBack, MAX_VERSIONS, RolloutState};
use crate::name::PluginName;
use crate::private_file::{self, Durability};

/// The format of the file. A file of another format counts as absent.
const FORMAT: u32 = 1;
/// The maximum size of a file in bytes.
const MAX_SIZE: u64 = 64 << 10;
/// The maximum number of files in the directory. Hosts of other plugins directories share it, and those may be temporary.
const MAX_FILES: usize = 1000;

/// The state of a plugin's versions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    format: u32,
    /// Whether a version was running. If so, the host ended without a shutdown.
    is_running: bool,
    versions: Vec<KnownVersion>,
    running: Option<RunningRecord>,
    held_back: Option<HeldBack>,
    probation: Option<RecordedProbation>,
    /// The version that was running beside the running one.
    #[serde(default)]
    canary: Option<RecordedCanary>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedCanary {
    version: KnownVersion,
    /// `None` if it was not in probation.
    abrupt_ends: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RunningRecord {
    version: KnownVersion,
    counts: Counts,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedProbation {
    digest: String,
    previous: KnownVersion,
    old: Counts,
    abrupt_ends: u32,
}

impl Record {
    /// Returns the record of this state; `None` if a host without a record would do the same.
    pub(super) fn of(state: &RolloutState, counters: Counts, is_running: bool) -> Option<Self> {
        let is_needed = state.has_probation
            || state.probation.is_some()
            || state.canary.is_some()
            || state.held_back.is_some()
            || state.versions.len() > 1;
        is_needed.then(|| Self {
            format: FORMAT,
            is_running,
            versions: state.versions.clone(),
            running: state.running.as_ref().map(|running| RunningRecord {
                version: running.version.clone(),
                counts: running.total(counters),
            }),
            held_back: state.held_back.clone(),
            probation: state.probation.as_ref().map(|probation| RecordedProbation {
                digest: probation.digest.clone(),
                previous: probation.previous.clone(),
                old: probation.old,
                abrupt_ends: probation.abrupt_ends,
            }),
            canary: state.canary.as_ref().map(|canary| RecordedCanary {
                version: canary.version.clone(),
                abrupt_ends: canary.probation.as_ref().map(|probation| probation.abrupt_ends),
            }),
        })
    }

    /// Returns the state to continue with. A probation starts again, and counts how often the host ended without a shutdown.
    pub(super) fn restored(self, now: Instant, time: Timestamp) -> RolloutState {
        let probation = self.probation.map(|recorded| {
            let RecordedProbation { digest, previous, old, abrupt_ends } = recorded;
            // The period is that of the sidecar, which is not read yet.
            let (period, start) = (Duration::MAX, Counts::default());
            let mut probation = Probation::begin(digest, (previous, old), period, start, now);
            probation.abrupt_ends = abrupt_ends.saturating_add(u32::from(self.is_running));
            probation
        });
        let running = self.running.map(|running| (running.version, running.counts));
        let mut state = RolloutState::default();
        state.restore((now, time), self.versions, running, self.held_back, probation);
        if let Some(RecordedCanary { version, abrupt_ends }) = self.canary {
            let abrupt_ends = abrupt_ends.map(|ends| ends.saturating_add(u32::from(self.is_running)));
            state.restore_canary(version, abrupt_ends, (now, time));
        }
        state
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mut record: Self = serde_json::from_slice(text).ok()?;
        record.versions.truncate(MAX_VERSIONS);
        let versions = record.versions.iter().chain(record.running.iter().map(|running| &running.version));
        let versions = versions.chain(record.held_back.iter().map(|held_back| &held_back.runs));
        let versions = versions.chain(record.canary.iter().map(|canary| &canary.version));
        let mut versions = versions.chain(record.probation.iter().map(|probation| &probation.previous));
        (record.format == FORMAT && versions.all(|version| version.sum().is_some())).then_some(record)
    }
}

/// The file with a plugin's record. Its functions block.
#[derive(Clone, Debug)]
pub(crate) struct RecordFile {
    directory: PathBuf,
    path: PathBuf,
}

impl RecordFile {
    /// Returns the file of a plugin in the cache directory. Hosts of other plugins directories use other files.
    pub(crate) fn new(cache: &Path, plugins: &Path, plugin: &PluginName) -> Self {
        let plugins = plugins.canonicalize().unwrap_or_else(|_| plugins.to_owned());
        let sum = Sha256::digest(plugins.as_os_str().as_encoded_bytes());
        let host: String = sum.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let directory = cache.join("rollouts");
        Self { path: directory.join(format!("{}-{host}.json", plugin.as_str())), directory }
    }

    /// Reads the record; `None` if there is none that can be used.
    pub(super) fn read(&self) -> Option<Record> {
        let text = match read_bounded(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!("{} is not used: {error}; the plugins directory decides", self.path.display());
                return None;
            }
        };
        let record = Record::parse(&text);
        if record.is_none() {
            let path = self.path.display();
            tracing::warn!(
                "{path} is not used: it is damaged or of another version; the plugins directory decides"
            );
        }
        record
    }

    /// Replaces the file; `None` removes it. Errors are logged: the plugin runs without a record.
    pub(super) fn write(&self, record: Option<&Record>) {
        let written = match record {
            Some(record) => self.replace(record),
            None => match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        };
        if let Err(error) = written {
            tracing::warn!(
                "cannot write {}: {error}; a restarted host runs what is in the plugins directory (free space there)",
                self.path.display()
            );
        }
    }

    fn replace(&self, record: &Record) -> io::Result<()> {
        if !self.path.exists() {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
            remove_oldest(&self.directory)?;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "makes a file's name unique among processes; nothing else depends on it"
        )]
        let partial = self.path.with_extension(format!("{:016x}.partial", rand::random::<u64>()));
        // A file that is empty after a loss of power would count as absent.
        private_file::replace(&self.path, &partial, &serde_json::to_vec(record)?, Durability::PowerLoss)
    }
}

/// Reads a regular file of at most [`MAX_SIZE`] bytes.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    // Non-blocking, because opening a named pipe would wait for a writer.
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = Vec::new();
    file.take(MAX_SIZE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_SIZE {
        return Err(io::Error::other(format!("it has more than {MAX_SIZE} bytes")));
    }
    Ok(text)
}

/// Makes room for another file in the directory.
fn remove_oldest(directory: &Path) -> io::Result<()> {
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // Another process may have removed it meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        files.push((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), entry.path()));
    }
    files.sort_unstable();
    let surplus = (files.len() + 1).saturating_sub(MAX_FILES);
    for (_, path) in files.into_iter().take(surplus) {
        let _ = fs::remove_file(path);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::decision::MAX_ABRUPT_ENDS;
    use super::super::state::Installation;
    use super::*;

    fn file() -> (tempfile::TempDir, RecordFile) {
        let folder = tempfile::tempdir().expect("a folder");
        let name = PluginName::of_file(Path::new("p.wasm")).expect("a name");
        let file = RecordFile::new(&folder.path().join("cache"), folder.path(), &name);
        (folder, file)
    }

    /// A record of a version that was in probation when the host crashed.
    fn in_probation() -> Record {
        let [old, new] = ["old", "new"].map(KnownVersion::for_test);
        let counts = Counts { reconciles: 7, errors: 2 };
        let probation = RecordedProbation {
            digest: new.digest.clone(),
            previous: old.clone(),
            old: Counts { reconciles: 100, errors: 1 },
            abrupt_ends: 1,
        };
        Record {
            format: FORMAT,
            is_running: true,
            versions: vec![new.clone(), old],
            running: Some(RunningRecord { version: new, counts }),
            held_back: None,
            probation: Some(probation),
            canary: None,
        }
    }

    /// A record of a canary in probation when the host crashed.
    fn with_canary(abrupt_ends: Option<u32>) -> Record {
        let [old, new] = ["old", "new"].map(KnownVersion::for_test);
        let running = RunningRecord { version: old.clone(), counts: Counts::default() };
        let canary = Some(RecordedCanary { version: new, abrupt_ends });
        Record { versions: vec![old], running: Some(running), probation: None, canary, ..in_probation() }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let (_folder, file) = file();
        assert_eq!(file.read(), None);
        let record = in_probation();
        file.write(Some(&record));
        assert_eq!(file.read(), Some(record.clone()));
        file.write(Some(&Record { is_running: false, ..record.clone() }));
        assert_eq!(file.read(), Some(Record { is_running: false, ..record }));
        let files: Vec<_> = fs::read_dir(&file.directory).expect("readable").collect();
        assert_eq!(files.len(), 1, "{files:?}");
        file.write(None);
        file.write(None);
        assert_eq!(file.read(), None);
    }

    #[test]
    fn a_restored_state_has_the_same_record() {
        let state = in_probation().restored(Instant::now(), Timestamp::UNIX_EPOCH);
        assert_eq!(state.probation.as_ref().map(|probation| probation.abrupt_ends), Some(2));
        let again = Record::of(&state, Counts::default(), false).expect("it is needed");
        let mut expected = Record { is_running: false, ..in_probation() };
        expected.probation.as_mut().expect("in probation").abrupt_ends = 2;
        assert_eq!(again, expected);
        // A shutdown is not a crash.
        let state = again.restored(Instant::now(), Timestamp::UNIX_EPOCH);
        assert_eq!(state.probation.map(|probation| probation.abrupt_ends), Some(2));
    }

    #[test]
    fn a_version_that_crashes_the_host_again_and_again_is_rolled_back_before_it_runs() {
        let mut record = in_probation();
        let [old, new] = ["old", "new"].map(KnownVersion::for_test);
        record.probation.as_mut().expect("in probation").abrupt_ends = MAX_ABRUPT_ENDS - 1;
        let mut state = record.restored(Instant::now(), Timestamp::UNIX_EPOCH);
        assert_eq!(state.replacement(&new.digest), Some(old.clone()));
        assert_eq!(state.replacement(&KnownVersion::for_test("newer").digest), None);
        let installation = Installation {
            version: old,
            file_digest: new.digest,
            probation: Some(Duration::from_secs(300)),
            counts: Counts::default(),
            previous_backs_off: false,
            awaits_canary: false,
        };
        let installed = state.record_installation(&installation, Instant::now(), Timestamp::UNIX_EPOCH);
        let (reason, is_automatic) = installed.rollback.expect("it is reported");
        assert!(is_automatic && reason.contains("the host ended without a shutdown 3 times"), "{reason}");
        let again = state.record_installation(&installation, Instant::now(), Timestamp::UNIX_EPOCH);
        assert_eq!(again.rollback, None, "once");
    }

    #[test]
    fn a_restored_canary_continues_unless_it_has_crashed_the_host_too_often() {
        let new = KnownVersion::for_test("new");
        for (abrupt_ends, is_rolled_back) in [
            (None, false),
            (Some(0), false),
            (Some(MAX_ABRUPT_ENDS - 1), true),
            (Some(MAX_ABRUPT_ENDS), true),
        ] {
            let mut state = with_canary(abrupt_ends).restored(Instant::now(), Timestamp::UNIX_EPOCH);
            assert_eq!(
                state.decide_versions(&new.digest, true).has_canary,
                !is_rolled_back,
                "{abrupt_ends:?}"
            );
            assert_eq!(state.held_back.is_some(), is_rolled_back, "{abrupt_ends:?}");
            let again = Record::of(&state, Counts::default(), false).expect("it is needed");
            let recorded = again.canary.map(|canary| canary.abrupt_ends);
            let counted = abrupt_ends.map(|ends| ends + 1);
            assert_eq!(recorded, (!is_rolled_back).then_some(counted), "the crash counts");
        }
    }

    #[test]
    fn a_record_of_an_earlier_release_has_no_canary() {
        let mut json = serde_json::to_value(in_probation()).expect("JSON");
        json.as_object_mut().expect("an object").remove("canary");
        assert_eq!(Record::parse(json.to_string().as_bytes()), Some(in_probation()));
    }

    #[test]
    fn a_plugin_with_one_version_has_no_record() {
        let mut state = RolloutState::default();
        assert_eq!(Record::of(&state, Counts::default(), true), None);
        state.versions.push(KnownVersion::for_test("only"));
        assert_eq!(Record::of(&state, Counts::default(), true), None);
        state.versions.push(KnownVersion::for_test("other"));
        assert!(Record::of(&state, Counts::default(), true).is_some());
    }

    #[test]
    fn a_hostile_file_counts_as_absent() {
        let (folder, file) = file();
        let valid = serde_json::to_string(&in_probation()).expect("JSON");
        fs::create_dir_all(&file.directory).expect("created");
        for text in [
            "".to_owned(),
            "[]".to_owned(),
            "[".repeat(100_000),
            " ".repeat(MAX_SIZE as usize + 1),
            valid.replace("\"format\":1", "\"format\":2"),
            valid.replace(&KnownVersion::for_test("old").digest, "../../etc/passwd"),
        ] {
            fs::write(&file.path, &text).expect("written");
            assert_eq!(file.read(), None, "{text:.100}");
        }
        fs::remove_file(&file.path).expect("removed");
        fs::write(folder.path().join("elsewhere"), &valid).expect("written");
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &file.path).expect("linked");
        assert_eq!(file.read(), None, "a link is not followed");
    }

    #[test]
    fn the_number_of_files_is_bounded() {
        let (_folder, file) = file();
        fs::create_dir_all(&file.directory).expect("created");
        for number in 0..MAX_FILES + 5 {
            fs::write(file.directory.join(number.to_string()), "").expect("written");
        }
        file.write(Some(&in_probation()));
        assert_eq!(fs::read_dir(&file.directory).expect("readable").count(), MAX_FILES);
        assert!(file.read().is_some());
    }
}
