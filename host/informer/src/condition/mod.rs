//! Conditions on changes. The informer evaluates equal conditions once per change, for all subscribers that share them.
//!
//! Every term has a small, fixed cost, and a condition has at most [`MAX_TERMS`] terms, so an informer can evaluate the conditions of
//! subscribers that do not trust each other. Whatever else a subscriber requires of a change is [`Condition::unknown`]: the subscriber
//! evaluates it itself.

mod facts;
mod field;
#[cfg(test)]
pub(crate) mod tests;

use pilothouse_model::Notification;

pub(crate) use facts::ChangeFacts;
pub use field::FieldPath;
pub(crate) use field::FieldState;

/// The most terms of one condition. A condition with more is [unknown](Condition::unknown).
pub const MAX_TERMS: usize = 16;

/// A boolean expression over one change, which is evaluated from left to right.
///
/// A term can have no value: the field that it compares may be missing ([`ConditionValue::Error`]), or may be one that only a JSON parser reads
/// exactly ([`ConditionValue::Unknown`]). `&&` and `||` treat errors as CEL does: an error is ignored if another operand decides. An unknown
/// operand ends the evaluation, unless an operand before it has decided.
///
/// ```
/// use pilothouse_informer::condition::{Condition, FieldPath, MetadataPart, ConditionValue};
/// use pilothouse_model::{Notification, Object};
///
/// let pod = |json: &str| Object::from_json(json).unwrap();
/// let web = Condition::field_equals(FieldPath::label("app").unwrap(), "web");
/// let condition = Condition::all([Condition::changed(MetadataPart::Generation), web]);
/// let old = pod(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","generation":1,"labels":{"app":"web"}}}"#);
/// let new = pod(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","generation":2,"labels":{"app":"web"}}}"#);
/// assert_eq!(condition.evaluate(&Notification::Updated { old: old.clone(), new }), ConditionValue::True);
/// assert_eq!(condition.evaluate(&Notification::Updated { old: old.clone(), new: old }), ConditionValue::False);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition(Node);

/// A node of a condition's tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    Constant(bool),
    Changed(MetadataPart),
    Event(EventKind),
    FieldEquals(FieldPath, String),
    FieldExists(FieldPath),
    Unknown,
    Not(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
}

/// The value of a condition for one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionValue {
    /// The change meets the condition.
    True,
    /// The change does not meet the condition. Only then does an informer not deliver it.
    False,
    /// The condition reads a field of an object that has no such field.
    Error,
    /// The condition cannot tell.
    Unknown,
}

/// A part of the metadata whose old and new state are compared. It counts as changed in an addition and in a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetadataPart {
    /// `metadata.generation`.
    Generation,
    /// `metadata.labels`, in any order.
    Labels,
    /// `metadata.annotations`, in any order.
    Annotations,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// [`Notification::Added`].
    Added,
    /// [`Notification::Updated`] with another resource version.
    Updated,
    /// [`Notification::Updated`] with the same resource version.
    Resync,
    /// [`Notification::Deleted`].
    Deleted,
}

impl MetadataPart {
    pub(crate) const ALL: [Self; 3] = [Self::Generation, Self::Labels, Self::Annotations];
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Added, Self::Updated, Self::Resync, Self::Deleted];

    /// Returns the kind of a notification.
    #[must_use]
    pub fn of(notification: &Notification) -> Self {
        match notification {
            Notification::Added { .. } => Self::Added,
            Notification::Updated { .. } if notification.is_resync() => Self::Resync,
            Notification::Updated { .. } => Self::Updated,
            Notification::Deleted { .. } => Self::Deleted,
        }
    }
}

impl Condition {
    /// Returns the condition that every change meets, or that none does.
    #[must_use]
    pub fn constant(value: bool) -> Self {
        Self(Node::Constant(value))
    }

    /// Returns the condition that only the subscriber can evaluate.
    #[must_use]
    pub fn unknown() -> Self {
        Self(Node::Unknown)
    }

    /// Returns the condition that a part of the metadata has changed.
    #[must_use]
    pub fn changed(part: MetadataPart) -> Self {
        Self(Node::Changed(part))
    }

    /// Returns the condition that the change is of this kind.
    #[must_use]
    pub fn event(kind: EventKind) -> Self {
        Self(Node::Event(kind))
    }

    /// Returns the condition that a field of the new state is this text. An error if the field is missing.
    #[must_use]
    pub fn field_equals(path: FieldPath, text: impl Into<String>) -> Self {
        Self(Node::FieldEquals(path, text.into()))
    }

    /// Returns the condition that the new state has a field. An error if the object does not even have the map that would contain the
    /// field.
    #[must_use]
    pub fn field_exists(path: FieldPath) -> Self {
        Self(Node::FieldExists(path))
    }

    /// Returns the condition that this one is false.
    #[must_use]
    pub fn negated(self) -> Self {
        Self(match self.0 {
            Node::Not(inner) => *inner,
            node => Node::Not(Box::new(node)),
        })
    }

    /// Returns the condition that all of these are true, evaluated in this order.
    #[must_use]
    pub fn all(conditions: impl IntoIterator<Item = Self>) -> Self {
        let mut operands = Vec::new();
        for Self(node) in conditions {
            match node {
                Node::All(nested) => operands.extend(nested),
                node => operands.push(node),
            }
        }
        Self(match operands.len() {
            0 => Node::Constant(true),
            1 => operands.remove(0),
            _ => Node::All(operands),
        })
        .bounded()
    }

    /// Returns the condition that one of these is true, evaluated in this order.
    #[must_use]
    pub fn any(conditions: impl IntoIterator<Item = Self>) -> Self {
        let mut operands = Vec::new();
        for Self(node) in conditions {
            match node {
                Node::Any(nested) => operands.extend(nested),
                node => operands.push(node),
            }
        }
        Self(match operands.len() {
            0 => Node::Constant(false),
            1 => operands.remove(0),
            _ => Node::Any(operands),
        })
        .bounded()
    }

    /// Returns the condition, or the unknown one if it has too many terms.
    fn bounded(self) -> Self {
        if self.0.terms() > MAX_TERMS { Self::unknown() } else { self }
    }

    /// Returns the condition's value for a change.
    #[must_use]
    pub fn evaluate(&self, notification: &Notification) -> ConditionValue {
        self.0.evaluate(&ChangeFacts::of(notification))
    }

    /// Whether the condition is true or false for every change: it compares no fields, and has no unknown part.
    #[must_use]
    pub fn is_always_decided(&self) -> bool {
        self.0.is_always_decided()
    }

    pub(crate) fn root(&self) -> &Node {
        &self.0
    }
}

impl Node {
    fn terms(&self) -> usize {
        match self {
            Self::Not(inner) => inner.terms(),
            Self::All(operands) | Self::Any(operands) => operands.iter().map(Self::terms).sum(),
            _ => 1,
        }
    }

    fn is_always_decided(&self) -> bool {
        match self {
            Self::Constant(_) | Self::Changed(_) | Self::Event(_) => true,
            Self::FieldEquals(..) | Self::FieldExists(_) | Self::Unknown => false,
            Self::Not(inner) => inner.is_always_decided(),
            Self::All(operands) | Self::Any(operands) => operands.iter().all(Self::is_always_decided),
        }
    }

    /// Returns the value for a change. Recurses at most once for each term and each negation.
    pub(crate) fn evaluate(&self, facts: &ChangeFacts<'_>) -> ConditionValue {
        match self {
            Self::Constant(value) => ConditionValue::of(*value),
            Self::Changed(part) => ConditionValue::of(facts.has_changed(*part)),
            Self::Event(kind) => ConditionValue::of(facts.event() == *kind),
            Self::FieldEquals(path, text) => facts.field(path, |state| match state {
                FieldState::Text(found) => ConditionValue::of(found == text),
                FieldState::Other => ConditionValue::False,
                FieldState::Missing | FieldState::NoParent => ConditionValue::Error,
                FieldState::Unknown => ConditionValue::Unknown,
            }),
            Self::FieldExists(path) => facts.field(path, |state| match state {
                FieldState::Text(_) | FieldState::Other => ConditionValue::True,
                FieldState::Missing => ConditionValue::False,
                FieldState::NoParent => ConditionValue::Error,
                FieldState::Unknown => ConditionValue::Unknown,
            }),
            Self::Unknown => ConditionValue::Unknown,
            Self::Not(inner) => inner.evaluate(facts).negated(),
            Self::All(operands) => combined(operands, facts, ConditionValue::False),
            Self::Any(operands) => combined(operands, facts, ConditionValue::True),
        }
    }
}

/// Evaluates operands in order, up to one that is `decisive` or unknown.
fn combined(operands: &[Node], facts: &ChangeFacts<'_>, decisive: ConditionValue) -> ConditionValue {
    let mut verdict = decisive.negated();
    for operand in operands {
        match operand.evaluate(facts) {
            found if found == decisive || found == ConditionValue::Unknown => return found,
            ConditionValue::Error => verdict = ConditionValue::Error,
            _ => {}
        }
    }
    verdict
}

impl ConditionValue {
    fn of(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }

    fn negated(self) -> Self {
        match self {
            Self::True => Self::False,
            Self::False => Self::True,
            Self::Error | Self::Unknown => self,
        }
    }
}
