//! `config`: what the operator configured.

use crate::bindings::pilothouse::controller::config::Host;
use crate::sandbox::GuestState;

impl Host for GuestState {
    fn get(&mut self) -> wasmtime::Result<String> {
        // Allowed in every call: it is the same for all calls of one version, so whatever depends on it may be kept.
        self.carried(self.host.config())
    }
}
