//! What conditions ask about one change. Each answer is computed at most once.

use std::cell::{OnceCell, RefCell};

use pilothouse_model::{Notification, Object};

use super::{ConditionValue, EventKind, FieldPath, FieldState, MetadataPart};

/// The most fields of one change that are read. Terms about further fields are unknown.
pub(crate) const MAX_FIELDS: usize = 24;

/// What is known about one change.
pub(crate) struct ChangeFacts<'n> {
    notification: &'n Notification,
    /// Whether texts are read from separate views, so that texts that are decompressed for them do not stay in memory with the change.
    uses_views: bool,
    old: OnceCell<Option<Object>>,
    new: OnceCell<Object>,
    event: OnceCell<EventKind>,
    changed: [OnceCell<bool>; MetadataPart::ALL.len()],
    fields: RefCell<Vec<(FieldPath, FieldState)>>,
}

impl<'n> ChangeFacts<'n> {
    /// Returns the facts about a change whose objects are read afterwards.
    pub(crate) fn of(notification: &'n Notification) -> Self {
        Self {
            notification,
            uses_views: false,
            old: OnceCell::new(),
            new: OnceCell::new(),
            event: OnceCell::new(),
            changed: Default::default(),
            fields: RefCell::default(),
        }
    }

    /// Returns the facts about a change that will wait in backlogs.
    pub(crate) fn through_views(notification: &'n Notification) -> Self {
        Self { uses_views: true, ..Self::of(notification) }
    }

    pub(crate) fn event(&self) -> EventKind {
        *self.event.get_or_init(|| EventKind::of(self.notification))
    }

    /// Whether this part of the metadata has changed.
    pub(crate) fn has_changed(&self, part: MetadataPart) -> bool {
        *self.changed[part as usize].get_or_init(|| {
            let Notification::Updated { old, new } = self.notification else { return true };
            if part == MetadataPart::Generation {
                return old.generation() != new.generation();
            }
            let Some(old) = self.old_text() else { return true };
            let new = self.new_text();
            match part {
                MetadataPart::Labels => !old.same_labels(new) && !old.labels().eq(new.labels()),
                _ => !old.same_annotations(new) && !old.annotations().eq(new.annotations()),
            }
        })
    }

    /// Returns what `verdict` makes of the field at this path.
    pub(crate) fn field(
        &self,
        path: &FieldPath,
        verdict: impl FnOnce(&FieldState) -> ConditionValue,
    ) -> ConditionValue {
        self.with_field(path, verdict)
    }

    /// Calls `read` with what the new state has at this path.
    pub(crate) fn with_field<R>(&self, path: &FieldPath, read: impl FnOnce(&FieldState) -> R) -> R {
        let mut fields = self.fields.borrow_mut();
        if let Some((_, state)) = fields.iter().find(|(known, _)| known == path) {
            return read(state);
        }
        if fields.len() == MAX_FIELDS {
            return read(&FieldState::Unknown);
        }
        let state = path.read(self.new_text());
        let result = read(&state);
        fields.push((path.clone(), state));
        result
    }

    fn new_text(&self) -> &Object {
        self.new.get_or_init(|| self.readable(self.notification.object()))
    }

    fn old_text(&self) -> Option<&Object> {
        let old = self.old.get_or_init(|| match self.notification {
            Notification::Updated { old, .. } => Some(self.readable(old)),
            _ => None,
        });
        old.as_ref()
    }

    fn readable(&self, object: &Object) -> Object {
        if self.uses_views { object.fresh_view() } else { object.clone() }
    }
}
