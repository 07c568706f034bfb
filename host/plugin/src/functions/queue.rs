//! `queue`: more work.

use super::duration;
use crate::bindings::pilothouse::controller::queue::Host;
use crate::bindings::pilothouse::controller::types::ObjectKey;
use crate::sandbox::{GuestState, Stop};

impl Host for GuestState {
    fn add(&mut self, watch: String, key: ObjectKey) -> wasmtime::Result<()> {
        self.allow("queue.add")?;
        Ok(self.host.queue_add(&self.call, &watch, (&key).into()).map_err(Stop::from)?)
    }

    fn add_after(&mut self, watch: String, key: ObjectKey, milliseconds: u32) -> wasmtime::Result<()> {
        self.allow("queue.add-after")?;
        let delay = duration(milliseconds);
        Ok(self.host.queue_add_after(&self.call, &watch, (&key).into(), delay).map_err(Stop::from)?)
    }
}
