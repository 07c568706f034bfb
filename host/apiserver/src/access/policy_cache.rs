//! Keeps the RBAC policy consistent with the stored roles and bindings.

use std::sync::Arc;

use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::GROUP;
use super::policy::Policy;
use crate::storage::{EventKind, Storage, StoredObject, Table};

/// The RBAC policy of the stored roles and bindings.
///
/// Each read first applies all earlier writes, so that no request is allowed by a right that was revoked before it. Only
/// changed roles and bindings are applied, so the cost of a change does not depend on their number.
pub(super) struct PolicyCache {
    sources: [Source; 4],
    cached: RwLock<CachedPolicy>,
}

struct Source {
    table: Arc<Table>,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Role,
    Binding,
}

#[derive(Default)]
struct CachedPolicy {
    policy: Policy,
    /// How much of each source the policy contains.
    positions: [Position; 4],
}

#[derive(Clone, Copy, Default)]
struct Position {
    /// The revision of the table's last change when it was read; 0 if there was none.
    change: u64,
    /// The policy contains every event up to this revision.
    revision: u64,
}

impl PolicyCache {
    pub(super) fn new(storage: &Storage) -> Self {
        let source = |plural: &str, kind| Source { table: storage.table(GROUP, plural), kind };
        Self {
            sources: [
                source("clusterroles", Kind::Role),
                source("roles", Kind::Role),
                source("clusterrolebindings", Kind::Binding),
                source("rolebindings", Kind::Binding),
            ],
            cached: RwLock::default(),
        }
    }

    /// Returns the policy, which contains every write that completed before this call.
    pub(super) fn read(&self) -> MappedRwLockReadGuard<'_, Policy> {
        let cached = self.cached.read();
        if self.is_current(&cached) {
            return RwLockReadGuard::map(cached, |cached| &cached.policy);
        }
        drop(cached);
        let mut cached = self.cached.write();
        if !self.is_current(&cached) && !self.apply_events(&mut cached) {
            self.rebuild(&mut cached);
        }
        RwLockReadGuard::map(RwLockWriteGuard::downgrade(cached), |cached| &cached.policy)
    }

    fn is_current(&self, cached: &CachedPolicy) -> bool {
        let mut sources = self.sources.iter().zip(&cached.positions);
        sources.all(|(source, position)| source.table.last_change() == position.change)
    }

    /// Applies the events since the last read. Returns false if the history no longer contains all of them.
    fn apply_events(&self, cached: &mut CachedPolicy) -> bool {
        let CachedPolicy { policy, positions } = cached;
        for (source, position) in self.sources.iter().zip(positions) {
            let change = source.table.last_change();
            if change == position.change {
                continue;
            }
            let Ok(batch) = source.table.events_after(position.revision, usize::MAX) else { return false };
            for event in &batch.events {
                source.apply(policy, &event.object, event.kind != EventKind::Deleted);
            }
            *position = Position { change, revision: batch.complete_to };
        }
        true
    }

    /// Builds the policy from all stored roles and bindings.
    fn rebuild(&self, cached: &mut CachedPolicy) {
        *cached = CachedPolicy::default();
        for (source, position) in self.sources.iter().zip(&mut cached.positions) {
            let change = source.table.last_change();
            let (objects, revision) = source.table.list(None);
            for object in &objects {
                source.apply(&mut cached.policy, object, true);
            }
            *position = Position { change, revision };
        }
    }
}

impl Source {
    fn apply(&self, policy: &mut Policy, object: &StoredObject, present: bool) {
        let StoredObject { namespace, name, .. } = object;
        match (self.kind, present) {
            (Kind::Role, true) => policy.put_role(namespace, name, &object.value()),
            (Kind::Role, false) => policy.remove_role(namespace, name),
            (Kind::Binding, true) => policy.put_binding(namespace, name, &object.value()),
            (Kind::Binding, false) => policy.remove_binding(namespace, name),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::access::Attributes;
    use crate::access::policy::Decision;
    use crate::storage::{HistoryLimits, ObjectDraft};
    use crate::user::User;

    fn draft(value: Value) -> ObjectDraft {
        ObjectDraft { value, fields: Box::default(), schema: 0 }
    }

    fn may_list(cache: &PolicyCache) -> bool {
        let user = User::new("x", &[]);
        matches!(cache.read().decide(&user, &Attributes::resource("list", "", "pods")), Decision::Allowed(_))
    }

    /// With a history of one event, every second change leads to a rebuild.
    #[test]
    fn every_write_takes_effect_at_once_even_with_a_short_history() {
        for events in [1, 100] {
            let storage = Storage::new(HistoryLimits { events, bytes: usize::MAX }, 7);
            let cache = PolicyCache::new(&storage);
            assert!(!may_list(&cache));
            let rules = |verb: &str| json!([{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]);
            let role = |verb: &str| draft(json!({"metadata": {"name": "r"}, "rules": rules(verb)}));
            let roles = storage.table(GROUP, "clusterroles");
            let bindings = storage.table(GROUP, "clusterrolebindings");
            let first = roles.create(role("get")).expect("new");
            let binding = json!({
                "metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"},
                "subjects": [{"kind": "User", "name": "x"}],
            });
            let bound = bindings.create(draft(binding.clone())).expect("new");
            assert!(!may_list(&cache));
            let second = roles.update(&first, role("list")).expect("unchanged");
            assert!(may_list(&cache));
            bindings.delete(&bound, draft(binding.clone())).expect("unchanged");
            assert!(!may_list(&cache));
            bindings.create(draft(binding)).expect("new");
            assert!(may_list(&cache));
            let third = roles.update(&second, role("get")).expect("unchanged");
            roles.delete(&third, role("get")).expect("unchanged");
            assert!(!may_list(&cache));
        }
    }
}
