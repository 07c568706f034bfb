//! The measured figures from which resources are computed. A test compares them with the results of the benchmarks.

/// A figure, and where it is from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    pub(super) value: f64,
    pub(super) source: &'static str,
}

const fn figure(value: f64, source: &'static str) -> Figure {
    Figure { value, source }
}

const KIBI: f64 = 1024.0;
const MEBI: f64 = 1024.0 * KIBI;

/// Resident memory of a host with one plugin, in bytes.
pub(super) const BASE_RESIDENT: Figure =
    figure(29_696.0 * KIBI, "bench/results/density.json: resident memory of a host with one plugin");

/// Private memory of each idle plugin, in bytes.
pub(super) const IDLE_PLUGIN: Figure =
    figure(79.0 * KIBI, "bench/results/density.json: private memory per idle Rust plugin, with 100 plugins");

/// Private memory of a plugin for each object that it has reconciled, in bytes: most of it is the journal that `explain` reads.
pub(super) const RECONCILED_OBJECT: Figure = figure(
    320.0,
    "bench/results/plugins.json: private memory of each of 1,000 plugins with 1,000 objects, without that of an idle one",
);

/// Private memory of the cache for each byte of JSON in a list.
pub(super) const CACHE_PER_LIST_BYTE: Figure = figure(
    1.05,
    "bench/results/plugins.json: private memory of a host with 20,000 Pods, without that of an empty host",
);

/// Memory of a compressed cache, as a part of that of a plain one.
pub(super) const COMPRESSED_CACHE: Figure =
    figure(0.8, "bench/results/ingest.json: resident memory with 20,000 Pods, compressed and plain");

/// Memory of a cache after a new list in which each object changed, as a multiple of that before.
pub(super) const CHANGED_RELIST: Figure =
    figure(1.85, "bench/results/ingest.json: memory after a list in which all objects changed");

/// The same for a compressed cache.
pub(super) const COMPRESSED_CHANGED_RELIST: Figure =
    figure(1.37, "bench/results/ingest.json: memory after a list in which all objects changed, compressed");

/// CPU time of an event of a watch with one plugin, in microseconds.
pub(super) const EVENT_CPU_MICROS: Figure =
    figure(5.6, "bench/results/plugins.json: CPU time per event with one plugin");

/// CPU time of an event for each further plugin that watches the same objects, in microseconds. A plugin whose predicate the informer's index
/// decides takes less, as the results show; this is what delivery and a predicate in CEL took in November 2026 before there was an index.
pub(super) const MORE_PLUGIN_CPU_MICROS: Figure =
    figure(0.2, "docs/decisions/0020-index-of-conditions.md: a change that each plugin's own task refuses");

/// Size of the volume for compiled plugins, in bytes. Its files count as the container's memory.
pub(super) const CODE_CACHE: Figure =
    figure(256.0 * MEBI, "deploy/chart/values.yaml: cache.sizeLimit of a volume in memory");

/// Memory of a compiler process, in bytes: the least that one may use.
pub(super) const COMPILATION: Figure =
    figure(256.0 * MEBI, "docs/cli.md: the memory of a compiler process is at least 256 MiB");

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn results(name: &str) -> Value {
        let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/results/{}.json"), name);
        let text = std::fs::read_to_string(&path).expect(&path);
        serde_json::from_str(&text).expect(&path)
    }

    /// Returns the first entry of the list whose members have these values.
    fn entry<'a>(list: &'a Value, members: &[(&str, Value)]) -> &'a Value {
        let is_it = |entry: &&Value| members.iter().all(|(name, value)| entry[*name] == *value);
        list.as_array()
            .expect("a list")
            .iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("no entry with {members:?}"))
    }

    fn number(value: &Value) -> f64 {
        value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
    }

    /// A figure may differ by a quarter from the latest measurement, because measurements vary.
    #[track_caller]
    fn assert_close(figure: Figure, measured: f64) {
        let ratio = figure.value / measured;
        assert!(
            (0.75..=1.25).contains(&ratio),
            "{}: {} here, {measured} measured",
            figure.source,
            figure.value
        );
    }

    #[test]
    fn figures_of_idle_hosts_match_the_results() {
        let density = results("density");
        let host = |plugins: u64| {
            entry(&density["hosts"], &[("guest", "secret-replicator".into()), ("plugins", plugins.into())])
        };
        assert_close(BASE_RESIDENT, number(&host(1)["idleResidentKib"]) * KIBI);
        assert_close(IDLE_PLUGIN, number(&host(100)["eachKib"]) * KIBI);
    }

    #[test]
    fn the_figure_of_reconciled_objects_matches_the_results() {
        let plugins = results("plugins");
        let private = |count: u64| {
            let row = entry(&plugins["growth"], &[("plugins", count.into())]);
            number(&row["full"]["ready"]["privateMib"]) * MEBI
        };
        let (count, objects) = (1_000, 1_000.0);
        let each = (private(count) - private(1)) / (count - 1) as f64;
        assert_close(RECONCILED_OBJECT, (each - IDLE_PLUGIN.value) / objects);
    }

    #[test]
    fn figures_of_caches_match_the_results() {
        let (plugins, density) = (results("plugins"), results("density"));
        let growth = entry(&plugins["growth"], &[("plugins", 1.into())]);
        let shared = entry(&plugins["shared"], &[("plugins", 1.into())]);
        // The second host received the same events, and the list of all objects.
        let received = |row: &Value| number(&row["full"]["receivedBytes"]);
        let list_bytes = received(shared) - received(growth);
        let empty = number(&entry(&density["hosts"], &[("plugins", 0.into())])["idlePrivateKib"]) * KIBI;
        let cache = number(&shared["full"]["ready"]["privateMib"]) * MEBI - empty;
        assert_close(CACHE_PER_LIST_BYTE, cache / list_bytes);

        let ingest = results("ingest");
        let listed = |consumer: &str| {
            let row = entry(&ingest["rows"], &[("consumer", consumer.into()), ("framing", "packed".into())]);
            number(&row["run"]["listed"]["residentMib"])
        };
        let empty = listed("drain: lines counted, nothing kept");
        let [plain, compressed] = ["Pilothouse, every event", "Pilothouse, every event, compressed cache"]
            .map(|consumer| listed(consumer) - empty);
        assert_close(COMPRESSED_CACHE, compressed / plain);
        for (consumer, figure) in [
            ("Pilothouse, every event", CHANGED_RELIST),
            ("Pilothouse, every event, compressed cache", COMPRESSED_CHANGED_RELIST),
        ] {
            let row =
                entry(&ingest["relists"], &[("consumer", consumer.into()), ("changedPercent", 100.into())]);
            assert_close(figure, number(&row["peakMib"]) / number(&row["beforeMib"]));
        }
    }

    #[test]
    fn figures_of_the_cpu_match_the_results() {
        let plugins = results("plugins");
        let micros = |count: u64| {
            number(&entry(&plugins["shared"], &[("plugins", count.into())])["cpuMicrosPerEvent"])
        };
        assert_close(EVENT_CPU_MICROS, micros(1));
        let more = (micros(50) - micros(1)) / 49.0;
        assert!(more <= MORE_PLUGIN_CPU_MICROS.value, "each further plugin takes {more} µs");
    }
}
