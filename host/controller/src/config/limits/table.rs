//! The one table of limits. Parsing, `check --json`, the descriptor's JSON schema and the table in docs/limits.md follow from it.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::EffectiveLimits;
use super::units::{DAY, KIBI, MEBI, MILLISECOND, MINUTE, Unit};

/// A limit of a plugin. The defaults are those of [`Limits`](pilothouse_plugin::Limits) and [`Quotas`](super::Quotas).
pub struct Limit {
    /// The member of `limits` in a sidecar or descriptor.
    pub name: &'static str,
    /// How the value is written.
    pub unit: Unit,
    /// The values that the host accepts, in the unit's base.
    pub range: RangeInclusive<u64>,
    /// The largest value that a descriptor gets without its operator's consent, or `None` for a limit that only a sidecar sets.
    pub requestable: Option<u64>,
    /// What the limit bounds, as a phrase.
    pub bounds: &'static str,
    /// What happens to a plugin that exceeds the limit, in Markdown.
    pub exceeded: &'static str,
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
        requestable: REQUESTABLE_SIZE,
        bounds: "linear memory of one instance",
        exceeded: "The call traps.",
        get: |limits| limits.guest.memory as u64,
        set: |limits, value| limits.guest.memory = size(value),
    },
    Limit {
        name: "tableElements",
        unit: Unit::Count,
        range: 1..=10_000_000,
        requestable: Some(1_000_000),
        bounds: "elements of all tables of one instance",
        exceeded: "The call traps.",
        get: |limits| limits.guest.table_elements as u64,
        set: |limits, value| limits.guest.table_elements = size(value),
    },
    Limit {
        name: "instances",
        unit: Unit::Count,
        range: 1..=10_000,
        requestable: None,
        bounds: "core instances, memories and tables that a component consists of, each",
        exceeded: "The component is not instantiated.",
        get: |limits| limits.guest.instances as u64,
        set: |limits, value| limits.guest.instances = size(value),
    },
    Limit {
        name: "reconcileTimeout",
        unit: Unit::Duration,
        range: TIMES,
        requestable: REQUESTABLE_TIME,
        bounds: "CPU time and wall time of one `reconcile`, host calls included",
        exceeded: "The call ends.",
        get: |limits| nanoseconds(limits.guest.reconcile_timeout),
        set: |limits, value| limits.guest.reconcile_timeout = Duration::from_nanos(value),
    },
    Limit {
        name: "observeTimeout",
        unit: Unit::Duration,
        range: TIMES,
        requestable: REQUESTABLE_TIME,
        bounds: "CPU time and wall time of one `observe`, host calls included",
        exceeded: "The call ends.",
        get: |limits| nanoseconds(limits.guest.observe_timeout),
        set: |limits, value| limits.guest.observe_timeout = Duration::from_nanos(value),
    },
    Limit {
        name: "describeTimeout",
        unit: Unit::Duration,
        range: TIMES,
        requestable: None,
        bounds: "CPU time and wall time of instantiation and of `describe`, each",
        exceeded: "The call ends.",
        get: |limits| nanoseconds(limits.guest.describe_timeout),
        set: |limits, value| limits.guest.describe_timeout = Duration::from_nanos(value),
    },
    Limit {
        name: "indexTimeout",
        unit: Unit::Duration,
        range: TIMES,
        requestable: REQUESTABLE_TIME,
        bounds: "CPU time and wall time to compute the index values of one object",
        exceeded: "The call ends.",
        get: |limits| nanoseconds(limits.guest.index_timeout),
        set: |limits, value| limits.guest.index_timeout = Duration::from_nanos(value),
    },
    Limit {
        name: "handles",
        unit: Unit::Count,
        range: COUNTS,
        requestable: Some(100_000),
        bounds: "handles of one instance that are open at a time",
        exceeded: "The call traps. The host replaces an instance that holds more than half of them after a call.",
        get: |limits| limits.guest.handles.into(),
        set: |limits, value| limits.guest.handles = count(value),
    },
    Limit {
        name: "messageSize",
        unit: Unit::Bytes,
        range: SIZES,
        requestable: REQUESTABLE_SIZE,
        bounds: "bytes of one call's arguments, or of its result",
        exceeded: "The call traps. A live get or list with a larger response fails with 413.",
        get: |limits| limits.guest.message_size as u64,
        set: |limits, value| limits.guest.message_size = size(value),
    },
    Limit {
        name: "objectSize",
        unit: Unit::Bytes,
        range: SIZES,
        requestable: None,
        bounds: "bytes of a manifest or patch",
        exceeded: "The write fails with 413, as it would at the API server.",
        get: |limits| limits.guest.object_size as u64,
        set: |limits, value| limits.guest.object_size = size(value),
    },
    Limit {
        name: "logLinesPerSecond",
        unit: Unit::Count,
        range: COUNTS,
        requestable: None,
        bounds: "log lines of the plugin, and of the host about it, after a burst of ten times as many",
        exceeded: "Lines are dropped, and the log says how many. Equal failures are written ten times in 10 s and then counted.",
        get: |limits| limits.guest.log_lines_per_second.into(),
        set: |limits, value| limits.guest.log_lines_per_second = count(value),
    },
    Limit {
        name: "logBytesPerSecond",
        unit: Unit::Bytes,
        range: SIZES,
        requestable: None,
        bounds: "bytes of those lines as they are written, with control and invisible characters escaped, after a burst of ten times as many",
        exceeded: "Lines are dropped, and the log says how many.",
        get: |limits| limits.guest.log_bytes_per_second as u64,
        set: |limits, value| limits.guest.log_bytes_per_second = size(value),
    },
    Limit {
        name: "logLineSize",
        unit: Unit::Bytes,
        range: 256..=MEBI,
        requestable: None,
        bounds: "bytes of a log message, and of all fields of a line",
        exceeded: "The rest is cut.",
        get: |limits| limits.guest.log_line_size as u64,
        set: |limits, value| limits.guest.log_line_size = size(value),
    },
    Limit {
        name: "httpBody",
        unit: Unit::Bytes,
        range: 1..=1024 * MEBI,
        requestable: None,
        bounds: "bytes of the body of one HTTP request, and of one response",
        exceeded: "The request ends with an error, and the log says so.",
        get: |limits| limits.guest.http_body as u64,
        set: |limits, value| limits.guest.http_body = size(value),
    },
    Limit {
        name: "httpRequests",
        unit: Unit::Count,
        range: 1..=1_000,
        requestable: None,
        bounds: "HTTP requests of one instance in flight",
        exceeded: "One more fails with `connection-limit-reached`.",
        get: |limits| limits.guest.http_requests.into(),
        set: |limits, value| limits.guest.http_requests = count(value),
    },
    Limit {
        name: "metricSeries",
        unit: Unit::Count,
        range: COUNTS,
        requestable: None,
        bounds: "series of the plugin's own metrics: names times label values",
        exceeded: "New series are dropped, with one warning and `pilothouse_guest_metrics_refused_total`.",
        get: |limits| limits.quotas.metric_series.into(),
        set: |limits, value| limits.quotas.metric_series = count(value),
    },
    Limit {
        name: "clientQps",
        unit: Unit::Count,
        range: COUNTS,
        requestable: None,
        bounds: "requests to the API server per second",
        exceeded: "Requests wait for their turn, in order and within the call's time limit; `pilothouse_client_throttled_total` counts them.",
        get: |limits| limits.quotas.client_qps.into(),
        set: |limits, value| {
            limits.quotas.client_qps = count(value);
            limits.quotas.client_burst = count(value.saturating_mul(3));
        },
    },
    Limit {
        name: "clientBurst",
        unit: Unit::Count,
        range: 1..=3_000_000,
        requestable: None,
        bounds: "requests to the API server that need not wait; three times `clientQps` if only that is set",
        exceeded: "As for `clientQps`.",
        get: |limits| limits.quotas.client_burst.into(),
        set: |limits, value| limits.quotas.client_burst = count(value),
    },
    Limit {
        name: "eventsPerSecond",
        unit: Unit::Count,
        range: COUNTS,
        requestable: None,
        bounds: "Kubernetes Events per second, after a burst of ten times as many",
        exceeded: "Events are dropped; `pilothouse_events_dropped_total` counts them.",
        get: |limits| limits.quotas.events_per_second.into(),
        set: |limits, value| limits.quotas.events_per_second = count(value),
    },
    Limit {
        name: "hostMemory",
        unit: Unit::Bytes,
        range: MEBI..=65_536 * MEBI,
        requestable: None,
        bounds: "what the host itself holds for the plugin, all instances together ([below](#host-memory))",
        exceeded: "The call that would add to it traps.",
        get: |limits| limits.quotas.host_memory as u64,
        set: |limits, value| limits.quotas.host_memory = size(value),
    },
];

/// The names of all limits, or only of those that a descriptor may request.
pub(super) const fn names<const N: usize>(requestable_only: bool) -> [&'static str; N] {
    let mut names = [""; N];
    let (mut from, mut to) = (0, 0);
    while from < LIMITS.len() {
        if !requestable_only || LIMITS[from].requestable.is_some() {
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
        count += LIMITS[index].requestable.is_some() as usize;
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
