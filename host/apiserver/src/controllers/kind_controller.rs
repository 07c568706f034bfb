//! The frame of a controller that reconciles the objects of one kind, one at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::action::{Action, Plan, execute};
use super::cluster::Cluster;
use super::kind::Kind;
use super::object::Key;
use super::queue::Queue;
use super::{Controller, MANAGER, Observation, STEP};
use crate::state::State;
use crate::storage::StoredObject;

/// The maximum number of objects reconciled before other controllers and requests get their turn.
const BATCH_SIZE: usize = 128;

/// The delay after the first failure; it doubles with each further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Which objects a change of another kind concerns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trigger {
    /// Its owners. If it has none, all objects in its namespace, because one of them may adopt it.
    Owners,
    /// All objects in its namespace.
    Namespace,
    /// The object with the same name.
    Name,
    /// All objects.
    All,
    /// What the function finds in the changed object.
    Referenced(fn(&StoredObject) -> Concerned),
}

/// Which objects a change of one concerns.
#[derive(Clone, Debug)]
pub(super) enum Concerned {
    None,
    One(Key),
    All,
}

/// Decides what to do for an object.
type Reconcile = Box<dyn FnMut(&Cluster<'_>, &Value) -> Plan + Send>;

/// Decides what to do for an object that was deleted.
type OnMissing = Box<dyn FnMut(&Cluster<'_>, &Key) -> Vec<Action> + Send>;

/// A controller of the objects of one kind. `reconcile` decides what to do for one of them.
pub(super) struct KindController {
    kind: Kind,
    reconcile: Reconcile,
    manager: &'static str,
    triggers: &'static [(Kind, Trigger)],
    is_relevant: fn(&StoredObject) -> bool,
    on_missing: OnMissing,
    known: BTreeSet<Key>,
    queue: Queue<Key>,
    failures: BTreeMap<Key, u32>,
}

impl KindController {
    pub(super) fn new(
        kind: Kind,
        reconcile: impl FnMut(&Cluster<'_>, &Value) -> Plan + Send + 'static,
    ) -> Self {
        Self {
            kind,
            reconcile: Box::new(reconcile),
            manager: MANAGER,
            triggers: &[],
            is_relevant: |_| true,
            on_missing: Box::new(|_, _| Vec::new()),
            known: BTreeSet::new(),
            queue: Queue::default(),
            failures: BTreeMap::new(),
        }
    }

    /// Sets which changes of other kinds concern the objects.
    pub(super) fn triggers(self, triggers: &'static [(Kind, Trigger)]) -> Self {
        Self { triggers, ..self }
    }

    /// Sets the field manager; that of the controller manager by default.
    pub(super) fn manager(self, manager: &'static str) -> Self {
        Self { manager, ..self }
    }

    /// Ignores objects for which `is_relevant` is false.
    pub(super) fn only(self, is_relevant: fn(&StoredObject) -> bool) -> Self {
        Self { is_relevant, ..self }
    }

    /// Sets what to do for an object that was deleted.
    pub(super) fn on_missing(
        self,
        on_missing: impl FnMut(&Cluster<'_>, &Key) -> Vec<Action> + Send + 'static,
    ) -> Self {
        Self { on_missing: Box::new(on_missing), ..self }
    }

    fn observe_own(&mut self, observation: &Observation<'_>) {
        let object = observation.object();
        let key = (object.namespace.clone(), object.name.clone());
        if observation.is_deletion() || !(self.is_relevant)(object) {
            self.known.remove(&key);
            self.failures.remove(&key);
            if !observation.is_deletion() {
                self.queue.remove(&key);
                return;
            }
        } else {
            self.known.insert(key.clone());
        }
        self.queue.add(key, observation.due);
    }

    fn observe_other(&mut self, observation: &Observation<'_>, trigger: Trigger) {
        let object = observation.object();
        match trigger {
            Trigger::Owners if !object.owners.is_empty() => {
                for owner in object.owners.iter().filter(|owner| &*owner.kind == self.kind.name()) {
                    let key = (object.namespace.clone(), owner.name.clone());
                    if self.known.contains(&key) {
                        self.queue.add(key, observation.due);
                    }
                }
            }
            Trigger::Owners | Trigger::Namespace => {
                let start: Key = (object.namespace.clone(), "".into());
                let keys = self.known.range(start..).take_while(|key| key.0 == object.namespace);
                for key in keys {
                    self.queue.add(key.clone(), observation.due);
                }
            }
            Trigger::Name => self.queue.add((object.namespace.clone(), object.name.clone()), observation.due),
            Trigger::All => self.add_all(observation.due),
            Trigger::Referenced(find) => match find(object) {
                Concerned::None => {}
                Concerned::One(key) => {
                    if self.known.contains(&key) {
                        self.queue.add(key, observation.due);
                    }
                }
                Concerned::All => self.add_all(observation.due),
            },
        }
    }

    fn add_all(&mut self, due: Instant) {
        for key in &self.known {
            self.queue.add(key.clone(), due);
        }
    }

    /// Reconciles one object. Returns when to look at it again.
    fn reconcile(&mut self, cluster: &Cluster<'_>, key: &Key) -> Option<Duration> {
        let (namespace, name) = key;
        let Some(object) = cluster.get(self.kind, namespace, name) else {
            let actions = (self.on_missing)(cluster, key);
            let result = execute(cluster, self.manager, (self.kind, &Value::Null), actions);
            return result.is_err_and(|error| error.reason == "Conflict").then_some(STEP);
        };
        let plan = (self.reconcile)(cluster, &object);
        match execute(cluster, self.manager, (self.kind, &object), plan.actions) {
            Ok(()) => {
                self.failures.remove(key);
                plan.retry_after
            }
            // Somebody else wrote the object meanwhile. Its change is observed, too, but may already have been.
            Err(error) if error.reason == "Conflict" => Some(STEP),
            Err(error) => {
                tracing::debug!(%error, kind = self.kind.name(), %namespace, %name, "a controller cannot reconcile an object");
                let failures = self.failures.entry(key.clone()).or_default();
                *failures += 1;
                Some(FIRST_BACKOFF.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(MAX_BACKOFF))
            }
        }
    }
}

impl Controller for KindController {
    fn observe(&mut self, observation: &Observation<'_>) {
        let Some(kind) = observation.kind else { return };
        if kind == self.kind {
            self.observe_own(observation);
        }
        for (_, trigger) in self.triggers.iter().filter(|(of, _)| *of == kind) {
            self.observe_other(observation, *trigger);
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.queue.next_due()
    }

    fn run(&mut self, state: &State, now: Instant) {
        let keys = self.queue.take_due(now, BATCH_SIZE);
        if keys.is_empty() {
            return;
        }
        let cluster = Cluster::new(state);
        for key in keys {
            if let Some(delay) = self.reconcile(&cluster, &key) {
                self.queue.add(key, now + delay);
            }
        }
    }
}

/// Controllers of several kinds that are selected together.
pub(super) struct ControllerGroup(pub(super) Vec<KindController>);

impl Controller for ControllerGroup {
    fn observe(&mut self, observation: &Observation<'_>) {
        for member in &mut self.0 {
            member.observe(observation);
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.0.iter().filter_map(Controller::next_due).min()
    }

    fn run(&mut self, state: &State, now: Instant) {
        for member in &mut self.0 {
            member.run(state, now);
        }
    }
}
