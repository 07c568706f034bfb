//! What is known of a plugin's shadow: counts and the last differences, for the status, the metrics and the page.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::script::{Comparison, Difference};
use crate::WallClock;
use crate::metrics::PluginMetrics;
use crate::runtime::queue::ReconcileKey;

/// The number of differences that are kept.
const MAX_DIFFERENCES: usize = 20;
/// The maximum length of an error and of a text in a difference, in bytes.
const MAX_TEXT: usize = 1 << 10;

/// The shadow of a plugin, as `/api/plugins` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowStatus {
    /// The file of the new version.
    pub file: String,
    /// SHA-256 of that file, in hex; "" until it is loaded.
    pub digest: String,
    /// The version that its descriptor names.
    pub version: String,
    /// Reconciles in which both versions made the same writes and returned the same.
    pub agreed: u64,
    /// Reconciles in which a write or the result differs.
    pub differed: u64,
    /// Reconciles that cannot be compared, because the shadow sends an HTTP request, or because a write has no answer.
    pub skipped: u64,
    /// Reconciles that were not compared, because the shadow was behind, or because they are too large.
    pub dropped: u64,
    /// Why the shadow does not run; "" if it does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// The last differences, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<ShadowDifference>,
}

/// The first difference in one reconcile. It contains no content of objects, except what the error of a version repeats.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowDifference {
    /// When the reconcile was compared, in RFC 3339.
    pub time: String,
    /// The target watch.
    pub watch: String,
    /// The key.
    pub key: String,
    /// What the running version did.
    pub running: String,
    /// What the shadow did.
    pub shadow: String,
    /// The place at which two writes of one object differ, as a JSON pointer into their arguments; absent otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
}

/// What is shown of the shadow of a plugin: that of the running version.
pub(crate) struct ShadowReport {
    /// The file that the host's flags name.
    flag: Option<PathBuf>,
    metrics: Arc<PluginMetrics>,
    clock: WallClock,
    /// `None` without a shadow.
    current: Mutex<Option<Arc<ShadowRecord>>>,
}

/// What is known of the shadow of one version of a plugin. Each load creates one, which is shown while that version runs: the shadow of the
/// version before may work until the swap, and for a moment longer.
pub(crate) struct ShadowRecord {
    metrics: Arc<PluginMetrics>,
    clock: WallClock,
    state: Mutex<ReportState>,
}

#[derive(Default)]
struct ReportState {
    /// Without the differences.
    status: ShadowStatus,
    differences: VecDeque<ShadowDifference>,
}

impl ShadowReport {
    /// Creates the report of a plugin for which the host's flags name this file, or none.
    pub(crate) fn new(flag: Option<PathBuf>, metrics: Arc<PluginMetrics>, clock: WallClock) -> Self {
        Self { flag, metrics, clock, current: Mutex::default() }
    }

    /// Returns the file that the host's flags name.
    pub(crate) fn flag(&self) -> Option<&Path> {
        self.flag.as_deref()
    }

    /// Creates the record of the version in this file, which runs in the shadow of a version that is being loaded.
    pub(crate) fn record_of(&self, file: &Path, digest: &str, version: &str) -> Arc<ShadowRecord> {
        self.new_record(ShadowStatus {
            file: file.display().to_string(),
            digest: digest.to_owned(),
            version: version.to_owned(),
            ..ShadowStatus::default()
        })
    }

    /// Creates the record of a shadow in this file that cannot run.
    pub(crate) fn record_of_failure(&self, file: &Path, error: String) -> Arc<ShadowRecord> {
        let (file, error) = (file.display().to_string(), shortened(error));
        self.new_record(ShadowStatus { file, error, ..ShadowStatus::default() })
    }

    fn new_record(&self, status: ShadowStatus) -> Arc<ShadowRecord> {
        let state = Mutex::new(ReportState { status, differences: VecDeque::new() });
        Arc::new(ShadowRecord { metrics: Arc::clone(&self.metrics), clock: self.clock, state })
    }

    /// Shows the shadow of the version that runs from now on; `None` if it has none. A shadow with the code of the one before continues its
    /// counts.
    pub(crate) fn show(&self, record: Option<&Arc<ShadowRecord>>) {
        let mut current = self.current.lock();
        if let (Some(before), Some(record)) = (&*current, record)
            && !Arc::ptr_eq(before, record)
        {
            record.continue_counts(before);
        }
        *current = record.cloned();
    }

    /// Returns the status; `None` without a shadow.
    pub(crate) fn status(&self) -> Option<ShadowStatus> {
        let current = self.current.lock().clone()?;
        let ReportState { status, differences } = &*current.state.lock();
        Some(ShadowStatus { differences: differences.iter().cloned().collect(), ..status.clone() })
    }
}

impl ShadowRecord {
    /// Adds the counts and the differences of a shadow with the same code.
    fn continue_counts(&self, before: &Self) {
        let (counted, differences) = {
            let state = before.state.lock();
            (state.status.clone(), state.differences.clone())
        };
        let mut state = self.state.lock();
        if state.status.digest != counted.digest {
            return;
        }
        let status = &mut state.status;
        status.agreed += counted.agreed;
        status.differed += counted.differed;
        status.skipped += counted.skipped;
        status.dropped += counted.dropped;
        let newer = std::mem::replace(&mut state.differences, differences);
        newer.into_iter().for_each(|difference| state.add_difference(difference));
    }

    /// Records that the shadow does not run any more.
    pub(super) fn set_error(&self, error: String) {
        self.state.lock().status.error = shortened(error);
    }

    /// Counts a comparison.
    pub(super) fn record(&self, item: &ReconcileKey, comparison: Comparison) {
        let counter = match &comparison {
            Comparison::Agrees => &self.metrics.shadow_agreed,
            Comparison::Skipped => &self.metrics.shadow_skipped,
            Comparison::Differs(_) => &self.metrics.shadow_differed,
        };
        counter.inc();
        let mut state = self.state.lock();
        match comparison {
            Comparison::Agrees => state.status.agreed += 1,
            Comparison::Skipped => state.status.skipped += 1,
            Comparison::Differs(Difference { running, shadow, place }) => {
                state.status.differed += 1;
                state.add_difference(ShadowDifference {
                    time: self.clock.now().to_string(),
                    watch: item.watch.to_string(),
                    key: item.key.to_string(),
                    running: shortened(running),
                    shadow: shortened(shadow),
                    place: shortened(place),
                });
            }
        }
    }

    /// Counts a reconcile that is not compared, because the shadow is behind.
    pub(super) fn record_dropped(&self) {
        self.metrics.shadow_dropped.inc();
        self.state.lock().status.dropped += 1;
    }
}

impl ReportState {
    fn add_difference(&mut self, difference: ShadowDifference) {
        if self.differences.len() == MAX_DIFFERENCES {
            self.differences.pop_front();
        }
        self.differences.push_back(difference);
    }
}

fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}

#[cfg(test)]
mod tests {
    use pilothouse_model::ObjectKey;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::{Metrics, PluginName};

    fn report() -> ShadowReport {
        let name = PluginName::of_file(Path::new("p.wasm")).expect("a name");
        let metrics = Metrics::register(&mut Registry::default()).for_plugin(&name);
        ShadowReport::new(None, metrics, WallClock::default())
    }

    fn status(report: &ShadowReport) -> ShadowStatus {
        report.status().expect("a shadow")
    }

    /// Shows the record of a version, as the swap to it does.
    fn shown(report: &ShadowReport, digest: &str, version: &str) -> Arc<ShadowRecord> {
        let record = report.record_of(Path::new("new.wasm"), digest, version);
        report.show(Some(&record));
        record
    }

    fn differs(text: &str) -> Comparison {
        let [running, shadow, place] = [text, "returns done", ""].map(str::to_owned);
        Comparison::Differs(Difference { running, shadow, place })
    }

    fn item() -> ReconcileKey {
        ReconcileKey { watch: "maps".into(), key: ObjectKey::new("n", "a") }
    }

    #[test]
    fn comparisons_are_counted_and_the_last_differences_kept() {
        let report = report();
        let record = shown(&report, "ab", "1.0.0");
        for number in 0..MAX_DIFFERENCES + 2 {
            record.record(&item(), differs(&number.to_string()));
        }
        record.record(&item(), Comparison::Agrees);
        record.record(&item(), Comparison::Skipped);
        record.record_dropped();
        let status = status(&report);
        assert_eq!((status.agreed, status.differed, status.skipped, status.dropped), (1, 22, 1, 1));
        assert_eq!((status.file.as_str(), status.digest.as_str()), ("new.wasm", "ab"));
        let shown: Vec<_> = status.differences.iter().map(|one| one.running.as_str()).collect();
        assert_eq!((shown.len(), shown[0], shown[19]), (20, "2", "21"));
        assert_eq!(report.metrics.shadow_differed.get(), 22);
    }

    #[test]
    fn another_shadow_begins_without_counts_and_a_reload_of_the_same_keeps_them() {
        let report = report();
        let record = shown(&report, "ab", "1.0.0");
        record.record(&item(), differs("a"));
        record.set_error("it is gone".to_owned());
        let record = shown(&report, "ab", "1.0.0");
        assert_eq!((status(&report).differed, status(&report).error.as_str()), (1, ""));
        record.record(&item(), differs("b"));
        // A task that panicked shows its version again.
        report.show(Some(&record));
        let texts: Vec<_> = status(&report).differences.into_iter().map(|one| one.running).collect();
        assert_eq!((status(&report).differed, texts), (2, vec!["a".to_owned(), "b".to_owned()]));
        shown(&report, "cd", "2.0.0");
        let found = status(&report);
        assert_eq!((found.differed, found.differences.len(), found.version.as_str()), (0, 0, "2.0.0"));
    }

    #[test]
    fn a_shadow_that_is_loaded_is_shown_only_once_its_version_runs() {
        let report = report();
        let running = shown(&report, "ab", "1.0.0");
        running.record(&item(), Comparison::Agrees);
        let loaded = report.record_of(Path::new("new.wasm"), "cd", "2.0.0");
        drop(report.record_of_failure(Path::new("new.wasm"), "it is no wasm".to_owned()));
        running.record(&item(), differs("a"));
        let found = status(&report);
        assert_eq!((found.digest.as_str(), found.agreed, found.differed), ("ab", 1, 1));
        report.show(Some(&loaded));
        // The shadow of the version before has not compared everything yet.
        running.record(&item(), differs("b"));
        running.set_error("it is gone".to_owned());
        let found = status(&report);
        assert_eq!((found.digest.as_str(), found.differed, found.error.as_str()), ("cd", 0, ""));
        assert_eq!(report.metrics.shadow_differed.get(), 2, "the metric counts all");
    }

    #[test]
    fn a_plugin_without_a_shadow_has_no_status_of_one() {
        let report = report();
        assert_eq!(report.status(), None);
        let record = report.record_of_failure(Path::new("new.wasm"), "it is no wasm".to_owned());
        report.show(Some(&record));
        assert_eq!(status(&report).error, "it is no wasm");
        report.show(None);
        record.record(&item(), Comparison::Agrees);
        assert_eq!((report.status(), report.metrics.shadow_agreed.get()), (None, 1));
    }

    #[test]
    fn long_texts_are_cut() {
        let report = report();
        let record = shown(&report, "ab", "1.0.0");
        record.record(&item(), differs(&"ä".repeat(MAX_TEXT)));
        assert!(status(&report).differences[0].running.len() <= MAX_TEXT);
        record.set_error("ä".repeat(MAX_TEXT));
        assert!(status(&report).error.len() <= MAX_TEXT);
        let record = report.record_of_failure(Path::new("new.wasm"), "ä".repeat(MAX_TEXT));
        report.show(Some(&record));
        assert!(status(&report).error.len() <= MAX_TEXT);
    }
}
