//! Counts what becomes of the plugins from registries.

use pilothouse_registry::Problem;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// A plugin, and `ok` or the kind of a problem.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    controller: String,
    result: &'static str,
}

/// The metrics of all plugins from registries.
pub(super) struct RegistryMetrics {
    pulls: Family<Labels, Counter>,
    verifications: Family<Labels, Counter>,
}

impl RegistryMetrics {
    /// Registers the metrics with a series for each plugin and result, because the increase of a series that appears is not seen.
    pub(super) fn register<'a>(registry: &mut Registry, plugins: impl IntoIterator<Item = &'a str>) -> Self {
        let metrics = Self { pulls: Family::default(), verifications: Family::default() };
        plugins.into_iter().for_each(|plugin| metrics.add(plugin));
        let help = "Attempts to bring a plugin from a registry up to date; `result` is `ok` or the kind of the problem";
        registry.register("pilothouse_oci_pulls", help, metrics.pulls.clone());
        let help = "Judgements of the signatures of a plugin from a registry by the policy; `result` is `ok` or `unverified`";
        registry.register("pilothouse_oci_verifications", help, metrics.verifications.clone());
        metrics
    }

    /// Adds the series of a plugin, unless they are there.
    pub(super) fn add(&self, plugin: &str) {
        for result in pull_results() {
            drop(self.pulls.get_or_create(&labels(plugin, result)));
        }
        for result in VERIFICATION_RESULTS {
            drop(self.verifications.get_or_create(&labels(plugin, result)));
        }
    }

    /// Removes the series of a plugin that was removed, so that their number does not grow with every name that there ever was.
    pub(super) fn forget(&self, plugin: &str) {
        for result in pull_results() {
            self.pulls.remove(&labels(plugin, result));
        }
        for result in VERIFICATION_RESULTS {
            self.verifications.remove(&labels(plugin, result));
        }
    }

    /// Counts an attempt to bring a plugin up to date.
    pub(super) fn count_pull(&self, plugin: &str, result: Result<(), Problem>) {
        self.pulls.get_or_create(&labels(plugin, result)).inc();
    }

    /// Counts a judgement of a plugin's signatures.
    pub(super) fn count_verification(&self, plugin: &str, result: Result<(), Problem>) {
        self.verifications.get_or_create(&labels(plugin, result)).inc();
    }
}

/// How a judgement of signatures can end.
const VERIFICATION_RESULTS: [Result<(), Problem>; 2] = [Ok(()), Err(Problem::Unverified)];

/// Returns how an attempt can end.
fn pull_results() -> impl Iterator<Item = Result<(), Problem>> {
    std::iter::once(Ok(())).chain(Problem::ALL.into_iter().map(Err))
}

fn labels(plugin: &str, result: Result<(), Problem>) -> Labels {
    Labels { controller: plugin.to_owned(), result: result.err().map_or("ok", Problem::label) }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn pulls_and_verifications_are_counted_by_their_result_from_zero() {
        let mut registry = Registry::default();
        let metrics = RegistryMetrics::register(&mut registry, ["a", "b"]);
        metrics.count_pull("a", Ok(()));
        metrics.count_pull("a", Err(Problem::NotFound));
        metrics.count_verification("b", Err(Problem::Unverified));
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        for (family, plugin, result, count) in [
            ("pulls", "a", "ok", 1),
            ("pulls", "a", "not-found", 1),
            ("pulls", "a", "timeout", 0),
            ("pulls", "b", "ok", 0),
            ("verifications", "b", "unverified", 1),
            ("verifications", "a", "unverified", 0),
        ] {
            let line = format!(
                "pilothouse_oci_{family}_total{{controller=\"{plugin}\",result=\"{result}\"}} {count}\n"
            );
            assert!(text.contains(&line), "{line}{text}");
        }
    }

    #[test]
    fn the_series_of_a_removed_plugin_are_forgotten() {
        let mut registry = Registry::default();
        let metrics = RegistryMetrics::register(&mut registry, ["a"]);
        metrics.add("b");
        metrics.count_pull("b", Err(Problem::NotFound));
        metrics.add("b");
        let text = |registry: &Registry| {
            let mut text = String::new();
            encode(&mut text, registry).expect("text");
            text
        };
        let line = "pilothouse_oci_pulls_total{controller=\"b\",result=\"not-found\"} 1\n";
        assert!(text(&registry).contains(line), "{}", text(&registry));
        metrics.forget("b");
        let left = text(&registry);
        assert!(!left.contains("controller=\"b\"") && left.contains("controller=\"a\""), "{left}");
    }
}
