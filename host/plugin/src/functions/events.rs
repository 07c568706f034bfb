//! `events`: Kubernetes Events.

use wasmtime::component::Resource;

use crate::PluginEvent;
use crate::bindings::pilothouse::controller::events::{EventType, Host};
use crate::sandbox::{GuestState, ObjectHandle, cut};

/// What the API server takes as `reason` and `action`.
const MAX_WORD: usize = 128;
/// What the API server takes as `note`.
const MAX_NOTE: usize = 1024;

impl Host for GuestState {
    fn publish(
        &mut self,
        regarding: Resource<ObjectHandle>,
        event_type: EventType,
        reason: String,
        action: String,
        note: String,
    ) -> wasmtime::Result<()> {
        self.allow("events.publish")?;
        let event = PluginEvent {
            regarding: self.handles.get(&regarding)?,
            warning: event_type == EventType::Warning,
            reason: &reason[..cut(&reason, MAX_WORD)],
            action: &action[..cut(&action, MAX_WORD)],
            note: &note[..cut(&note, MAX_NOTE)],
        };
        self.host.publish_event(&self.call, event);
        Ok(())
    }
}
