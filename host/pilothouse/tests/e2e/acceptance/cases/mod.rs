//! The acceptance cases: every outcome, every function of the contract, every fault.

mod cache;
mod client;
mod client_errors;
mod effects;
mod faults;
mod observe;
mod outcomes;

use std::future::Future;
use std::pin::Pin;

use super::driver::Driver;

/// A case. The cases run one after another with the same plugin instance.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) run: fn(Driver) -> CaseFuture,
}

type CaseFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

macro_rules! cases {
    ($($name:literal => $function:path,)*) => {
        &[$(Case { name: $name, run: |driver| Box::pin($function(driver)) },)*]
    };
}

/// All cases, in the order of the table. `time-out` is the first, because only it needs the low time limit. `describe-error` is the
/// last, because it leaves a sidecar with which the plugin does not load.
pub(super) const ALL: &[Case] = cases! {
    "time-out" => faults::time_out,
    "describe" => outcomes::describe,
    "reconcile" => outcomes::reconcile,
    "requeue-after" => outcomes::requeue_after,
    "retry" => outcomes::retry,
    "terminal" => outcomes::terminal,
    "finalizer" => outcomes::finalizer,
    "trap" => faults::trap,
    "memory" => faults::memory,
    "unknown-watch" => faults::unknown_watch,
    "cache-get" => cache::get,
    "cache-list" => cache::list,
    "list-fields" => cache::list_fields,
    "by-index" => cache::by_index,
    "computed-index" => cache::computed_index,
    "has-synced" => cache::has_synced,
    "object" => cache::object,
    "cluster-scoped" => cache::cluster_scoped,
    "unicode" => cache::unicode,
    "big-object" => cache::big_object,
    "own-write" => cache::own_write,
    "live-get" => client::get,
    "live-list" => client::list,
    "create" => client::create,
    "update" => client::update,
    "patch" => client::patch,
    "apply" => client::apply,
    "subresource" => client::subresource,
    "delete" => client::delete,
    "not-found" => client_errors::not_found,
    "already-exists" => client_errors::already_exists,
    "conflict" => client_errors::conflict,
    "invalid" => client_errors::invalid,
    "forbidden" => client_errors::forbidden,
    "denied" => client_errors::denied,
    "throttled" => client_errors::too_many_requests,
    "unavailable" => client_errors::unavailable,
    "other-error" => client_errors::other,
    "queue" => effects::queue,
    "events" => effects::events,
    "metrics" => effects::metrics,
    "log" => effects::log,
    "observe" => observe::changes,
    "observe-trap" => observe::trap,
    "describe-error" => outcomes::describe_error,
};
