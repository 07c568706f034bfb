//! The controller that keeps the status of ResourceQuotas, after `k8s.io/kubernetes/pkg/controller/resourcequota`.
//!
//! What a write adds, the admission plugin writes. The controller measures again when something that is counted ends or changes, and from time to
//! time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::kind::Kind;
use super::object::Key;
use super::queue::Queue;
use super::{Change, Controller, MANAGER, Observation};
use crate::meta;
use crate::request::options::WriteOptions;
use crate::rest::built_in_admission::quota::{Amounts, status_of};
use crate::rest::verbs::update::{self, UpdateTarget};
use crate::state::State;

/// The maximum number of quotas processed before other controllers get their turn.
const BATCH_SIZE: usize = 32;

/// The time after which the usage of a quota is measured again, as in Kubernetes.
const RESYNC_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The minimum interval between measurements that only changes of the measured usage cause. Each write that admission charges is such a change.
const USAGE_INTERVAL: Duration = Duration::from_secs(1);

/// The interval between attempts to write a status.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Keeps the status of ResourceQuotas.
#[derive(Default)]
pub(super) struct ResourceQuotas {
    /// The quotas that exist, with the time at which each was last measured.
    known: BTreeMap<Key, Option<Instant>>,
    queue: Queue<Key>,
}

impl Controller for ResourceQuotas {
    fn observe(&mut self, observation: &Observation<'_>) {
        let object = observation.object();
        if observation.endpoint.is_core("resourcequotas") {
            let key = (object.namespace.clone(), object.name.clone());
            if observation.is_deletion() {
                self.known.remove(&key);
                self.queue.remove(&key);
            } else {
                let measured = *self.known.entry(key.clone()).or_default();
                // Every measurement reads all objects of the namespace.
                let earliest = measured.filter(|_| has_current_limits(&object.value()));
                let due = earliest.map_or(observation.due, |at| observation.due.max(at + USAGE_INTERVAL));
                self.queue.add(key, due);
            }
        }
        if object.namespace.is_empty() || !changes_usage(observation) {
            return;
        }
        let start: Key = (object.namespace.clone(), "".into());
        let known = self.known.range(start..).map(|(key, _)| key);
        for key in known.take_while(|key| key.0 == object.namespace) {
            self.queue.add(key.clone(), observation.due);
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.queue.next_due()
    }

    fn run(&mut self, state: &State, now: Instant) {
        for key in self.queue.take_due(now, BATCH_SIZE) {
            if let Some(measured) = self.known.get_mut(&key) {
                *measured = Some(now);
            }
            let delay = if sync(state, &key) { RESYNC_INTERVAL } else { RETRY_INTERVAL };
            self.queue.add(key, now + delay);
        }
    }
}

/// Whether the status of a quota has the limits of its spec, so that only its usage can be outdated.
fn has_current_limits(quota: &Value) -> bool {
    let hard = &quota["status"]["hard"];
    !hard.is_null() && Amounts::read(hard).is_equal(&Amounts::read(&quota["spec"]["hard"]))
}

/// Whether a change may reduce what is used, or change it in a way that admission does not add.
fn changes_usage(observation: &Observation<'_>) -> bool {
    match (observation.change, observation.kind) {
        (Change::Deleted(_), _) => true,
        (Change::Applied(pod), Some(Kind::Pod)) => {
            pod.deleting || matches!(pod.value()["status"]["phase"].as_str(), Some("Failed" | "Succeeded"))
        }
        (Change::Applied(_), Some(Kind::Service | Kind::PersistentVolumeClaim)) => true,
        _ => false,
    }
}

/// Writes the status of a quota if it changed. Returns whether it is up to date.
fn sync(state: &State, (namespace, name): &Key) -> bool {
    let registry = state.registry();
    let Some(quotas) = registry.endpoint("", "v1", "resourcequotas") else { return true };
    let Some(quota) = quotas.resource.table.get(namespace, name) else { return true };
    let quota = quota.value();
    if is_same(&quota["status"], &status_of(state, &quota)) {
        return true;
    }
    let options = WriteOptions::internal(MANAGER);
    let key: (&str, &str) = (namespace, name);
    let result = update::update(state, quotas, key, UpdateTarget::Status, &options, |old| {
        let mut value = old.clone();
        // Measured again, because admission may have added something.
        value["status"] = status_of(state, old);
        meta::metadata_mut(&mut value).remove("resourceVersion");
        Ok(update::ProposedUpdate { value, applied: false, retry: true })
    });
    match result {
        Ok(_) => true,
        Err(status) if status.code == 404 => true,
        Err(error) => {
            tracing::debug!(%error, %namespace, %name, "cannot update the status of a quota");
            false
        }
    }
}

/// Whether two statuses have the same amounts.
fn is_same(left: &Value, right: &Value) -> bool {
    ["hard", "used"].iter().all(|member| {
        !left[member].is_null() && Amounts::read(&left[member]).is_equal(&Amounts::read(&right[member]))
    })
}
