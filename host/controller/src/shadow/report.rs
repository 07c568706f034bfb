//! What is known of a plugin's shadow: counts and the last differences, for the status, the metrics and the page.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::script::{Comparison, Difference};
use crate::WallClock;
use crate::metrics::PluginMetrics;
use crate::runtime::queue::Item;

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

/// What is known of the shadow of a plugin.
pub(crate) struct ShadowReport {
    /// The file that the host's flags name.
    flag: Option<PathBuf>,
    metrics: Arc<PluginMetrics>,
    clock: WallClock,
    /// `None` without a shadow.
    state: Mutex<Option<ReportState>>,
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
        Self { flag, metrics, clock, state: Mutex::default() }
    }

    /// Returns the file that the host's flags name.
    pub(crate) fn flag(&self) -> Option<&Path> {
        self.flag.as_deref()
    }

    /// Begins with the version in this file. What was counted of another one is forgotten.
    pub(crate) fn begin(&self, file: &Path, digest: &str, version: &str) {
        let mut state = self.state.lock();
        let known = state.take().filter(|state| state.status.digest == digest).unwrap_or_default();
        let status = ShadowStatus {
            file: file.display().to_string(),
            digest: digest.to_owned(),
            version: version.to_owned(),
            error: String::new(),
            ..known.status
        };
        *state = Some(ReportState { status, differences: known.differences });
    }

    /// Reports that the shadow in this file cannot run.
    pub(crate) fn fail(&self, file: &Path, error: String) {
        let (file, error) = (file.display().to_string(), shortened(error));
        let status = ShadowStatus { file, error, ..ShadowStatus::default() };
        *self.state.lock() = Some(ReportState { status, differences: VecDeque::new() });
    }

    /// Reports that the shadow does not run any more.
    pub(super) fn set_error(&self, error: String) {
        if let Some(state) = &mut *self.state.lock() {
            state.status.error = shortened(error);
        }
    }

    /// Reports that there is no shadow.
    pub(crate) fn end(&self) {
        *self.state.lock() = None;
    }

    /// Counts a comparison.
    pub(super) fn record(&self, item: &Item, comparison: Comparison) {
        let counter = match &comparison {
            Comparison::Agrees => &self.metrics.shadow_agreed,
            Comparison::Skipped => &self.metrics.shadow_skipped,
            Comparison::Differs(_) => &self.metrics.shadow_differed,
        };
        counter.inc();
        let mut state = self.state.lock();
        // The shadow may have been taken away while it worked.
        let Some(state) = &mut *state else { return };
        match comparison {
            Comparison::Agrees => state.status.agreed += 1,
            Comparison::Skipped => state.status.skipped += 1,
            Comparison::Differs(Difference { running, shadow, place }) => {
                state.status.differed += 1;
                if state.differences.len() == MAX_DIFFERENCES {
                    state.differences.pop_front();
                }
                state.differences.push_back(ShadowDifference {
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
        if let Some(state) = &mut *self.state.lock() {
            state.status.dropped += 1;
        }
    }

    /// Returns the status; `None` without a shadow.
    pub(crate) fn status(&self) -> Option<ShadowStatus> {
        let state = self.state.lock();
        let ReportState { status, differences } = state.as_ref()?;
        Some(ShadowStatus { differences: differences.iter().cloned().collect(), ..status.clone() })
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
        let metrics = Metrics::register(&mut Registry::default()).of(&name);
        ShadowReport::new(None, metrics, WallClock::default())
    }

    fn status(report: &ShadowReport) -> ShadowStatus {
        report.status().expect("a shadow")
    }

    fn differs(text: &str) -> Comparison {
        let [running, shadow, place] = [text, "returns done", ""].map(str::to_owned);
        Comparison::Differs(Difference { running, shadow, place })
    }

    fn item() -> Item {
        Item { watch: "maps".into(), key: ObjectKey::new("n", "a") }
    }

    #[test]
    fn comparisons_are_counted_and_the_last_differences_kept() {
        let report = report();
        report.begin(Path::new("new.wasm"), "ab", "1.0.0");
        for number in 0..MAX_DIFFERENCES + 2 {
            report.record(&item(), differs(&number.to_string()));
        }
        report.record(&item(), Comparison::Agrees);
        report.record(&item(), Comparison::Skipped);
        report.record_dropped();
        let status = status(&report);
        assert_eq!((status.agreed, status.differed, status.skipped, status.dropped), (1, 22, 1, 1));
        assert_eq!((status.file.as_str(), status.digest.as_str()), ("new.wasm", "ab"));
        let shown: Vec<_> = status.differences.iter().map(|one| one.running.as_str()).collect();
        assert_eq!((shown.len(), shown[0], shown[19]), (20, "2", "21"));
        assert_eq!(report.metrics.shadow_differed.get(), 22);
    }

    #[test]
    fn another_shadow_begins_without_counts_and_a_reload_of_the_same_keeps_them() {
        let (report, file) = (report(), Path::new("new.wasm"));
        report.begin(file, "ab", "1.0.0");
        report.record(&item(), differs("a"));
        report.set_error("it is gone".to_owned());
        report.begin(file, "ab", "1.0.0");
        assert_eq!((status(&report).differed, status(&report).error.as_str()), (1, ""));
        report.begin(file, "cd", "2.0.0");
        let found = status(&report);
        assert_eq!((found.differed, found.differences.len(), found.version.as_str()), (0, 0, "2.0.0"));
    }

    #[test]
    fn a_plugin_without_a_shadow_has_no_status_of_one() {
        let (report, file) = (report(), Path::new("new.wasm"));
        assert_eq!(report.status(), None);
        report.fail(file, "it is no wasm".to_owned());
        assert_eq!(status(&report).error, "it is no wasm");
        report.end();
        report.record(&item(), Comparison::Agrees);
        assert_eq!((report.status(), report.metrics.shadow_agreed.get()), (None, 1));
    }

    #[test]
    fn long_texts_are_cut() {
        let report = report();
        report.begin(Path::new("new.wasm"), "ab", "1.0.0");
        report.record(&item(), differs(&"ä".repeat(MAX_TEXT)));
        assert!(status(&report).differences[0].running.len() <= MAX_TEXT);
        report.set_error("ä".repeat(MAX_TEXT));
        assert!(status(&report).error.len() <= MAX_TEXT);
        report.fail(Path::new("new.wasm"), "ä".repeat(MAX_TEXT));
        assert!(status(&report).error.len() <= MAX_TEXT);
    }
}
