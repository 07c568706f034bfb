//! The one table of limits. Parsing, `check --json`, the descriptor's JSON schema and the table in docs/limits.md follow from it.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::EffectiveLimits;
use super::units::{DAY, KIBI, MEBI, MILLISECOND, MINUTE, Unit};

/// A limit of a plugin. The defaults are those of [`InstanceLimits`](pilothouse_plugin::InstanceLimits) and [`PluginLimits`](super::PluginLimits).
pub struct Limit {
    /// The member of `limits` in a sidecar or descriptor.
    pub name: &'static str,
    /// How the value is written.
    pub unit: Unit,
    /// The values that the host accepts, in the unit's base.
    pub range: RangeInclusive<u64>,
    /// The largest value that a descriptor gets without its operator's consent, or `None` for a limit that only a sidecar sets.
    pub max_request: Option<u64>,
    /// What the limit bounds, as a phrase.
    pub description: &'static str,
    /// What happens to a plugin that exceeds the limit, in Markdown.
    pub on_exceeded: &'static str,
    pub(super) get: fn(&EffectiveLimits) -> u64,
    pub(super) set: fn(&mut EffectiveLimits, u64),
}

const SIZES: RangeInclusive<u64> = KIBI..=1024 * MEBI;
const COUNTS: RangeInclusive<u64> = 1..=1_000_000;
const TIMES: RangeInclusive<u64> = MILLISECOND..=DAY;
const REQUESTABLE_SIZE: Option<u64> = Some(256 * MEBI);
const REQUESTABLE_TIME: Option<u64> = Some(5 * MINUTE);

/// All limits, in the order in which error messages and docs/limits.md list them.
pub static LIMITS: [Limit; 20] = [
    Limit {
        name: "memory",
        unit: Unit::Bytes,
        range: 64 * KIBI..=4096 * MEBI,
        max_request: REQUESTABLE_SIZE,
        description: "linear memory of one instance",
        on_exceeded: "The call traps.",
        get: |limits| limits.instance.memory as u64,
        set: |limits, value| limits.instance.memory = size(value),
    },
    Limit {
        name: "tableElements",
        unit: Unit::Count,
        range: 1..=10_000_000,
        max_request: Some(1_000_000),
        description: "elements of all tables of one instance",
        on_exceeded: "The call traps.",
        get: |limits| limits.instance.table_elements as u64,
        set: |limits, value| limits.instance.table_elements = size(value),
    },
    Limit {
        name: "instances",
        unit: Unit::Count,
        range: 1..=10_000,
        max_request: None,
        description: "core WebAssembly instances in one component, its memories, and its tables, each (not instances of the plugin)",
        on_exceeded: "The component is not instantiated.",
        get: |limits| limits.instance.instances as u64,
        set: |limits, value| limits.instance.instances = size(value),
    },
    Limit {
        name: "reconcileTimeout",
        unit: Unit::Duration,
        range: TIMES,
        max_request: REQUESTABLE_TIME,
        description: "CPU time and wall time of one `reconcile`, host calls included",
        on_exceeded: "The call ends.",
        get: |limits| nanoseconds(limits.instance.reconcile_timeout),
        set: |limits, value| limits.instance.reconcile_timeout = Duration::from_nanos(value),
    },
    Limit {
        name: "observeTimeout",
        unit: Unit::Duration,
        range: TIMES,
        max_request: REQUESTABLE_TIME,
        description: "CPU time and wall time of one `observe`, host calls included",
        on_exceeded: "The call ends.",
        get: |limits| nanoseconds(limits.instance.observe_timeout),
        set: |limits, value| limits.instance.observe_timeout = Duration::from_nanos(value),
    },
    Limit {
        name: "describeTimeout",
        unit: Unit::Duration,
        range: TIMES,
        max_request: None,
        description: "CPU time and wall time of instantiation and of `describe`, each",
        on_exceeded: "The call ends.",
        get: |limits| nanoseconds(limits.instance.describe_timeout),
        set: |limits, value| limits.instance.describe_timeout = Duration::from_nanos(value),
    },
    Limit {
        name: "indexTimeout",
        unit: Unit::Duration,
        range: TIMES,
        max_request: REQUESTABLE_TIME,
        description: "CPU time and wall time to compute the index values of one object",
        on_exceeded: "The call ends.",
        get: |limits| nanoseconds(limits.instance.index_timeout),
        set: |limits, value| limits.instance.index_timeout = Duration::from_nanos(value),
    },
    Limit {
        name: "handles",
        unit: Unit::Count,
        range: COUNTS,
        max_request: Some(100_000),
        description: "handles of one instance that are open at a time",
        on_exceeded: "The call traps. The host replaces an instance that holds more than half of them after a call.",
        get: |limits| limits.instance.handles.into(),
        set: |limits, value| limits.instance.handles = count(value),
    },
    Limit {
        name: "messageSize",
        unit: Unit::Bytes,
        range: SIZES,
        max_request: REQUESTABLE_SIZE,
        description: "bytes of one call's arguments, or of its result",
        on_exceeded: "The call traps. A live get or list with a larger response fails with 413.",
        get: |limits| limits.instance.message_size as u64,
        set: |limits, value| limits.instance.message_size = size(value),
    },
    Limit {
        name: "objectSize",
        unit: Unit::Bytes,
        range: SIZES,
        max_request: None,
        description: "bytes of a manifest or patch",
        on_exceeded: "The write fails with 413, as it would at the API server.",
        get: |limits| limits.instance.object_size as u64,
        set: |limits, value| limits.instance.object_size = size(value),
    },
    Limit {
        name: "logLinesPerSecond",
        unit: Unit::Count,
        range: COUNTS,
        max_request: None,
        description: "log lines of the plugin, and of the host about it, after a burst of ten times as many",
        on_exceeded: "Lines are dropped, and the log says how many. Equal failures are written ten times in 10 s and then counted.",
        get: |limits| limits.instance.log_lines_per_second.into(),
        set: |limits, value| limits.instance.log_lines_per_second = count(value),
    },
    Limit {
        name: "logBytesPerSecond",
        unit: Unit::Bytes,
        range: SIZES,
        max_request: None,
        description: "bytes of those lines as they are written, with control and invisible characters escaped, after a burst of ten times as many",
        on_exceeded: "Lines are dropped, and the log says how many.",
        get: |limits| limits.instance.log_bytes_per_second as u64,
        set: |limits, value| limits.instance.log_bytes_per_second = size(value),
    },
    Limit {
        name: "logLineSize",
        unit: Unit::Bytes,
        range: 256..=MEBI,
        max_request: None,
        description: "bytes of a log message, and of all fields of a line",
        on_exceeded: "The rest is cut.",
        get: |limits| limits.instance.log_line_size as u64,
        set: |limits, value| limits.instance.log_line_size = size(value),
    },
    Limit {
        name: "httpBody",
        unit: Unit::Bytes,
        range: 1..=1024 * MEBI,
        max_request: None,
        description: "bytes of the body of one HTTP request, and of one response",
        on_exceeded: "The request ends with an error, and the log says so.",
        get: |limits| limits.instance.http_body as u64,
        set: |limits, value| limits.instance.http_body = size(value),
    },
    Limit {
        name: "httpRequests",
        unit: Unit::Count,
        range: 1..=1_000,
        max_request: None,
        description: "HTTP requests of one instance in flight",
        on_exceeded: "One more fails with `connection-limit-reached`.",
        get: |limits| limits.instance.http_requests.into(),
        set: |limits, value| limits.instance.http_requests = count(value),
    },
    Limit {
        name: "metricSeries",
        unit: Unit::Count,
        range: COUNTS,
        max_request: None,
        description: "series of the plugin's own metrics: names times label values",
        on_exceeded: "New series are dropped, with one warning and `pilothouse_guest_metrics_refused_total`.",
        get: |limits| limits.plugin.metric_series.into(),
        set: |limits, value| limits.plugin.metric_series = count(value),
    },
    Limit {
        name: "clientQps",
        unit: Unit::Count,
        range: COUNTS,
        max_request: None,
        description: "requests to the API server per second",
        on_exceeded: "Requests wait for their turn, in order and within the call's time limit; `pilothouse_client_throttled_total` counts them.",
        get: |limits| limits.plugin.client_qps.into(),
        set: |limits, value| {
            limits.plugin.client_qps = count(value);
            limits.plugin.client_burst = count(value.saturating_mul(3));
        },
    },
    Limit {
        name: "clientBurst",
        unit: Unit::Count,
        range: 1..=3_000_000,
        max_request: None,
        description: "requests to the API server that need not wait; three times `clientQps` if only that is set",
        on_exceeded: "As for `clientQps`.",
        get: |limits| limits.plugin.client_burst.into(),
        set: |limits, value| limits.plugin.client_burst = count(value),
    },
    Limit {
        name: "eventsPerSecond",
        unit: Unit::Count,
        range: COUNTS,
        max_request: None,
        description: "Kubernetes Events per second, after a burst of ten times as many",
        on_exceeded: "Events are dropped; `pilothouse_events_dropped_total` counts them.",
        get: |limits| limits.plugin.events_per_second.into(),
        set: |limits, value| limits.plugin.events_per_second = count(value),
    },
    Limit {
        name: "hostMemory",
        unit: Unit::Bytes,
        range: MEBI..=65_536 * MEBI,
        max_request: None,
        description: "what the host itself holds for the plugin, all instances together ([below](#host-memory))",
        on_exceeded: "The call that would add to it traps.",
        get: |limits| limits.plugin.host_memory as u64,
        set: |limits, value| limits.plugin.host_memory = size(value),
    },
];

/// The names of all limits, or only of those that a descriptor may request.
pub(super) const fn names<const N: usize>(requestable_only: bool) -> [&'static str; N] {
    let mut names = [""; N];
    let (mut from, mut to) = (0, 0);
    while from < LIMITS.len() {
        if !requestable_only || LIMITS[from].max_request.is_some() {
            names[to] = LIMITS[from].name;
            to += 1;
        }
        from += 1;
    }
    names
}

/// How many limits a descriptor may request.
pub(super) const REQUESTABLE: usize = {
    let (mut count, mut index) = (0, 0);
    while index < LIMITS.len() {
        count += LIMITS[index].max_request.is_some() as usize;
        index += 1;
    }
    count
};

// A value is checked against its limit's range, whose end fits, before it is converted.
fn count(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
