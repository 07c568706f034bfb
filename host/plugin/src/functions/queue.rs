//! `queue`: more work.

use super::duration;
use super::keys::object_key;
use crate::bindings::pilothouse::controller::queue::Host;
use crate::bindings::pilothouse::controller::types::ObjectKey;
use crate::sandbox::{GuestState, Stop};

impl Host for GuestState {
    fn add(&mut self, watch: String, key: ObjectKey) -> wasmtime::Result<()> {
        self.allow("queue.add")?;
        let key = object_key("queue.add", &key).map_err(Stop::from)?;
        Ok(self.host.queue_add(&self.call, &watch, key).map_err(Stop::from)?)
    }

    fn add_after(&mut self, watch: String, key: ObjectKey, milliseconds: u32) -> wasmtime::Result<()> {
        self.allow("queue.add-after")?;
        let key = object_key("queue.add-after", &key).map_err(Stop::from)?;
        let delay = duration(milliseconds);
        Ok(self.host.queue_add_after(&self.call, &watch, key, delay).map_err(Stop::from)?)
    }
}
