//! What a plugin may use: the sidecar's word, else the plugin's wishes within bounds, else the host's defaults.

mod units;

use std::time::Duration;

use pilothouse_plugin::{HostMemory, Limits};
use serde::Deserialize;

use crate::config::descriptor::Limits as Wishes;
pub(crate) use units::written;
use units::{bytes, number, time};

/// The limits of a sidecar. Absent ones leave the plugin's wishes, or the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SidecarLimits {
    /// Memory of one instance, as a Kubernetes quantity (`16Mi`).
    pub memory: Option<String>,
    /// Elements of all tables of one instance.
    pub table_elements: Option<u32>,
    /// Core instances, memories and tables that a component may be made of, each.
    pub instances: Option<u32>,
    /// How long one reconcile may take (`30s`, `500ms`).
    pub reconcile_timeout: Option<String>,
    /// How long one observe may take.
    pub observe_timeout: Option<String>,
    /// How long instantiation and describe may take, each.
    pub describe_timeout: Option<String>,
    /// How long the index values of one object may take.
    pub index_timeout: Option<String>,
    /// Handles that may be open at a time.
    pub handles: Option<u32>,
    /// Bytes that one call may carry either way, as a quantity.
    pub message_size: Option<String>,
    /// Bytes of a manifest or patch, as a quantity.
    pub object_size: Option<String>,
    /// Log lines per second, after a burst of ten times as many.
    pub log_lines_per_second: Option<u32>,
    /// Bytes of log per second, as a quantity, after a burst of ten times as many.
    pub log_bytes_per_second: Option<String>,
    /// Bytes of one log line, as a quantity.
    pub log_line_size: Option<String>,
    /// Bytes of the body of one HTTP request or response, as a quantity.
    pub http_body: Option<String>,
    /// HTTP requests that one instance may have under way.
    pub http_requests: Option<u32>,
    /// Series of the plugin's own metrics: names times label values.
    pub metric_series: Option<u32>,
    /// Requests to the API server per second.
    pub client_qps: Option<u32>,
    /// Requests to the API server that may come at once; absent, three times `client_qps`.
    pub client_burst: Option<u32>,
    /// Kubernetes Events per second, after a burst of ten times as many.
    pub events_per_second: Option<u32>,
    /// What the host may hold for the plugin, as a quantity.
    pub host_memory: Option<String>,
}

/// What the plugin may use outside of its instances: shared by all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// `metricSeries`.
    pub metric_series: u32,
    /// `clientQps`.
    pub client_qps: u32,
    /// `clientBurst`.
    pub client_burst: u32,
    /// `eventsPerSecond`.
    pub events_per_second: u32,
    /// `hostMemory`, in bytes: see [`HostMemory`].
    pub host_memory: usize,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            metric_series: 1_000,
            client_qps: 100,
            client_burst: 300,
            events_per_second: 10,
            host_memory: HostMemory::DEFAULT_LIMIT,
        }
    }
}

/// Everything that a version may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effective {
    /// What each instance may use.
    pub guest: Limits,
    /// What all instances together may.
    pub quotas: Quotas,
    /// Wishes that were not granted in full, a line each.
    pub clipped: Vec<String>,
}

/// Which limit could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {problem}; {remedy}")]
pub struct LimitError {
    /// The member of `limits`.
    pub field: &'static str,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub remedy: &'static str,
}

/// The limits of a version.
///
/// # Errors
/// Names the first that cannot be read, or that is beyond what the host can run.
pub fn effective(wishes: Option<&Wishes>, sidecar: &SidecarLimits) -> Result<Effective, LimitError> {
    let mut effective = Effective::default();
    if let Some(wishes) = wishes {
        put(&as_sidecar(wishes), &mut effective)?;
        clip(sidecar, &mut effective);
    }
    put(sidecar, &mut effective)?;
    Ok(effective)
}

/// Checks that every wish can be read.
///
/// # Errors
/// Names the first that cannot.
pub fn check_wishes(wishes: &Wishes) -> Result<(), LimitError> {
    put(&as_sidecar(wishes), &mut Effective::default())
}

/// Checks that every limit of a sidecar can be read.
///
/// # Errors
/// Names the first that cannot.
pub fn check(limits: &SidecarLimits) -> Result<(), LimitError> {
    put(limits, &mut Effective::default())
}

/// A plugin wishes for what its instances need. What bears on others (rates, series, the load itself) is the operator's alone.
fn as_sidecar(wishes: &Wishes) -> SidecarLimits {
    SidecarLimits {
        memory: wishes.memory.clone(),
        table_elements: wishes.table_elements,
        reconcile_timeout: wishes.reconcile_timeout.clone(),
        observe_timeout: wishes.observe_timeout.clone(),
        index_timeout: wishes.index_timeout.clone(),
        handles: wishes.handles,
        message_size: wishes.message_size.clone(),
        ..SidecarLimits::default()
    }
}

fn put(given: &SidecarLimits, effective: &mut Effective) -> Result<(), LimitError> {
    const SIZES: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 30;
    const COUNTS: std::ops::RangeInclusive<u32> = 1..=1_000_000;
    let Effective { guest, quotas, .. } = effective;
    set(&mut guest.memory, bytes("memory", given.memory.as_ref(), 64 << 10..=4 << 30)?);
    let elements = number("tableElements", given.table_elements, 1..=10_000_000)?;
    set(&mut guest.table_elements, elements.map(|elements| elements as usize));
    let instances = number("instances", given.instances, 1..=10_000)?;
    set(&mut guest.instances, instances.map(|instances| instances as usize));
    set(&mut guest.reconcile_timeout, time("reconcileTimeout", given.reconcile_timeout.as_ref())?);
    set(&mut guest.observe_timeout, time("observeTimeout", given.observe_timeout.as_ref())?);
    set(&mut guest.describe_timeout, time("describeTimeout", given.describe_timeout.as_ref())?);
    set(&mut guest.index_timeout, time("indexTimeout", given.index_timeout.as_ref())?);
    set(&mut guest.handles, number("handles", given.handles, COUNTS)?);
    set(&mut guest.message_size, bytes("messageSize", given.message_size.as_ref(), SIZES)?);
    set(&mut guest.object_size, bytes("objectSize", given.object_size.as_ref(), SIZES)?);
    let lines = number("logLinesPerSecond", given.log_lines_per_second, COUNTS)?;
    set(&mut guest.log_lines_per_second, lines);
    let log_bytes = bytes("logBytesPerSecond", given.log_bytes_per_second.as_ref(), 1 << 10..=1 << 30)?;
    set(&mut guest.log_bytes_per_second, log_bytes);
    set(&mut guest.log_line_size, bytes("logLineSize", given.log_line_size.as_ref(), 256..=1 << 20)?);
    set(&mut guest.http_body, bytes("httpBody", given.http_body.as_ref(), 1..=1 << 30)?);
    set(&mut guest.http_requests, number("httpRequests", given.http_requests, 1..=1_000)?);
    set(&mut quotas.metric_series, number("metricSeries", given.metric_series, COUNTS)?);
    let qps = number("clientQps", given.client_qps, COUNTS)?;
    set(&mut quotas.client_qps, qps);
    set(&mut quotas.client_burst, qps.map(|qps| qps.saturating_mul(3)));
    set(&mut quotas.client_burst, number("clientBurst", given.client_burst, 1..=3_000_000)?);
    set(&mut quotas.events_per_second, number("eventsPerSecond", given.events_per_second, COUNTS)?);
    set(&mut quotas.host_memory, bytes("hostMemory", given.host_memory.as_ref(), 1 << 20..=64 << 30)?);
    Ok(())
}

fn set<T>(limit: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *limit = given;
    }
}

/// Keeps wishes within what one plugin may take of a host that it shares: beyond, it is the operator's decision.
fn clip(sidecar: &SidecarLimits, effective: &mut Effective) {
    const SIZE: usize = 256 << 20;
    const TIME: Duration = Duration::from_mins(5);
    let Effective { guest, clipped, .. } = effective;
    let mut say = |field: &str, wished: String, most: String| {
        clipped.push(format!(
            "the plugin wishes for limits.{field} of {wished}; without the operator's word it gets {most}: put more into the sidecar"
        ));
    };
    let sizes = [
        ("memory", &mut guest.memory, sidecar.memory.is_some()),
        ("messageSize", &mut guest.message_size, sidecar.message_size.is_some()),
    ];
    for (field, limit, _) in sizes.into_iter().filter(|(_, limit, decided)| !decided && **limit > SIZE) {
        say(field, written(*limit as u64), written(SIZE as u64));
        *limit = SIZE;
    }
    let times = [
        ("reconcileTimeout", &mut guest.reconcile_timeout, sidecar.reconcile_timeout.is_some()),
        ("observeTimeout", &mut guest.observe_timeout, sidecar.observe_timeout.is_some()),
        ("indexTimeout", &mut guest.index_timeout, sidecar.index_timeout.is_some()),
    ];
    for (field, limit, _) in times.into_iter().filter(|(_, limit, decided)| !decided && **limit > TIME) {
        say(field, format!("{:?}", *limit), "5m".to_owned());
        *limit = TIME;
    }
    const HANDLES: u32 = 100_000;
    if guest.handles > HANDLES && sidecar.handles.is_none() {
        say("handles", guest.handles.to_string(), HANDLES.to_string());
        guest.handles = HANDLES;
    }
    const ELEMENTS: usize = 1_000_000;
    if guest.table_elements > ELEMENTS && sidecar.table_elements.is_none() {
        say("tableElements", guest.table_elements.to_string(), ELEMENTS.to_string());
        guest.table_elements = ELEMENTS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sidecar(text: &str) -> SidecarLimits {
        crate::config::sidecar::Sidecar::parse(&format!("limits: {text}\n")).expect(text).limits
    }

    #[test]
    fn every_limit_can_be_set() {
        let text = "{memory: 1Mi, tableElements: 2, instances: 3, reconcileTimeout: 4s, observeTimeout: 5s, \
                    describeTimeout: 6s, indexTimeout: 7s, handles: 8, messageSize: 9Ki, objectSize: 10Ki, \
                    logLinesPerSecond: 11, logLineSize: 12Ki, metricSeries: 13, clientQps: 14, clientBurst: 15, \
                    eventsPerSecond: 16, httpBody: 17Ki, httpRequests: 18, logBytesPerSecond: 19Ki, hostMemory: 19Mi}";
        let Effective { guest, quotas, clipped } = effective(None, &sidecar(text)).expect("valid");
        let expected = Limits {
            memory: 1 << 20,
            table_elements: 2,
            instances: 3,
            reconcile_timeout: Duration::from_secs(4),
            observe_timeout: Duration::from_secs(5),
            describe_timeout: Duration::from_secs(6),
            index_timeout: Duration::from_secs(7),
            handles: 8,
            message_size: 9 << 10,
            object_size: 10 << 10,
            log_lines_per_second: 11,
            log_bytes_per_second: 19 << 10,
            log_line_size: 12 << 10,
            http_body: 17 << 10,
            http_requests: 18,
        };
        assert_eq!(guest, expected);
        let expected = Quotas {
            metric_series: 13,
            client_qps: 14,
            client_burst: 15,
            events_per_second: 16,
            host_memory: 19 << 20,
        };
        assert_eq!(quotas, expected);
        assert_eq!(clipped, Vec::<String>::new());
    }

    #[test]
    fn the_burst_follows_the_rate_where_only_that_is_given() {
        let effective = effective(None, &sidecar("{clientQps: 5}")).expect("valid");
        assert_eq!((effective.quotas.client_qps, effective.quotas.client_burst), (5, 15));
    }

    #[test]
    fn limits_outside_of_what_can_be_run_are_refused_by_name() {
        for (limits, expected) in [
            (
                SidecarLimits { memory: Some("1k".into()), ..SidecarLimits::default() },
                "memory: \"1k\" is not between 64Ki and 4Gi",
            ),
            (
                SidecarLimits { describe_timeout: Some("48h".into()), ..SidecarLimits::default() },
                "describeTimeout: \"48h\" is not between 1ms and 24h",
            ),
            (
                SidecarLimits { handles: Some(0), ..SidecarLimits::default() },
                "handles: 0 is not between 1 and 1000000",
            ),
            (SidecarLimits { log_line_size: Some("1".into()), ..SidecarLimits::default() }, "logLineSize"),
        ] {
            let error = check(&limits).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
        let wishes = Wishes { index_timeout: Some("soon".into()), ..Wishes::default() };
        let error = check_wishes(&wishes).expect_err("no duration").to_string();
        assert!(error.contains("indexTimeout: \"soon\" is not a duration"), "{error}");
    }

    #[test]
    fn a_wish_counts_within_bounds_and_the_operator_goes_beyond_them() {
        let modest = Wishes { memory: Some("128Mi".into()), handles: Some(5), ..Wishes::default() };
        let granted = effective(Some(&modest), &SidecarLimits::default()).expect("valid");
        assert_eq!((granted.guest.memory, granted.guest.handles), (128 << 20, 5));
        assert_eq!(granted.clipped, Vec::<String>::new());
        let greedy = Wishes {
            memory: Some("4Gi".into()),
            reconcile_timeout: Some("1h".into()),
            handles: Some(1_000_000),
            table_elements: Some(10_000_000),
            ..Wishes::default()
        };
        let clipped = effective(Some(&greedy), &SidecarLimits::default()).expect("valid");
        let guest = &clipped.guest;
        assert_eq!((guest.memory, guest.handles, guest.table_elements), (256 << 20, 100_000, 1_000_000));
        assert_eq!(guest.reconcile_timeout, Duration::from_mins(5));
        assert_eq!(clipped.clipped.len(), 4, "{:?}", clipped.clipped);
        assert!(clipped.clipped[0].contains("limits.memory of 4Gi"), "{:?}", clipped.clipped);
        let word = sidecar("{memory: 1Gi, reconcileTimeout: 1h, handles: 1000000, tableElements: 9}");
        let decided = effective(Some(&greedy), &word).expect("valid");
        assert_eq!((decided.guest.memory, decided.guest.handles), (1 << 30, 1_000_000));
        assert_eq!(decided.guest.reconcile_timeout, Duration::from_hours(1));
        assert_eq!(decided.clipped, Vec::<String>::new());
    }
}
