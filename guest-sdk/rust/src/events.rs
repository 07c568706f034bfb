//! Recording Kubernetes Events.

use crate::host::events::{self as wit, EventType};
use crate::{Context, Object, Resource};

/// Records Kubernetes Events: see [`Context::events`]. The host counts equal Events as one; recording one never waits or fails.
///
/// `reason` and `action` are UpperCamelCase identifiers (`Created`, `Scaling`); `note` is a sentence for people.
#[derive(Clone, Copy)]
pub struct Events<'c> {
    ctx: &'c Context<'c>,
}

/// What an Event can be about: a typed object or an [`Object`]. Implemented for these types only.
pub trait Regarding {
    #[doc(hidden)]
    fn handle(&self, ctx: &Context<'_>) -> Option<Object>;
    #[doc(hidden)]
    fn describe(&self) -> String;
}

impl Regarding for Object {
    fn handle(&self, _: &Context<'_>) -> Option<Object> {
        Some(self.clone())
    }

    fn describe(&self) -> String {
        self.to_string()
    }
}

impl<K: Resource> Regarding for K {
    fn handle(&self, ctx: &Context<'_>) -> Option<Object> {
        ctx.handle_of(self)
    }

    fn describe(&self) -> String {
        format!("{} {}", crate::ObjectType::of::<K>(), crate::ObjectKey::of(self))
    }
}

impl<'c> Events<'c> {
    pub(crate) fn new(ctx: &'c Context<'c>) -> Self {
        Self { ctx }
    }

    /// Records a normal Event.
    pub fn normal(&self, regarding: &impl Regarding, reason: &str, action: &str, note: impl AsRef<str>) {
        self.publish(regarding, EventType::Normal, reason, action, note.as_ref());
    }

    /// Records a warning, for what may need attention.
    pub fn warning(&self, regarding: &impl Regarding, reason: &str, action: &str, note: impl AsRef<str>) {
        self.publish(regarding, EventType::Warning, reason, action, note.as_ref());
    }

    fn publish(
        &self,
        regarding: &impl Regarding,
        event_type: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        match regarding.handle(self.ctx) {
            Some(object) => wit::publish(object.handle(), event_type, reason, action, note),
            None => crate::warn!(
                reason = reason,
                "no Event: {} is not known to the host; it would have said: {note}",
                regarding.describe()
            ),
        }
    }
}
