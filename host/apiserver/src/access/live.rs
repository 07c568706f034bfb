use std::sync::Arc;

use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::GROUP;
use super::policy::Policy;
use crate::storage::{EventKind, Storage, Stored, Table};

/// The policy of what is stored now. Whoever asks brings it up to date first, so that no answer grants a right that was
/// revoked before the question; and only by what changed, so that a change among many roles costs no more than among few.
pub(super) struct Live {
    sources: [Source; 4],
    known: RwLock<Known>,
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
struct Known {
    policy: Policy,
    /// Of each source.
    positions: [Position; 4],
}

#[derive(Clone, Copy, Default)]
struct Position {
    /// The table's last change before it was read; 0 if there was none.
    change: u64,
    /// The policy has every event up to here.
    revision: u64,
}

impl Live {
    pub(super) fn new(storage: &Storage) -> Self {
        let source = |plural: &str, kind| Source { table: storage.table(GROUP, plural), kind };
        Self {
            sources: [
                source("clusterroles", Kind::Role),
                source("roles", Kind::Role),
                source("clusterrolebindings", Kind::Binding),
                source("rolebindings", Kind::Binding),
            ],
            known: RwLock::default(),
        }
    }

    /// The policy with every write that was done before this call.
    pub(super) fn read(&self) -> MappedRwLockReadGuard<'_, Policy> {
        let known = self.known.read();
        if self.is_current(&known) {
            return RwLockReadGuard::map(known, |known| &known.policy);
        }
        drop(known);
        let mut known = self.known.write();
        if !self.is_current(&known) && !self.follow(&mut known) {
            self.rebuild(&mut known);
        }
        RwLockReadGuard::map(RwLockWriteGuard::downgrade(known), |known| &known.policy)
    }

    fn is_current(&self, known: &Known) -> bool {
        let mut sources = self.sources.iter().zip(&known.positions);
        sources.all(|(source, position)| source.table.last_change() == position.change)
    }

    /// Applies what changed. False when some of that is forgotten.
    fn follow(&self, known: &mut Known) -> bool {
        let Known { policy, positions } = known;
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

    fn rebuild(&self, known: &mut Known) {
        *known = Known::default();
        for (source, position) in self.sources.iter().zip(&mut known.positions) {
            let change = source.table.last_change();
            let (objects, revision) = source.table.list(None);
            for object in &objects {
                source.apply(&mut known.policy, object, true);
            }
            *position = Position { change, revision };
        }
    }
}

impl Source {
    fn apply(&self, policy: &mut Policy, object: &Stored, present: bool) {
        let Stored { namespace, name, .. } = object;
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
    use crate::access::policy::Decision;
    use crate::access::{Question, User};
    use crate::storage::{Draft, HistoryLimits};

    fn draft(value: Value) -> Draft {
        Draft { value, fields: Box::default() }
    }

    fn may_list(live: &Live) -> bool {
        let user = User::new("x", &[]);
        matches!(live.read().decide(&user, &Question::resource("list", "", "pods")), Decision::Allowed(_))
    }

    /// With a history of one event every second change makes it begin anew.
    #[test]
    fn every_write_counts_at_once_however_short_the_history() {
        for events in [1, 100] {
            let storage = Storage::new(HistoryLimits { events, bytes: usize::MAX }, 7);
            let live = Live::new(&storage);
            assert!(!may_list(&live));
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
            assert!(!may_list(&live));
            let second = roles.update(&first, role("list")).expect("unchanged");
            assert!(may_list(&live));
            bindings.delete(&bound, draft(binding.clone())).expect("unchanged");
            assert!(!may_list(&live));
            bindings.create(draft(binding)).expect("new");
            assert!(may_list(&live));
            let third = roles.update(&second, role("get")).expect("unchanged");
            roles.delete(&third, role("get")).expect("unchanged");
            assert!(!may_list(&live));
        }
    }
}
