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
/// The maximum length of a text in a difference, in bytes.
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
    /// Reconciles that were not compared, because the shadow was behind.
    pub dropped: u64,
    /// Why the shadow does not run; "" if it does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// The last differences, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<ShadowDifference>,
}

/// The first difference in one reconcile. It contains no content of objects.
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

/// The shadow that an operator wants for a plugin, and what is known of it.
pub(crate) struct ShadowReport {
    file: PathBuf,
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
    pub(crate) fn new(file: PathBuf, metrics: Arc<PluginMetrics>, clock: WallClock) -> Self {
        Self { file, metrics, clock, state: Mutex::default() }
    }

    /// The file of the new version.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Begins with a version of these names. What was counted of another one is forgotten.
    pub(crate) fn begin(&self, digest: &str, version: &str) {
        let mut state = self.state.lock();
        if state.status.digest != digest {
            *state = ReportState::default();
        }
        let (digest, version) = (digest.to_owned(), version.to_owned());
        state.status =
            ShadowStatus { digest, version, error: String::new(), ..std::mem::take(&mut state.status) };
    }

    /// Reports that the shadow cannot run.
    pub(crate) fn set_error(&self, error: String) {
        self.state.lock().status.error = error;
    }

    /// Counts a comparison.
    pub(super) fn record(&self, item: &Item, comparison: Comparison) {
        let mut state = self.state.lock();
        match comparison {
            Comparison::Agrees => {
                state.status.agreed += 1;
                self.metrics.shadow_agreed.inc();
            }
            Comparison::Skipped => {
                state.status.skipped += 1;
                self.metrics.shadow_skipped.inc();
            }
            Comparison::Differs(Difference { running, shadow, place }) => {
                state.status.differed += 1;
                self.metrics.shadow_differed.inc();
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
        self.state.lock().status.dropped += 1;
        self.metrics.shadow_dropped.inc();
    }

    /// Returns the status.
    pub(crate) fn status(&self) -> ShadowStatus {
        let state = self.state.lock();
        ShadowStatus {
            file: self.file.display().to_string(),
            differences: state.differences.iter().cloned().collect(),
            ..state.status.clone()
        }
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
        ShadowReport::new("new.wasm".into(), metrics, WallClock::default())
    }

    fn differs(text: &str) -> Comparison {
        let [running, shadow, place] = [text, "returns done", ""].map(str::to_owned);
        Comparison::Differs(Difference { running, shadow, place })
    }

    #[test]
    fn comparisons_are_counted_and_the_last_differences_kept() {
        let report = report();
        let item = Item { watch: "maps".into(), key: ObjectKey::new("n", "a") };
        report.begin("ab", "1.0.0");
        for number in 0..MAX_DIFFERENCES + 2 {
            report.record(&item, differs(&number.to_string()));
        }
        report.record(&item, Comparison::Agrees);
        report.record(&item, Comparison::Skipped);
        report.record_dropped();
        let status = report.status();
        assert_eq!((status.agreed, status.differed, status.skipped, status.dropped), (1, 22, 1, 1));
        assert_eq!((status.file.as_str(), status.digest.as_str()), ("new.wasm", "ab"));
        let shown: Vec<_> = status.differences.iter().map(|one| one.running.as_str()).collect();
        assert_eq!((shown.len(), shown[0], shown[19]), (20, "2", "21"));
        assert_eq!(report.metrics.shadow_differed.get(), 22);
    }

    #[test]
    fn another_shadow_begins_without_counts_and_a_reload_of_the_same_keeps_them() {
        let report = report();
        let item = Item { watch: "maps".into(), key: ObjectKey::new("n", "a") };
        report.begin("ab", "1.0.0");
        report.record(&item, differs("a"));
        report.set_error("it is gone".to_owned());
        report.begin("ab", "1.0.0");
        assert_eq!((report.status().differed, report.status().error.as_str()), (1, ""));
        report.begin("cd", "2.0.0");
        let status = report.status();
        assert_eq!((status.differed, status.differences.len(), status.version.as_str()), (0, 0, "2.0.0"));
    }

    #[test]
    fn long_texts_are_cut() {
        let report = report();
        let item = Item { watch: "maps".into(), key: ObjectKey::new("n", "a") };
        report.record(&item, differs(&"ä".repeat(MAX_TEXT)));
        assert!(report.status().differences[0].running.len() <= MAX_TEXT);
    }
}
