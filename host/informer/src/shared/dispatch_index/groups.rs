//! Subscribers grouped by their conditions, so that each distinct condition is evaluated at most once per change. Pure.

use std::sync::Arc;

use pilothouse_model::Notification;
use pilothouse_model::hash::HashMap;

use super::condition_index::{ConditionIndex, ConditionKeys};
use crate::condition::{ChangeFacts, Condition, ConditionValue};
use crate::store::ScopeId;

/// The subscribers that see the same objects, by condition.
pub(super) struct ConditionGroups<T> {
    /// `None` for the numbers in `free`.
    groups: Vec<Option<Group<T>>>,
    free: Vec<usize>,
    by_condition: HashMap<Arc<Condition>, usize>,
    lists: ConditionIndex,
    /// The groups to evaluate for the current change.
    candidates: Vec<usize>,
    /// The number of the current change.
    change: u64,
}

/// The subscribers with one condition. Never empty.
struct Group<T> {
    condition: Arc<Condition>,
    keys: ConditionKeys,
    members: Vec<(ScopeId, T)>,
    /// The last change for which the group was a candidate.
    last_change: u64,
}

/// A subscriber's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    group: usize,
    member: usize,
}

impl<T> Default for ConditionGroups<T> {
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            free: Vec::new(),
            by_condition: HashMap::default(),
            lists: ConditionIndex::default(),
            candidates: Vec::new(),
            change: 0,
        }
    }
}

impl<T> ConditionGroups<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.by_condition.is_empty()
    }

    /// Adds a subscriber.
    pub(super) fn insert(&mut self, id: ScopeId, subscriber: T, condition: &Arc<Condition>) -> Position {
        let group = match self.by_condition.get(condition) {
            Some(group) => *group,
            None => self.add_group(condition),
        };
        let members = self.groups[group].as_mut().map(|group| &mut group.members);
        let members = members.expect("by_condition contains existing groups only");
        members.push((id, subscriber));
        Position { group, member: members.len() - 1 }
    }

    fn add_group(&mut self, condition: &Arc<Condition>) -> usize {
        let number = self.free.pop().unwrap_or_else(|| {
            self.groups.push(None);
            self.groups.len() - 1
        });
        let keys = self.lists.insert(ConditionKeys::of(condition.root()), number);
        self.groups[number] =
            Some(Group { condition: Arc::clone(condition), keys, members: Vec::new(), last_change: 0 });
        self.by_condition.insert(Arc::clone(condition), number);
        number
    }

    /// Removes a subscriber. Returns it, and the subscriber that is at its position now.
    pub(super) fn remove(&mut self, position: Position) -> Option<(T, Option<ScopeId>)> {
        let group = self.groups.get_mut(position.group)?.as_mut()?;
        if position.member >= group.members.len() {
            return None;
        }
        let (_, subscriber) = group.members.swap_remove(position.member);
        let moved = group.members.get(position.member).map(|(id, _)| *id);
        if group.members.is_empty()
            && let Some(group) = self.groups[position.group].take()
        {
            self.lists.remove(&group.keys, position.group);
            self.by_condition.remove(&group.condition);
            self.free.push(position.group);
        }
        Some((subscriber, moved))
    }

    /// Calls `deliver` with each subscriber whose condition does not refuse the change.
    pub(super) fn deliver(&mut self, notification: &Notification, mut deliver: impl FnMut(&T)) {
        let Self { groups, lists, candidates, change, .. } = self;
        *change += 1;
        candidates.clear();
        let facts = ChangeFacts::through_views(notification);
        lists.visit(&facts, |number| {
            if let Some(group) = &mut groups[number]
                && std::mem::replace(&mut group.last_change, *change) != *change
            {
                candidates.push(number);
            }
        });
        for group in candidates.iter().filter_map(|number| groups[*number].as_ref()) {
            if group.condition.root().evaluate(&facts) != ConditionValue::False {
                group.members.iter().for_each(|(_, subscriber)| deliver(subscriber));
            }
        }
    }

    /// Returns the number of distinct conditions.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_condition.len()
    }
}
