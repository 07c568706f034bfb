//! Finds the subscribers of an informer that a change concerns, at a cost that depends on their number and not on that of all subscribers.
//! Pure.
//!
//! Subscribers with equal restrictions form a class; those of a class with equal conditions form a group. For a change, the index
//! 1. finds the classes whose restriction may match the old or the new state (`restriction_index`),
//! 2. computes the notification of each of them once, with the same function that serves a single subscriber,
//! 3. finds the groups whose condition may accept it (`condition_index`), and evaluates each of these conditions once (`groups`).
//!
//! A subscriber that a change does not concern is not touched. docs/decisions/0020-index-of-conditions.md has the reasons.

mod condition_index;
mod groups;
mod restriction_index;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use pilothouse_model::Notification;
use pilothouse_model::hash::HashMap;

use super::change::Change;
use crate::condition::Condition;
use crate::key::Restriction;
use crate::store::ScopeId;
use groups::{ConditionGroups, Position};
use restriction_index::{RestrictionIndex, RestrictionKey};

/// Subscribers by restriction and condition.
pub(super) struct DispatchIndex<T> {
    /// `None` for the numbers in `free`.
    classes: Vec<Option<Class<T>>>,
    free: Vec<usize>,
    by_restriction: HashMap<Option<Restriction>, usize>,
    lists: RestrictionIndex,
    entries: HashMap<ScopeId, Entry>,
    /// The condition of subscribers that receive every change.
    every_change: Arc<Condition>,
    /// The classes that the current change may concern.
    candidates: Vec<usize>,
    /// The number of the current change.
    change: u64,
}

/// The subscribers with one restriction. Never empty.
struct Class<T> {
    restriction: Option<Restriction>,
    key: RestrictionKey,
    groups: ConditionGroups<T>,
    /// The last change for which the class was a candidate.
    last_change: u64,
}

/// One subscriber.
struct Entry {
    class: usize,
    position: Position,
    condition: Arc<Condition>,
    /// Whether the subscriber receives every change for now, regardless of its condition.
    receives_all: bool,
}

impl<T> Default for DispatchIndex<T> {
    fn default() -> Self {
        Self {
            classes: Vec::new(),
            free: Vec::new(),
            by_restriction: HashMap::default(),
            lists: RestrictionIndex::default(),
            entries: HashMap::default(),
            every_change: Arc::new(Condition::constant(true)),
            candidates: Vec::new(),
            change: 0,
        }
    }
}

impl<T> DispatchIndex<T> {
    /// Adds a subscriber, or replaces the one with this ID.
    pub(super) fn insert(
        &mut self,
        id: ScopeId,
        subscriber: T,
        restriction: Option<&Restriction>,
        condition: Arc<Condition>,
    ) {
        self.remove(id);
        let number = match self.by_restriction.get(&restriction.cloned()) {
            Some(number) => *number,
            None => self.add_class(restriction),
        };
        let class = self.classes[number].as_mut().expect("by_restriction contains existing classes only");
        let position = class.groups.insert(id, subscriber, &condition);
        self.entries.insert(id, Entry { class: number, position, condition, receives_all: false });
    }

    fn add_class(&mut self, restriction: Option<&Restriction>) -> usize {
        let number = self.free.pop().unwrap_or_else(|| {
            self.classes.push(None);
            self.classes.len() - 1
        });
        let key = self.lists.insert(restriction, number);
        let class = Class {
            restriction: restriction.cloned(),
            key,
            groups: ConditionGroups::default(),
            last_change: 0,
        };
        self.classes[number] = Some(class);
        self.by_restriction.insert(restriction.cloned(), number);
        number
    }

    /// Removes a subscriber.
    pub(super) fn remove(&mut self, id: ScopeId) {
        let Some(entry) = self.entries.remove(&id) else { return };
        self.take(entry.class, entry.position);
        let is_unused = |class: &Class<T>| class.groups.is_empty();
        if self.classes[entry.class].as_ref().is_some_and(is_unused)
            && let Some(class) = self.classes[entry.class].take()
        {
            self.lists.remove(&class.key, entry.class);
            self.by_restriction.remove(&class.restriction);
            self.free.push(entry.class);
        }
    }

    /// Takes a subscriber out of its group.
    fn take(&mut self, class: usize, position: Position) -> Option<T> {
        let (subscriber, moved) = self.classes.get_mut(class)?.as_mut()?.groups.remove(position)?;
        if let Some(moved) = moved.and_then(|id| self.entries.get_mut(&id)) {
            moved.position = position;
        }
        Some(subscriber)
    }

    /// Removes all subscribers.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Replaces a subscriber's condition.
    pub(super) fn set_condition(&mut self, id: ScopeId, condition: Arc<Condition>) {
        if let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.condition != condition) {
            entry.condition = condition;
            self.regroup(id);
        }
    }

    /// Sets whether a subscriber receives every change, regardless of its condition.
    pub(super) fn set_receives_all(&mut self, id: ScopeId, receives_all: bool) {
        if let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.receives_all != receives_all) {
            entry.receives_all = receives_all;
            self.regroup(id);
        }
    }

    /// Moves a subscriber to the group of its condition.
    fn regroup(&mut self, id: ScopeId) {
        let Some(entry) = self.entries.get(&id) else { return };
        let condition = Arc::clone(if entry.receives_all { &self.every_change } else { &entry.condition });
        let (class, position) = (entry.class, entry.position);
        let Some(subscriber) = self.take(class, position) else { return };
        let Some(class) = &mut self.classes[class] else { return };
        let position = class.groups.insert(id, subscriber, &condition);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.position = position;
        }
    }

    /// Calls `deliver` with each subscriber that the change concerns, and the notification that the change is for it.
    pub(super) fn deliver(&mut self, change: &Change<'_>, mut deliver: impl FnMut(&T, &Notification)) {
        let Self { classes, lists, candidates, change: number_of_change, .. } = self;
        *number_of_change += 1;
        candidates.clear();
        let mut visit = |number: usize| {
            if let Some(class) = &mut classes[number]
                && std::mem::replace(&mut class.last_change, *number_of_change) != *number_of_change
            {
                candidates.push(number);
            }
        };
        match *change {
            Change::Added { object, .. } => lists.visit(object, &mut visit),
            Change::Updated { old, new } => {
                lists.visit(new, &mut visit);
                lists.visit(old, &mut visit);
            }
            Change::Deleted { stored, .. } => lists.visit(stored, &mut visit),
        }
        for number in candidates.iter().copied() {
            let Some(class) = &mut classes[number] else { continue };
            if let Some(notification) = change.notification_for(class.restriction.as_ref()) {
                class.groups.deliver(&notification, |subscriber| deliver(subscriber, &notification));
            }
        }
    }

    /// Returns the number of distinct conditions, counted for each restriction.
    #[cfg(test)]
    pub(super) fn groups(&self) -> usize {
        self.classes.iter().flatten().map(|class| class.groups.len()).sum()
    }
}
