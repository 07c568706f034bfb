//! Implements `events`: publishes Kubernetes Events.

use wasmtime::component::Resource;

use crate::PluginEvent;
use crate::bindings::pilothouse::controller::events::{EventType, Host};
use crate::sandbox::{GuestState, ObjectHandle};

/// Maximum length of `reason` and `action` that the API server accepts (events.k8s.io/v1), in bytes.
const MAX_REASON: usize = 128;
/// Maximum length of `note` that the API server accepts, in bytes.
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
        self.check_available("events.publish")?;
        let event = PluginEvent {
            regarding: self.handles.get(&regarding)?,
            warning: event_type == EventType::Warning,
            reason: &reason[..reason.floor_char_boundary(MAX_REASON)],
            action: &action[..action.floor_char_boundary(MAX_REASON)],
            note: &note[..note.floor_char_boundary(MAX_NOTE)],
        };
        self.host.publish_event(&self.call, event);
        Ok(())
    }
}
