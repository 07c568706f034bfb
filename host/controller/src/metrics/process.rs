//! The metrics of the host's process, under the names that the client libraries of Prometheus use. They are read from Linux's `/proc` at each
//! scrape, and absent on other systems.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The clock ticks in a second of `/proc/self/stat`. Linux converts its own ticks to this number.
const TICKS_PER_SECOND: f64 = 100.0;

/// The files with the memory limit of a container: in control groups of version 2, then of version 1. A container sees one of them.
const GROUP_LIMITS: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/// Encodes the metrics of a process.
#[derive(Debug)]
pub(crate) struct ProcessCollector {
    read: fn() -> ProcFiles,
}

/// The files of `/proc` that have the metrics. A file that cannot be read is empty.
#[derive(Debug, Default)]
struct ProcFiles {
    /// `/proc/self/stat`.
    stat: String,
    /// `/proc/self/status`.
    status: String,
    /// `/proc/self/limits`.
    limits: String,
    /// `/proc/stat`.
    system: String,
    /// `/proc/meminfo`.
    machine_memory: String,
    /// The memory limit of the process's control group: in a container, the container's.
    group_memory: String,
    /// The number of entries of `/proc/self/fd`.
    open_fds: Option<f64>,
}

/// The metrics of a process, each `None` if its file was not readable.
#[derive(Debug, Default, PartialEq)]
struct ProcessMetrics {
    cpu_seconds: Option<f64>,
    open_fds: Option<f64>,
    max_fds: Option<f64>,
    virtual_memory: Option<f64>,
    virtual_memory_max: Option<f64>,
    resident_memory: Option<f64>,
    memory_limit: Option<f64>,
    start_time: Option<f64>,
    threads: Option<f64>,
}

struct ProcessMetric {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    value: fn(&ProcessMetrics) -> Option<f64>,
}

/// The encoder appends `_total` to the names of counters.
const METRICS: [ProcessMetric; 9] = [
    ProcessMetric {
        name: "process_cpu_seconds",
        help: "CPU time of the host in seconds, user and system",
        kind: MetricType::Counter,
        value: |metrics| metrics.cpu_seconds,
    },
    ProcessMetric {
        name: "process_open_fds",
        help: "Open file descriptors",
        kind: MetricType::Gauge,
        value: |metrics| metrics.open_fds,
    },
    ProcessMetric {
        name: "process_max_fds",
        help: "Maximum number of open file descriptors",
        kind: MetricType::Gauge,
        value: |metrics| metrics.max_fds,
    },
    ProcessMetric {
        name: "process_virtual_memory_bytes",
        help: "Virtual memory; most of it is address space that is reserved for plugins' memories",
        kind: MetricType::Gauge,
        value: |metrics| metrics.virtual_memory,
    },
    ProcessMetric {
        name: "process_virtual_memory_max_bytes",
        help: "Maximum of the virtual memory; 2^64 if there is none",
        kind: MetricType::Gauge,
        value: |metrics| metrics.virtual_memory_max,
    },
    ProcessMetric {
        name: "process_resident_memory_bytes",
        help: "Memory in use",
        kind: MetricType::Gauge,
        value: |metrics| metrics.resident_memory,
    },
    ProcessMetric {
        name: "pilothouse_memory_limit_bytes",
        help: "Memory limit of the container, or the memory of the machine if that is less",
        kind: MetricType::Gauge,
        value: |metrics| metrics.memory_limit,
    },
    ProcessMetric {
        name: "process_start_time_seconds",
        help: "When the host was started, in seconds since 1970",
        kind: MetricType::Gauge,
        value: |metrics| metrics.start_time,
    },
    ProcessMetric {
        name: "process_threads",
        help: "Threads of the host",
        kind: MetricType::Gauge,
        value: |metrics| metrics.threads,
    },
];

impl ProcessCollector {
    /// Reads the files of this process at each scrape.
    pub(crate) fn of_this_process() -> Self {
        Self { read: ProcFiles::of_this_process }
    }

    /// Encodes the same numbers at each scrape, on any system.
    #[cfg(test)]
    pub(crate) fn of_sample() -> Self {
        Self { read: tests::sample }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let metrics = (self.read)().parse();
        for ProcessMetric { name, help, kind, value } in METRICS {
            let Some(value) = value(&metrics) else { continue };
            let mut encoder = encoder.encode_descriptor(name, help, None, kind)?;
            match kind {
                MetricType::Counter => encoder.encode_counter::<NoLabelSet, f64, f64>(&value, None)?,
                _ => encoder.encode_gauge(&value)?,
            }
        }
        Ok(())
    }
}

impl ProcFiles {
    fn of_this_process() -> Self {
        if cfg!(not(target_os = "linux")) {
            return Self::default();
        }
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let group_memory = GROUP_LIMITS.map(read).concat();
        // One of the descriptors is that of the directory itself.
        let open_fds = fs::read_dir("/proc/self/fd").ok().map(|entries| number(entries.count()) - 1.0);
        Self {
            stat: read("/proc/self/stat"),
            status: read("/proc/self/status"),
            limits: read("/proc/self/limits"),
            system: read("/proc/stat"),
            machine_memory: read("/proc/meminfo"),
            group_memory,
            open_fds,
        }
    }

    fn parse(&self) -> ProcessMetrics {
        // The second field is the program's name, which can contain anything. Positions below count from the third field.
        let fields: Vec<&str> = match self.stat.rsplit_once(')') {
            Some((_, fields)) => fields.split_ascii_whitespace().collect(),
            None => Vec::new(),
        };
        let field = |position: usize| fields.get(position)?.parse::<f64>().ok();
        let seconds = |ticks: f64| ticks / TICKS_PER_SECOND;
        let boot_time = value_after(&self.system, "btime ");
        let machine_memory =
            value_after(&self.machine_memory, "MemTotal:").map(|kibibytes| kibibytes * 1024.0);
        // The group has the text `max` or a very large number if it has no limit.
        let group_memory = self.group_memory.trim().parse::<f64>().ok();
        ProcessMetrics {
            cpu_seconds: field(11).zip(field(12)).map(|(user, system)| seconds(user + system)),
            open_fds: self.open_fds,
            max_fds: limit(&self.limits, "Max open files "),
            virtual_memory: field(20),
            virtual_memory_max: limit(&self.limits, "Max address space "),
            resident_memory: value_after(&self.status, "VmRSS:").map(|kibibytes| kibibytes * 1024.0),
            memory_limit: machine_memory
                .map(|machine| group_memory.map_or(machine, |group| group.min(machine))),
            start_time: boot_time.zip(field(19)).map(|(boot, ticks)| boot + seconds(ticks)),
            threads: field(17),
        }
    }
}

/// Returns the first number in the line that begins with `name`.
fn value_after(text: &str, name: &str) -> Option<f64> {
    first_word(text, name)?.parse().ok()
}

/// Returns the soft limit in the line that begins with `name`.
fn limit(text: &str, name: &str) -> Option<f64> {
    match first_word(text, name)? {
        "unlimited" => Some(2.0_f64.powi(64)),
        number => number.parse().ok(),
    }
}

fn first_word<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_ascii_whitespace().next()
}

/// Converts a count. No process has so many that a float cannot represent them.
fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn sample() -> ProcFiles {
        let stat = "42 (pilot) house 1) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 1200 4294967296 2560 18446744073709551615";
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 524288               files\n\
                      Max address space         unlimited            unlimited            bytes\n";
        ProcFiles {
            stat: stat.to_owned(),
            status: "Name:\tpilot) house\nVmPeak:\t  9 kB\nVmRSS:\t   10240 kB\nThreads:\t9\n".to_owned(),
            limits: limits.to_owned(),
            system: "cpu  1 2 3\nbtime 1700000000\nprocesses 5\n".to_owned(),
            machine_memory: "MemTotal:        4194304 kB\nMemFree:  1 kB\n".to_owned(),
            group_memory: "1073741824\n".to_owned(),
            open_fds: Some(17.0),
        }
    }

    #[test]
    fn the_numbers_of_a_process_are_read_from_proc() {
        let expected = ProcessMetrics {
            cpu_seconds: Some(3.0),
            open_fds: Some(17.0),
            max_fds: Some(1024.0),
            virtual_memory: Some(4_294_967_296.0),
            virtual_memory_max: Some(18_446_744_073_709_551_616.0),
            resident_memory: Some(10_485_760.0),
            memory_limit: Some(1_073_741_824.0),
            start_time: Some(1_700_000_012.0),
            threads: Some(9.0),
        };
        assert_eq!(sample().parse(), expected);
    }

    #[test]
    fn files_that_are_missing_or_cut_off_leave_their_metrics_out() {
        assert_eq!(ProcFiles::default().parse(), ProcessMetrics::default());
        for length in 0..sample().stat.len() {
            let mut files = sample();
            files.stat.truncate(length);
            files.parse();
        }
        let garbage = "btime\nVmRSS:\nMax open files \nMax address space many\n".to_owned();
        let files = ProcFiles {
            stat: "1 (x) ? ? ?".to_owned(),
            status: garbage.clone(),
            limits: garbage.clone(),
            system: garbage.clone(),
            machine_memory: garbage.clone(),
            group_memory: garbage,
            open_fds: None,
        };
        assert_eq!(files.parse(), ProcessMetrics::default());
    }

    #[test]
    fn a_container_without_a_limit_has_the_memory_of_the_machine() {
        for group in ["max\n", "9223372036854771712\n", ""] {
            let files = ProcFiles { group_memory: group.to_owned(), ..sample() };
            assert_eq!(files.parse().memory_limit, Some(4_294_967_296.0), "{group:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_all_metrics() {
        let metrics = ProcFiles::of_this_process().parse();
        for ProcessMetric { name, value, .. } in METRICS {
            assert!(value(&metrics).is_some_and(|value| value >= 0.0), "{name}: {metrics:?}");
        }
        assert!(metrics.threads >= Some(1.0) && metrics.open_fds >= Some(3.0), "{metrics:?}");
    }
}
