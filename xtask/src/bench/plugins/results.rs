//! The results of this benchmark as JSON.

use serde_json::{Value, json};

use super::super::results::usage;
use super::scenario::Measurement;
use super::{PeerPoint, Plugins, Point};

/// Returns the results.
pub(crate) fn results(plugins: &Plugins) -> Value {
    let latencies = plugins.latencies.iter().map(|latency| {
        json!({"consumer": latency.name, "measured": latency.measured, "latencyNanos": percentiles(latency.nanos)})
    });
    json!({
        "objects": plugins.scale.objects,
        "latencies": latencies.collect::<Vec<_>>(),
        "shared": plugins.shared.iter().map(point).collect::<Vec<_>>(),
        "growth": plugins.growth.iter().map(point).collect::<Vec<_>>(),
        "peers": plugins.peers.iter().map(peer).collect::<Vec<_>>(),
    })
}

fn point(point: &Point) -> Value {
    json!({
        "plugins": point.plugins,
        "events": point.events,
        "eventsPerSecond": point.events as f64 / point.full.seconds,
        "cpuMicrosPerEvent": point.cpu_micros(),
        "full": measurement(&point.full),
        "slow": point.slow.as_ref().map(measurement),
    })
}

fn peer(point: &PeerPoint) -> Value {
    json!({
        "peer": point.name,
        "processes": point.processes,
        "privateMib": point.private_mib,
        "cpuMicrosPerEvent": point.cpu_micros,
        "latencyNanos": percentiles(point.latency),
    })
}

fn measurement(measurement: &Measurement) -> Value {
    json!({
        "ready": usage(&measurement.ready),
        "done": usage(&measurement.done),
        "seconds": measurement.seconds,
        "latencyNanos": percentiles(measurement.latency),
        "measured": measurement.measured,
        "watches": measurement.watches,
        "receivedBytes": measurement.received,
        "cachedBytes": measurement.cached,
        "merged": measurement.merged,
    })
}

fn percentiles([p50, p90, p99, max]: [f64; 4]) -> Value {
    json!({"p50": p50, "p90": p90, "p99": p99, "max": max})
}
