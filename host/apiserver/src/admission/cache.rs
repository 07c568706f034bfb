//! Keeps the compiled configurations consistent with the stored objects.

use std::sync::Arc;

use parking_lot::RwLock;
use pilothouse_model::hash::HashMap;
use serde_json::Value;

use super::policy::{Binding, Policy};
use super::webhook::Webhook;
use crate::storage::{Storage, Table};

/// The API group of admission configurations.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

/// The number of tables with configurations.
const TABLES: usize = 6;

/// The webhooks and policies that are in effect.
pub(crate) struct Configuration {
    /// In the order in which they are called.
    pub(super) mutating: Vec<Arc<Webhook>>,
    pub(super) validating: Vec<Arc<Webhook>>,
    pub(super) policies: Vec<BoundPolicy>,
    pub(super) mutating_policies: Vec<BoundPolicy>,
}

/// A policy with its bindings.
pub(crate) struct BoundPolicy {
    pub(super) policy: Arc<Policy>,
    pub(super) bindings: Vec<Arc<Binding>>,
}

/// The configurations, compiled when they change. A read without a change takes no lock for writing and allocates nothing.
pub(super) struct Cache {
    mutating: Arc<Table>,
    validating: Arc<Table>,
    policies: Arc<Table>,
    bindings: Arc<Table>,
    mutating_policies: Arc<Table>,
    mutating_bindings: Arc<Table>,
    current: RwLock<Current>,
}

#[derive(Default)]
struct Current {
    /// The last change of each table that was applied.
    changes: [u64; TABLES],
    /// `None` if there is nothing to do for any write.
    configuration: Option<Arc<Configuration>>,
    mutating: Parsed<Vec<Arc<Webhook>>>,
    validating: Parsed<Vec<Arc<Webhook>>>,
    policies: Parsed<Arc<Policy>>,
    bindings: Parsed<Arc<Binding>>,
    mutating_policies: Parsed<Arc<Policy>>,
    mutating_bindings: Parsed<Arc<Binding>>,
}

/// What was compiled of each object of a table, by name and resourceVersion.
type Parsed<T> = HashMap<Box<str>, (u64, T)>;

impl Cache {
    pub(super) fn new(storage: &Storage) -> Self {
        Self {
            mutating: storage.table(GROUP, "mutatingwebhookconfigurations"),
            validating: storage.table(GROUP, "validatingwebhookconfigurations"),
            policies: storage.table(GROUP, "validatingadmissionpolicies"),
            bindings: storage.table(GROUP, "validatingadmissionpolicybindings"),
            mutating_policies: storage.table(GROUP, "mutatingadmissionpolicies"),
            mutating_bindings: storage.table(GROUP, "mutatingadmissionpolicybindings"),
            current: RwLock::default(),
        }
    }

    /// Returns the configuration, which contains every write that completed before this call; `None` if nothing is configured.
    pub(super) fn read(&self) -> Option<Arc<Configuration>> {
        let changes = self.changes();
        {
            let current = self.current.read();
            if current.changes == changes {
                return current.configuration.clone();
            }
        }
        let mut current = self.current.write();
        if current.changes != changes {
            self.rebuild(&mut current, changes);
        }
        current.configuration.clone()
    }

    fn changes(&self) -> [u64; TABLES] {
        let tables = [
            &self.mutating,
            &self.validating,
            &self.policies,
            &self.bindings,
            &self.mutating_policies,
            &self.mutating_bindings,
        ];
        tables.map(|table| table.last_change())
    }

    /// Compiles what changed. `changes` were read before, so that a later write leads to another rebuild.
    fn rebuild(&self, current: &mut Current, changes: [u64; TABLES]) {
        let webhooks =
            |value: &Value| Webhook::parse_all(value).into_iter().map(Arc::new).collect::<Vec<_>>();
        let mutating = refresh(&self.mutating, &mut current.mutating, webhooks).concat();
        let validating = refresh(&self.validating, &mut current.validating, webhooks).concat();
        let policies =
            bound((&self.policies, &mut current.policies), (&self.bindings, &mut current.bindings));
        let mutating_policies = bound(
            (&self.mutating_policies, &mut current.mutating_policies),
            (&self.mutating_bindings, &mut current.mutating_bindings),
        );
        let is_empty = mutating.is_empty()
            && validating.is_empty()
            && policies.is_empty()
            && mutating_policies.is_empty();
        current.configuration = (!is_empty)
            .then(|| Arc::new(Configuration { mutating, validating, policies, mutating_policies }));
        current.changes = changes;
    }
}

/// Returns the policies of a table that have bindings, with these.
fn bound(
    (policies, parsed_policies): (&Table, &mut Parsed<Arc<Policy>>),
    (bindings, parsed_bindings): (&Table, &mut Parsed<Arc<Binding>>),
) -> Vec<BoundPolicy> {
    let policies = refresh(policies, parsed_policies, |value| Arc::new(Policy::parse(value)));
    let bindings = refresh(bindings, parsed_bindings, |value| Arc::new(Binding::parse(value)));
    policies
        .into_iter()
        .map(|policy| {
            let bindings = bindings.iter().filter(|binding| binding.policy == policy.name).cloned();
            BoundPolicy { bindings: bindings.collect(), policy }
        })
        .filter(|bound| !bound.bindings.is_empty())
        .collect()
}

/// Returns what the objects of a table compile to, ordered by their names. Only changed objects are compiled.
fn refresh<T: Clone>(table: &Table, parsed: &mut Parsed<T>, parse: impl Fn(&Value) -> T) -> Vec<T> {
    let mut before = std::mem::take(parsed);
    let (objects, _) = table.list(None);
    let mut all = Vec::with_capacity(objects.len());
    for object in objects {
        let known = before.remove(&object.name).filter(|(revision, _)| *revision == object.revision);
        let (revision, compiled) = known.unwrap_or_else(|| (object.revision, parse(&object.value())));
        all.push(compiled.clone());
        parsed.insert(object.name.clone(), (revision, compiled));
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::storage::{HistoryLimits, ObjectDraft};

    fn draft(value: Value) -> ObjectDraft {
        ObjectDraft { value, fields: Box::default(), schema: 0 }
    }

    fn configuration(name: &str, webhooks: &[&str]) -> ObjectDraft {
        let webhooks: Vec<Value> = webhooks.iter().map(|name| json!({"name": name})).collect();
        draft(json!({"metadata": {"name": name}, "webhooks": webhooks}))
    }

    fn names(webhooks: &[Arc<Webhook>]) -> Vec<&str> {
        webhooks.iter().map(|webhook| webhook.name.as_str()).collect()
    }

    #[test]
    fn configurations_take_effect_with_the_write_and_in_the_order_of_their_names() {
        let storage = Storage::new(HistoryLimits { events: 10, bytes: 1 << 20 }, 1);
        let cache = Cache::new(&storage);
        assert!(cache.read().is_none());
        let table = storage.table(GROUP, "mutatingwebhookconfigurations");
        let last = table.create(configuration("b", &["b1", "b2"])).expect("new");
        table.create(configuration("a", &["a1"])).expect("new");
        let read = cache.read().expect("webhooks");
        assert_eq!(names(&read.mutating), ["a1", "b1", "b2"]);
        table.delete(&last, configuration("b", &[])).expect("unchanged");
        let after = cache.read().expect("webhooks");
        assert_eq!(names(&after.mutating), ["a1"]);
        assert!(Arc::ptr_eq(&read.mutating[0], &after.mutating[0]), "unchanged ones are not compiled again");
    }

    #[test]
    fn policy_without_a_binding_has_no_effect() {
        let storage = Storage::new(HistoryLimits { events: 10, bytes: 1 << 20 }, 1);
        let cache = Cache::new(&storage);
        let policy = json!({"metadata": {"name": "p"}, "spec": {"validations": [{"expression": "true"}]}});
        storage.table(GROUP, "validatingadmissionpolicies").create(draft(policy)).expect("new");
        assert!(cache.read().is_none());
        let binding =
            json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
        storage.table(GROUP, "validatingadmissionpolicybindings").create(draft(binding)).expect("new");
        assert_eq!(cache.read().expect("a policy").policies.len(), 1);
    }
}
