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
        for plugin in plugins {
            for problem in Problem::ALL {
                drop(metrics.pulls.get_or_create(&labels(plugin, Err(problem))));
            }
            for result in [Ok(()), Err(Problem::Unverified)] {
                drop(metrics.verifications.get_or_create(&labels(plugin, result)));
            }
            drop(metrics.pulls.get_or_create(&labels(plugin, Ok(()))));
        }
        let help = "Attempts to bring a plugin from a registry up to date; `result` is `ok` or the kind of the problem";
        registry.register("pilothouse_oci_pulls", help, metrics.pulls.clone());
        let help = "Judgements of the signatures of a plugin from a registry by the policy; `result` is `ok` or `unverified`";
        registry.register("pilothouse_oci_verifications", help, metrics.verifications.clone());
        metrics
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
}
