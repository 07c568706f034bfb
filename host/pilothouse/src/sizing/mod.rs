//! Computes the resources of a host from what its plugins watch. Does no I/O.

mod figures;

use serde::Serialize;

use figures::{
    BASE_RESIDENT, CACHE_PER_LIST_BYTE, CHANGED_RELIST, CODE_CACHE, COMPILATION, COMPRESSED_CACHE,
    COMPRESSED_CHANGED_RELIST, EVENT_CPU_MICROS, IDLE_PLUGIN, MORE_PLUGIN_CPU_MICROS, RECONCILED_OBJECT,
};

/// How often an object changes, in seconds, for the estimate of the CPU.
const SECONDS_PER_CHANGE: f64 = 60.0;
/// The least CPU request in thousandths of a core.
const MIN_MILLICORES: u64 = 50;
/// The most objects of a watch that a plugin's journal knows.
const MAX_JOURNAL_OBJECTS: u64 = 4_096;
const MEBI: f64 = 1_048_576.0;

/// A watch that plugins share, as it was sampled in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WatchSample {
    /// The plural name and the group, such as `deployments.apps`.
    pub(crate) resource: String,
    /// The namespace; empty for all.
    pub(crate) namespace: String,
    /// The label and field selectors; empty for all objects.
    pub(crate) selector: String,
    /// The names of the plugins.
    pub(crate) plugins: Vec<String>,
    pub(crate) objects: u64,
    /// Whether there are at least so many objects, and counting stopped.
    pub(crate) is_lower_bound: bool,
    /// The mean size of the sampled objects as JSON.
    pub(crate) bytes_per_object: u64,
}

/// What a plugin may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginLimits {
    pub(crate) workers: u64,
    /// The memory limit of an instance in bytes.
    pub(crate) memory: u64,
}

/// What the estimate assumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Assumptions {
    /// Whether cached objects are compressed.
    pub(crate) is_compressed: bool,
    /// The number of workers that use their whole memory at the same time.
    pub(crate) busy_workers: usize,
}

/// A part of the memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemoryPart {
    pub(crate) part: &'static str,
    pub(crate) mebibytes: u64,
    /// Whether the part counts for the limit only.
    pub(crate) limit_only: bool,
    /// Where the figure is from.
    pub(crate) source: &'static str,
}

/// The resources of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Resources {
    pub(crate) requests: Requests,
    pub(crate) limits: MemoryLimit,
}

/// The requests of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Requests {
    pub(crate) cpu: String,
    pub(crate) memory: String,
}

/// The limit of a pod. There is none for the CPU, because that would slow down the host when it has the most to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MemoryLimit {
    pub(crate) memory: String,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Estimate {
    pub(crate) resources: Resources,
    pub(crate) watches: Vec<WatchSample>,
    pub(crate) memory: Vec<MemoryPart>,
    /// What the estimate assumes, a sentence each.
    pub(crate) assumptions: Vec<String>,
}

/// Computes requests and limits.
pub(crate) fn estimate(
    watches: Vec<WatchSample>,
    plugins: &[PluginLimits],
    assumptions: Assumptions,
) -> Estimate {
    let json_bytes: f64 =
        watches.iter().map(|watch| watch.objects as f64 * watch.bytes_per_object as f64).sum();
    let plain_cache = json_bytes * CACHE_PER_LIST_BYTE.value;
    let (cache, relist, cache_source) = if assumptions.is_compressed {
        (plain_cache * COMPRESSED_CACHE.value, COMPRESSED_CHANGED_RELIST, COMPRESSED_CACHE.source)
    } else {
        (plain_cache, CHANGED_RELIST, CACHE_PER_LIST_BYTE.source)
    };
    let idle = plugins.len() as f64 * IDLE_PLUGIN.value;
    let reconciled_by =
        |watch: &WatchSample| watch.objects.min(MAX_JOURNAL_OBJECTS) as f64 * watch.plugins.len() as f64;
    let reconciled = watches.iter().map(reconciled_by).sum::<f64>() * RECONCILED_OBJECT.value;
    let part = |part, bytes: f64, limit_only, source| MemoryPart {
        part,
        mebibytes: mebibytes(bytes),
        limit_only,
        source,
    };
    let memory = vec![
        part("the host without plugins", BASE_RESIDENT.value, false, BASE_RESIDENT.source),
        part("idle plugins", idle, false, IDLE_PLUGIN.source),
        part("objects that plugins reconciled", reconciled, false, RECONCILED_OBJECT.source),
        part("caches of the watched objects", cache, false, cache_source),
        part("a new list in which every object changed", cache * (relist.value - 1.0), true, relist.source),
        part(
            "busy workers",
            busy_memory(plugins, assumptions.busy_workers),
            true,
            "limits.memory of the plugins",
        ),
        part("compiling a plugin", COMPILATION.value, true, COMPILATION.source),
        part("compiled plugins, cached in memory", CODE_CACHE.value, true, CODE_CACHE.source),
    ];
    let request = total(memory.iter().filter(|part| !part.limit_only));
    let limit = total(memory.iter());
    let resources = Resources {
        requests: Requests {
            cpu: format!("{}m", millicores(&watches)),
            memory: format!("{}Mi", rounded(request)),
        },
        limits: MemoryLimit { memory: format!("{}Mi", rounded(limit)) },
    };
    Estimate { resources, memory, assumptions: sentences(&watches, assumptions), watches }
}

/// Returns the memory limits of the workers with the largest ones.
fn busy_memory(plugins: &[PluginLimits], busy_workers: usize) -> f64 {
    let mut limits: Vec<u64> = plugins
        .iter()
        .flat_map(|plugin| {
            let workers = usize::try_from(plugin.workers).unwrap_or(usize::MAX).min(busy_workers);
            std::iter::repeat_n(plugin.memory, workers)
        })
        .collect();
    limits.sort_unstable_by(|one, other| other.cmp(one));
    limits.into_iter().take(busy_workers).map(|bytes| bytes as f64).sum()
}

/// Returns the CPU that the changes of all objects take, in thousandths of a core.
fn millicores(watches: &[WatchSample]) -> u64 {
    let micros_per_second = |watch: &WatchSample| {
        let more_plugins = watch.plugins.len().saturating_sub(1) as f64;
        let micros = EVENT_CPU_MICROS.value + more_plugins * MORE_PLUGIN_CPU_MICROS.value;
        watch.objects as f64 / SECONDS_PER_CHANGE * micros
    };
    let millicores = watches.iter().map(micros_per_second).sum::<f64>() / 1_000.0;
    round_up((millicores.ceil() as u64).max(MIN_MILLICORES), 10)
}

fn sentences(watches: &[WatchSample], assumptions: Assumptions) -> Vec<String> {
    let mut sentences = vec![
        format!("Each object changes every {SECONDS_PER_CHANGE} s, and a plugin does little for a change."),
        format!(
            "At most {} workers use their whole limits.memory at the same time.",
            assumptions.busy_workers
        ),
        "The cache of compiled plugins is the chart's: its volume is in memory. With another cache.type, the limit is less."
            .to_owned(),
        "A standby needs as much memory as a working host.".to_owned(),
    ];
    if watches.iter().any(|watch| watch.is_lower_bound) {
        sentences
            .push("Some watches have more objects than were counted: give the host more memory.".to_owned());
    }
    sentences
}

fn total<'a>(parts: impl Iterator<Item = &'a MemoryPart>) -> u64 {
    // The API server may claim any number of objects.
    parts.fold(0_u64, |sum, part| sum.saturating_add(part.mebibytes))
}

fn mebibytes(bytes: f64) -> u64 {
    (bytes / MEBI).ceil() as u64
}

/// Rounds mebibytes up, so that the result looks like the estimate that it is.
fn rounded(mebibytes: u64) -> u64 {
    round_up(mebibytes, if mebibytes < 256 { 16 } else { 64 })
}

/// Rounds up to a multiple of the step. Returns the number itself if the multiple would overflow.
fn round_up(number: u64, step: u64) -> u64 {
    number.checked_next_multiple_of(step).unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(objects: u64, plugins: usize) -> WatchSample {
        WatchSample {
            resource: "pods".to_owned(),
            namespace: String::new(),
            selector: String::new(),
            plugins: vec!["a".to_owned(); plugins],
            objects,
            is_lower_bound: false,
            bytes_per_object: 3_355,
        }
    }

    fn assumptions() -> Assumptions {
        Assumptions { is_compressed: false, busy_workers: 4 }
    }

    fn plugin(workers: u64) -> PluginLimits {
        PluginLimits { workers, memory: 16 << 20 }
    }

    fn part(estimate: &Estimate, name: &str) -> u64 {
        estimate.memory.iter().find(|part| part.part == name).expect(name).mebibytes
    }

    #[test]
    fn any_number_of_objects_has_an_estimate() {
        let huge = WatchSample { bytes_per_object: u64::MAX, ..watch(u64::MAX, 2) };
        let found = estimate(vec![huge], &[plugin(1)], assumptions());
        assert_eq!(found.resources.limits.memory, format!("{}Mi", u64::MAX));
    }

    #[test]
    fn the_cache_of_the_benchmark_has_the_size_that_was_measured() {
        let found = estimate(vec![watch(20_000, 1)], &[plugin(1)], assumptions());
        let cache = part(&found, "caches of the watched objects");
        assert!((60..=80).contains(&cache), "{cache} MiB");
        assert!(part(&found, "a new list in which every object changed") >= cache / 2);
        let compressed = estimate(
            vec![watch(20_000, 1)],
            &[plugin(1)],
            Assumptions { is_compressed: true, ..assumptions() },
        );
        assert!(part(&compressed, "caches of the watched objects") < cache);
    }

    #[test]
    fn a_host_without_objects_has_the_least_request() {
        let found = estimate(vec![], &[], assumptions());
        assert_eq!(found.resources.requests.cpu, "50m");
        assert_eq!(found.resources.requests.memory, "32Mi");
        assert_eq!(part(&found, "busy workers"), 0);
    }

    #[test]
    fn the_workers_with_the_largest_limits_are_busy() {
        let large = PluginLimits { workers: 2, memory: 64 << 20 };
        let found = estimate(vec![], &[plugin(64), large], assumptions());
        assert_eq!(part(&found, "busy workers"), 64 + 64 + 16 + 16);
    }

    #[test]
    fn more_objects_and_plugins_need_more() {
        let few = estimate(vec![watch(1_000_000, 1)], &[plugin(1)], assumptions());
        let many = estimate(vec![watch(1_000_000, 10)], &[plugin(1)], assumptions());
        let cpu = |estimate: &Estimate| {
            estimate.resources.requests.cpu.trim_end_matches('m').parse::<u64>().expect("a number")
        };
        assert!(cpu(&few) > MIN_MILLICORES && cpu(&many) > cpu(&few), "{few:?} {many:?}");
    }

    #[test]
    fn reconciled_objects_count_for_each_plugin_up_to_the_size_of_its_journal() {
        let mebibytes = |objects, plugins| {
            part(
                &estimate(vec![watch(objects, plugins)], &[], assumptions()),
                "objects that plugins reconciled",
            )
        };
        assert_eq!((mebibytes(1_000, 1), mebibytes(1_000, 1_000)), (1, 306));
        assert_eq!(mebibytes(1_000_000, 10), mebibytes(MAX_JOURNAL_OBJECTS, 10));
    }

    #[test]
    fn an_incomplete_count_is_mentioned() {
        let watch = WatchSample { is_lower_bound: true, ..watch(1, 1) };
        let found = estimate(vec![watch], &[], assumptions());
        assert!(found.assumptions.iter().any(|text| text.contains("more objects than were counted")));
    }
}
