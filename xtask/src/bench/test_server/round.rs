//! One round of the load on one server.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::super::process::settle;
use super::servers::{Kind, Server};
use super::{CONNECTIONS, PAGE, Programs, Size};

/// What was measured in one round.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Round {
    pub(super) start_millis: f64,
    /// Resident memory after the start.
    pub(super) idle_mib: f64,
    pub(super) creates_per_second: f64,
    pub(super) create_p50_millis: f64,
    pub(super) create_p99_millis: f64,
    /// CPU time of the server for each create.
    pub(super) create_cpu_micros: f64,
    pub(super) updates_per_second: f64,
    pub(super) update_p99_millis: f64,
    pub(super) update_cpu_micros: f64,
    /// Time of a list of all objects in one answer.
    pub(super) list_seconds: f64,
    /// Size of that answer.
    pub(super) list_mib: f64,
    /// Time of a list of all objects by pages.
    pub(super) paged_list_seconds: f64,
    /// Resident memory after the lists.
    pub(super) loaded_mib: f64,
    /// Time until all watches were open.
    pub(super) watch_open_seconds: f64,
    pub(super) events_per_second: f64,
    /// CPU time of the server for each delivered event.
    pub(super) event_cpu_micros: f64,
    pub(super) peak_mib: f64,
}

/// The load generator's result of creates or updates.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Writes {
    count: f64,
    seconds: f64,
    p50_millis: f64,
    p99_millis: f64,
}

/// The load generator's result of lists.
#[derive(Deserialize)]
struct Lists {
    mib: f64,
    seconds: Vec<f64>,
}

/// The load generator's result of many watches.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FanOut {
    delivered: f64,
    open_seconds: f64,
    event_seconds: f64,
}

/// Starts a server, measures it under the whole load and ends it.
pub(super) fn measure(programs: &Programs, kind: Kind, size: Size) -> Result<Round> {
    let server = Server::start(programs, kind)?;
    settle();
    let idle = server.usage()?;
    let mut round = Round {
        start_millis: server.start.as_secs_f64() * 1000.0,
        idle_mib: idle.resident_mib,
        ..Round::default()
    };
    let write = |name| {
        server.load::<Writes>(programs, name, &[("objects", size.objects), ("connections", CONNECTIONS)])
    };
    let created = write("create")?;
    let after_create = server.usage()?;
    let updated = write("update")?;
    let after_update = server.usage()?;
    round.creates_per_second = created.count / created.seconds;
    round.create_p50_millis = created.p50_millis;
    round.create_p99_millis = created.p99_millis;
    round.create_cpu_micros = (after_create.cpu_seconds - idle.cpu_seconds) * 1e6 / created.count;
    round.updates_per_second = updated.count / updated.seconds;
    round.update_p99_millis = updated.p99_millis;
    round.update_cpu_micros = (after_update.cpu_seconds - after_create.cpu_seconds) * 1e6 / updated.count;

    let list = |limit| {
        let flags = [("objects", size.objects), ("rounds", size.lists), ("limit", limit)];
        server.load::<Lists>(programs, "list", &flags)
    };
    let (whole, paged) = (list(0)?, list(PAGE)?);
    settle();
    let loaded = server.usage()?;
    round.list_seconds = median(whole.seconds);
    round.list_mib = whole.mib;
    round.paged_list_seconds = median(paged.seconds);
    round.loaded_mib = loaded.resident_mib;

    let flags = [("watchers", size.watchers), ("changes", size.changes)];
    let fan_out: FanOut = server.load(programs, "watch", &flags)?;
    let end = server.usage()?;
    round.watch_open_seconds = fan_out.open_seconds;
    round.events_per_second = fan_out.delivered / fan_out.event_seconds;
    round.event_cpu_micros = (end.cpu_seconds - loaded.cpu_seconds) * 1e6 / fan_out.delivered;
    round.peak_mib = end.peak_mib;
    Ok(round)
}

/// Returns the median; NaN of nothing.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
