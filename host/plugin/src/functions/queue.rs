//! Implements `queue`: adds keys to the plugin's work queue.

use super::duration;
use super::keys::parse_object_key;
use crate::bindings::pilothouse::controller::queue::Host;
use crate::bindings::pilothouse::controller::types::ObjectKey;
use crate::sandbox::{GuestState, StopReason};

impl Host for GuestState {
    fn add(&mut self, watch: String, key: ObjectKey) -> wasmtime::Result<()> {
        self.check_available("queue.add")?;
        let key = parse_object_key("queue.add", &key).map_err(StopReason::from)?;
        Ok(self.host.queue_add(&self.call, &watch, key).map_err(StopReason::from)?)
    }

    fn add_after(&mut self, watch: String, key: ObjectKey, milliseconds: u32) -> wasmtime::Result<()> {
        self.check_available("queue.add-after")?;
        let key = parse_object_key("queue.add-after", &key).map_err(StopReason::from)?;
        let delay = duration(milliseconds);
        Ok(self.host.queue_add_after(&self.call, &watch, key, delay).map_err(StopReason::from)?)
    }
}
