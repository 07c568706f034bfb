//! Facts about a change that a condition needs, by which its group is indexed. Pure.
//!
//! A condition that is not false for a change has at least one of its keys among the change's facts. So the groups under a change's
//! facts are all that have to be evaluated.

use pilothouse_model::hash::HashMap;

use crate::condition::{ChangeFacts, EventKind, FieldPath, FieldState, MetadataPart, Node};

/// The most keys of one condition. A condition with more is evaluated for every change.
const MAX_KEYS: usize = 12;
/// The most paths by which conditions are indexed, because each of these fields is read for every change.
const MAX_PATHS: usize = 16;

/// The keys of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConditionKeys {
    /// The condition has to be evaluated for every change.
    Always,
    /// The condition is false for a change with none of these facts.
    Keys(Vec<FactKey>),
}

/// A fact about a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FactKey {
    Changed(MetadataPart, bool),
    Event(EventKind),
    /// The field is this text.
    Equals(FieldPath, String),
    /// The field is present.
    Present(FieldPath),
    /// The field is missing in a map that exists.
    Missing(FieldPath),
    /// The map that would contain the field is missing.
    NoParent(FieldPath),
    /// Only a JSON parser can read the field.
    Unknown(FieldPath),
}

impl FactKey {
    fn path(&self) -> Option<&FieldPath> {
        match self {
            Self::Changed(..) | Self::Event(_) => None,
            Self::Equals(path, _)
            | Self::Present(path)
            | Self::Missing(path)
            | Self::NoParent(path)
            | Self::Unknown(path) => Some(path),
        }
    }

    /// Returns how many changes are expected to have this fact, as a rank: 0 for the fewest.
    fn rank(&self) -> usize {
        match self {
            Self::Equals(..) | Self::NoParent(_) | Self::Unknown(_) | Self::Event(EventKind::Resync) => 0,
            Self::Event(EventKind::Added | EventKind::Deleted) => 1,
            Self::Changed(_, true) => 2,
            Self::Present(_) => 3,
            Self::Missing(_) | Self::Changed(_, false) | Self::Event(EventKind::Updated) => 4,
        }
    }
}

impl ConditionKeys {
    /// Returns the keys of a condition.
    pub(super) fn of(condition: &Node) -> Self {
        required_facts(condition, true)
    }

    /// Returns how many changes are expected to have one of the keys, as a rank.
    fn rank(&self) -> (usize, usize) {
        let Self::Keys(keys) = self else { return (usize::MAX, 0) };
        // A field is expected to be present if a condition compares it.
        let is_compared = |missing: &FieldPath| {
            keys.iter().any(|key| matches!(key, FactKey::Equals(path, _) if path == missing))
        };
        let counted = keys.iter().filter(|key| !matches!(key, FactKey::Missing(path) if is_compared(path)));
        (counted.map(FactKey::rank).max().unwrap_or(0), keys.len())
    }

    fn union(self, other: Self) -> Self {
        let (Self::Keys(mut keys), Self::Keys(others)) = (self, other) else { return Self::Always };
        for key in others {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        if keys.len() > MAX_KEYS { Self::Always } else { Self::Keys(keys) }
    }
}

/// Returns the keys of a condition: each change for which the condition can be `truth`, or can have no value, has at least one of these facts.
fn required_facts(condition: &Node, truth: bool) -> ConditionKeys {
    let keys = match condition {
        Node::Constant(value) if *value == truth => return ConditionKeys::Always,
        Node::Constant(_) => Vec::new(),
        Node::Unknown => return ConditionKeys::Always,
        Node::Changed(part) => vec![FactKey::Changed(*part, truth)],
        Node::Event(kind) if truth => vec![FactKey::Event(*kind)],
        Node::Event(kind) => {
            EventKind::ALL.into_iter().filter(|other| other != kind).map(FactKey::Event).collect()
        }
        Node::FieldEquals(_, _) if !truth => return ConditionKeys::Always,
        Node::FieldEquals(path, text) => vec![
            FactKey::Equals(path.clone(), text.clone()),
            FactKey::Missing(path.clone()),
            FactKey::NoParent(path.clone()),
            FactKey::Unknown(path.clone()),
        ],
        Node::FieldExists(path) => {
            let found = if truth { FactKey::Present } else { FactKey::Missing };
            vec![found(path.clone()), FactKey::NoParent(path.clone()), FactKey::Unknown(path.clone())]
        }
        Node::Not(inner) => return required_facts(inner, !truth),
        Node::All(operands) if truth => return best_operand(operands, truth),
        Node::Any(operands) if !truth => return best_operand(operands, truth),
        // One of the operands decides, or has no value.
        Node::All(operands) | Node::Any(operands) => {
            let each = operands.iter().map(|operand| required_facts(operand, truth));
            return each.reduce(ConditionKeys::union).unwrap_or(ConditionKeys::Keys(Vec::new()));
        }
    };
    ConditionKeys::Keys(keys)
}

/// Returns the keys of the operand with the rarest ones. That suffices, because the value is `truth` only if that of each operand is. An
/// operand is not evaluated after an unknown one, so its keys contain the facts that make an earlier operand unknown.
fn best_operand(operands: &[Node], truth: bool) -> ConditionKeys {
    let mut best = ConditionKeys::Always;
    let mut unknown_before = Vec::new();
    for operand in operands {
        let keys = required_facts(operand, truth).union(ConditionKeys::Keys(unknown_before.clone()));
        if keys.rank() < best.rank() {
            best = keys;
        }
        if !add_unknown_facts(operand, &mut unknown_before) {
            break;
        }
    }
    best
}

/// Adds the facts that make the condition unknown. Returns `false` if any change may make it unknown.
fn add_unknown_facts(condition: &Node, facts: &mut Vec<FactKey>) -> bool {
    match condition {
        Node::Constant(_) | Node::Changed(_) | Node::Event(_) => true,
        Node::Unknown => false,
        Node::FieldEquals(path, _) | Node::FieldExists(path) => {
            let key = FactKey::Unknown(path.clone());
            if !facts.contains(&key) {
                facts.push(key);
            }
            true
        }
        Node::Not(inner) => add_unknown_facts(inner, facts),
        Node::All(operands) | Node::Any(operands) => {
            operands.iter().all(|operand| add_unknown_facts(operand, facts))
        }
    }
}

/// Items, such as groups, by the facts by which they are indexed.
#[derive(Default)]
pub(super) struct ConditionIndex {
    always: Vec<usize>,
    changed: [[Vec<usize>; 2]; MetadataPart::ALL.len()],
    events: [Vec<usize>; EventKind::ALL.len()],
    fields: Vec<FieldLists>,
}

/// The items that are indexed by facts about one field.
struct FieldLists {
    path: FieldPath,
    /// The number of keys in all lists.
    len: usize,
    equals: HashMap<String, Vec<usize>>,
    present: Vec<usize>,
    missing: Vec<usize>,
    no_parent: Vec<usize>,
    unknown: Vec<usize>,
}

impl ConditionIndex {
    /// Adds an item. Returns its keys: [`ConditionKeys::Always`] if that would take too many paths.
    pub(super) fn insert(&mut self, keys: ConditionKeys, item: usize) -> ConditionKeys {
        let keys = if self.has_room_for(&keys) { keys } else { ConditionKeys::Always };
        match &keys {
            ConditionKeys::Always => self.always.push(item),
            ConditionKeys::Keys(keys) => {
                keys.iter().for_each(|key| self.update(key, |list| list.push(item), 1));
            }
        }
        keys
    }

    /// Removes an item with these keys.
    pub(super) fn remove(&mut self, keys: &ConditionKeys, item: usize) {
        match keys {
            ConditionKeys::Always => remove_from(&mut self.always, item),
            ConditionKeys::Keys(keys) => {
                keys.iter().for_each(|key| self.update(key, |list| remove_from(list, item), -1));
                self.fields.retain(|lists| lists.len > 0);
            }
        }
    }

    fn has_room_for(&self, keys: &ConditionKeys) -> bool {
        let ConditionKeys::Keys(keys) = keys else { return true };
        let mut new: Vec<&FieldPath> = Vec::new();
        for path in keys.iter().filter_map(FactKey::path) {
            if !new.contains(&path) && !self.fields.iter().any(|lists| lists.path == *path) {
                new.push(path);
            }
        }
        self.fields.len() + new.len() <= MAX_PATHS
    }

    /// Updates the list of a key, whose length changes by `difference`.
    fn update(&mut self, key: &FactKey, update: impl FnOnce(&mut Vec<usize>), difference: isize) {
        match key {
            FactKey::Changed(part, value) => update(&mut self.changed[*part as usize][usize::from(*value)]),
            FactKey::Event(kind) => update(&mut self.events[*kind as usize]),
            FactKey::Equals(path, text) => {
                let lists = self.field(path, difference);
                let list = lists.equals.entry(text.clone()).or_default();
                update(list);
                if list.is_empty() {
                    lists.equals.remove(text);
                }
            }
            FactKey::Present(path) => update(&mut self.field(path, difference).present),
            FactKey::Missing(path) => update(&mut self.field(path, difference).missing),
            FactKey::NoParent(path) => update(&mut self.field(path, difference).no_parent),
            FactKey::Unknown(path) => update(&mut self.field(path, difference).unknown),
        }
    }

    /// Returns the lists of a path, whose length changes by `difference`.
    fn field(&mut self, path: &FieldPath, difference: isize) -> &mut FieldLists {
        let position = self.fields.iter().position(|lists| lists.path == *path).unwrap_or_else(|| {
            self.fields.push(FieldLists::new(path.clone()));
            self.fields.len() - 1
        });
        let lists = &mut self.fields[position];
        lists.len = lists.len.saturating_add_signed(difference);
        lists
    }

    /// Calls `visit` with the items that are indexed by a fact of the change, and with some of them more than once.
    pub(super) fn visit(&self, facts: &ChangeFacts<'_>, mut visit: impl FnMut(usize)) {
        self.always.iter().copied().for_each(&mut visit);
        for (part, lists) in MetadataPart::ALL.into_iter().zip(&self.changed) {
            if lists.iter().any(|list| !list.is_empty()) {
                lists[usize::from(facts.has_changed(part))].iter().copied().for_each(&mut visit);
            }
        }
        self.events[facts.event() as usize].iter().copied().for_each(&mut visit);
        for lists in &self.fields {
            facts.with_field(&lists.path, |state| {
                let (first, second): (&[usize], &[usize]) = match state {
                    FieldState::Text(text) => {
                        (lists.equals.get(text).map_or(&[], Vec::as_slice), &lists.present)
                    }
                    FieldState::Other => (&lists.present, &[]),
                    FieldState::Missing => (&lists.missing, &[]),
                    FieldState::NoParent => (&lists.no_parent, &[]),
                    FieldState::Unknown => (&lists.unknown, &[]),
                };
                first.iter().chain(second).copied().for_each(&mut visit);
            });
        }
    }
}

impl FieldLists {
    fn new(path: FieldPath) -> Self {
        Self {
            path,
            len: 0,
            equals: HashMap::default(),
            present: Vec::new(),
            missing: Vec::new(),
            no_parent: Vec::new(),
            unknown: Vec::new(),
        }
    }
}

/// Removes one occurrence of an item.
pub(super) fn remove_from(list: &mut Vec<usize>, item: usize) {
    if let Some(position) = list.iter().position(|known| *known == item) {
        list.swap_remove(position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Condition;

    fn keys_of(condition: &Condition) -> ConditionKeys {
        ConditionKeys::of(condition.root())
    }

    fn label(key: &str) -> FieldPath {
        FieldPath::label(key).expect("a short key")
    }

    #[test]
    fn a_conjunction_is_indexed_by_its_rarest_operand() {
        let generation = Condition::changed(MetadataPart::Generation);
        let web = Condition::field_equals(label("app"), "web");
        let expected = keys_of(&web);
        assert_eq!(keys_of(&Condition::all([generation.clone(), web.clone()])), expected);
        let exists = Condition::field_exists(label("app"));
        assert_eq!(
            keys_of(&Condition::all([exists, generation.clone(), web])),
            expected,
            "the operands before it are unknown only if the same field is"
        );
        let keys = ConditionKeys::Keys(vec![FactKey::Changed(MetadataPart::Generation, true)]);
        assert_eq!(keys_of(&Condition::all([generation, Condition::unknown()])), keys);
    }

    #[test]
    fn what_comes_after_an_unknown_operand_is_no_key() {
        let generation = Condition::changed(MetadataPart::Generation);
        assert_eq!(
            keys_of(&Condition::all([Condition::unknown(), generation.clone()])),
            ConditionKeys::Always
        );
        assert_eq!(keys_of(&Condition::any([generation, Condition::unknown()])), ConditionKeys::Always);
    }

    #[test]
    fn a_condition_that_no_change_meets_is_indexed_nowhere() {
        assert_eq!(keys_of(&Condition::constant(false)), ConditionKeys::Keys(Vec::new()));
        assert_eq!(keys_of(&Condition::constant(true)), ConditionKeys::Always);
    }

    #[test]
    fn lists_are_empty_again_once_everything_was_removed() {
        let conditions = [
            Condition::field_equals(label("app"), "web"),
            Condition::field_exists(label("tier")).negated(),
            Condition::event(EventKind::Added).negated(),
            Condition::constant(true),
        ];
        let mut lists = ConditionIndex::default();
        let indexed: Vec<_> =
            conditions.iter().enumerate().map(|(item, c)| lists.insert(keys_of(c), item)).collect();
        assert_eq!(lists.fields.len(), 2);
        indexed.iter().enumerate().for_each(|(item, keys)| lists.remove(keys, item));
        assert!(lists.fields.is_empty() && lists.always.is_empty());
        assert!(lists.events.iter().chain(lists.changed.as_flattened()).all(Vec::is_empty));
    }

    #[test]
    fn conditions_on_too_many_fields_are_evaluated_for_every_change() {
        let mut lists = ConditionIndex::default();
        for item in 0..MAX_PATHS {
            let condition = Condition::field_equals(label(&format!("l{item}")), "x");
            assert_ne!(lists.insert(keys_of(&condition), item), ConditionKeys::Always);
        }
        let further = Condition::field_equals(label("further"), "x");
        assert_eq!(lists.insert(keys_of(&further), 99), ConditionKeys::Always);
        let known = Condition::field_equals(label("l0"), "y");
        assert_ne!(lists.insert(keys_of(&known), 100), ConditionKeys::Always);
    }
}
