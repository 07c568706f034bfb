//! What a plugin may use: the values of its sidecar, else what its descriptor requests within bounds, else the defaults.

mod limit_values;
mod table;
mod units;

use pilothouse_plugin::{HostMemory, InstanceLimits};

pub use limit_values::{RequestedLimits, SidecarLimits};
pub use table::{LIMITS, Limit};
pub(crate) use units::format_quantity;
pub use units::{Unit, duration as parse_duration};

/// The limits of a plugin, which its instances and versions share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginLimits {
    /// `metricSeries`.
    pub metric_series: u32,
    /// `clientQps`.
    pub client_qps: u32,
    /// `clientBurst`.
    pub client_burst: u32,
    /// `eventsPerSecond`.
    pub events_per_second: u32,
    /// `hostMemory`, in bytes; see [`HostMemory`].
    pub host_memory: usize,
}

impl Default for PluginLimits {
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

/// The limits that a version runs under.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectiveLimits {
    /// The limits of each instance.
    pub instance: InstanceLimits,
    /// The limits of the plugin, which its instances share.
    pub plugin: PluginLimits,
    /// Requests of the descriptor that were not granted in full, a line each.
    pub clipped: Vec<String>,
}

impl EffectiveLimits {
    /// Returns the value of a limit in its unit's base.
    #[must_use]
    pub fn get(&self, limit: &Limit) -> u64 {
        (limit.get)(self)
    }
}

/// A limit that cannot be parsed, or that is out of range.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {problem}; {remedy}")]
pub struct LimitError {
    /// The member of `limits`.
    pub field: &'static str,
    /// What is wrong.
    pub problem: String,
    /// How to correct it.
    pub remedy: &'static str,
}

/// Returns the limits of a version.
///
/// # Errors
/// Names the first limit that cannot be parsed or is out of range.
pub fn effective(
    requested: Option<&RequestedLimits>,
    sidecar: &SidecarLimits,
) -> Result<EffectiveLimits, LimitError> {
    let mut effective = EffectiveLimits::default();
    for limit in &LIMITS {
        let request = requested.map(|requested| requested.get(limit)).transpose()?.flatten();
        let Some((request, bound)) = request.zip(limit.max_request) else { continue };
        // What exceeds the bound is the operator's decision, because plugins share the host.
        if request > bound && sidecar.get(limit)?.is_none() {
            let (name, [request, granted]) =
                (limit.name, [request, bound].map(|value| limit.unit.format(value)));
            effective.clipped.push(format!(
                "the plugin requests limits.{name} of {request} and gets {granted}: set limits.{name} in the sidecar to give it more"
            ));
        }
        (limit.set)(&mut effective, request.min(bound));
    }
    for limit in &LIMITS {
        if let Some(value) = sidecar.get(limit)? {
            (limit.set)(&mut effective, value);
        }
    }
    Ok(effective)
}

/// Checks that every limit that a descriptor requests can be parsed and is in range.
///
/// # Errors
/// Names the first that is not.
pub fn check_requested(requested: &RequestedLimits) -> Result<(), LimitError> {
    LIMITS.iter().try_for_each(|limit| requested.get(limit).map(drop))
}

/// Checks that every limit of a sidecar can be parsed and is in range.
///
/// # Errors
/// Names the first that is not.
pub fn check(limits: &SidecarLimits) -> Result<(), LimitError> {
    LIMITS.iter().try_for_each(|limit| limits.get(limit).map(drop))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn sidecar(text: &str) -> SidecarLimits {
        crate::config::sidecar::Sidecar::parse(&format!("limits: {text}\n")).expect(text).limits
    }

    fn requested(limits: serde_json::Value) -> RequestedLimits {
        serde_json::from_value(limits).expect("known limits")
    }

    #[test]
    fn every_limit_can_be_set() {
        let text = "{memory: 1Mi, tableElements: 2, instances: 3, reconcileTimeout: 4s, observeTimeout: 5s, \
                    describeTimeout: 6s, indexTimeout: 7s, handles: 8, messageSize: 9Ki, objectSize: 10Ki, \
                    logLinesPerSecond: 11, logLineSize: 12Ki, metricSeries: 13, clientQps: 14, clientBurst: 15, \
                    eventsPerSecond: 16, httpBody: 17Ki, httpRequests: 18, logBytesPerSecond: 19Ki, hostMemory: 19Mi}";
        let EffectiveLimits { instance, plugin, clipped } = effective(None, &sidecar(text)).expect("valid");
        let expected = InstanceLimits {
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
        assert_eq!(instance, expected);
        let expected = PluginLimits {
            metric_series: 13,
            client_qps: 14,
            client_burst: 15,
            events_per_second: 16,
            host_memory: 19 << 20,
        };
        assert_eq!(plugin, expected);
        assert_eq!(clipped, Vec::<String>::new());
    }

    #[test]
    fn the_burst_defaults_to_three_times_the_rate() {
        let effective = effective(None, &sidecar("{clientQps: 5}")).expect("valid");
        assert_eq!((effective.plugin.client_qps, effective.plugin.client_burst), (5, 15));
    }

    #[test]
    fn every_limit_is_read_back_as_it_was_set() {
        for limit in &LIMITS {
            let mut effective = EffectiveLimits::default();
            assert!(limit.range.contains(&effective.get(limit)), "the default of {}", limit.name);
            for value in [*limit.range.start(), *limit.range.end()] {
                (limit.set)(&mut effective, value);
                assert_eq!(effective.get(limit), value, "{}", limit.name);
            }
            assert!(limit.max_request.is_none_or(|bound| limit.range.contains(&bound)), "{}", limit.name);
        }
    }

    #[test]
    fn limits_out_of_range_are_refused_by_name() {
        for (limits, expected) in [
            (json!({"memory": "1k"}), "memory: \"1k\" is not between 64Ki and 4Gi"),
            (json!({"describeTimeout": "48h"}), "describeTimeout: \"48h\" is not between 1ms and 24h"),
            (json!({"handles": 0}), "handles: 0 is not between 1 and 1000000"),
            (json!({"logLineSize": "1"}), "logLineSize"),
        ] {
            let limits = serde_json::from_value(limits).expect("known limits");
            let error = check(&limits).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = check_requested(&requested(json!({"indexTimeout": "soon"})))
            .expect_err("no duration")
            .to_string();
        assert!(error.contains("indexTimeout: \"soon\" is not a duration"), "{error}");
    }

    #[test]
    fn a_descriptor_requests_only_what_its_own_instances_need() {
        for (limits, expected) in [
            (
                json!({"hostMemory": "1Gi"}),
                "unknown field `hostMemory`, expected one of `memory`, `tableElements`",
            ),
            (json!({"memory": 5}), "invalid type"),
            (json!({"handles": "many"}), "invalid type"),
            (json!([]), "a map of limits"),
        ] {
            let error = serde_json::from_value::<RequestedLimits>(limits).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
        let twice = serde_json::from_str::<RequestedLimits>(r#"{"handles": 1, "handles": 2}"#);
        assert!(twice.expect_err("twice").to_string().contains("duplicate field `handles`"));
    }

    #[test]
    fn a_requested_limit_is_capped_and_a_sidecars_is_not() {
        let modest = requested(json!({"memory": "128Mi", "handles": 5}));
        let granted = effective(Some(&modest), &SidecarLimits::default()).expect("valid");
        assert_eq!((granted.instance.memory, granted.instance.handles), (128 << 20, 5));
        assert_eq!(granted.clipped, Vec::<String>::new());
        let greedy = requested(json!({
            "memory": "4Gi", "reconcileTimeout": "1h", "handles": 1_000_000, "tableElements": 10_000_000
        }));
        let clipped = effective(Some(&greedy), &SidecarLimits::default()).expect("valid");
        let instance = &clipped.instance;
        assert_eq!(
            (instance.memory, instance.handles, instance.table_elements),
            (256 << 20, 100_000, 1_000_000)
        );
        assert_eq!(instance.reconcile_timeout, Duration::from_mins(5));
        assert_eq!(clipped.clipped.len(), 4, "{:?}", clipped.clipped);
        assert!(clipped.clipped[0].contains("limits.memory of 4Gi and gets 256Mi"), "{:?}", clipped.clipped);
        let word = sidecar("{memory: 1Gi, reconcileTimeout: 1h, handles: 1000000, tableElements: 9}");
        let decided = effective(Some(&greedy), &word).expect("valid");
        assert_eq!((decided.instance.memory, decided.instance.handles), (1 << 30, 1_000_000));
        assert_eq!(decided.instance.reconcile_timeout, Duration::from_hours(1));
        assert_eq!(decided.clipped, Vec::<String>::new());
    }

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/limits.md");

    /// With `PILOTHOUSE_UPDATE_DOCS=1` the table is written instead of compared.
    #[test]
    fn the_table_in_the_docs_matches_the_limits() {
        let defaults = EffectiveLimits::default();
        let mut table = String::from(
            "| limit | default | range | what it bounds | what happens beyond it |\n|---|---|---|---|---|\n",
        );
        for limit in &LIMITS {
            let format = |value| limit.unit.format(value);
            let (default, least, most) =
                (format(defaults.get(limit)), format(*limit.range.start()), format(*limit.range.end()));
            let (name, description, on_exceeded) = (limit.name, limit.description, limit.on_exceeded);
            table += &format!(
                "| `{name}` | `{default}` | `{least}` to `{most}` | {description} | {on_exceeded} |\n"
            );
        }
        let page = std::fs::read_to_string(PAGE).expect("docs/limits.md is there");
        let (begin, end) = ("<!-- limits -->\n", "<!-- end of limits -->");
        let (before, rest) = page.split_once(begin).expect("the marker before the table");
        let (present, after) = rest.split_once(end).expect("the marker behind the table");
        if std::env::var_os("PILOTHOUSE_UPDATE_DOCS").is_some() {
            std::fs::write(PAGE, format!("{before}{begin}{table}{end}{after}")).expect("written");
            return;
        }
        assert!(
            present == table,
            "docs/limits.md is not up to date: run PILOTHOUSE_UPDATE_DOCS=1 cargo test -p pilothouse-controller limits"
        );
    }
}
