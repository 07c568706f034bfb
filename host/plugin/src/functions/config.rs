//! Implements `config`: returns the configuration from the plugin's sidecar.

use crate::bindings::pilothouse::controller::config::Host;
use crate::sandbox::GuestState;

impl Host for GuestState {
    fn get(&mut self) -> wasmtime::Result<String> {
        // Available in every call: the configuration is the same for all calls of one version, so what a guest derives from it stays valid.
        self.copy_for_guest(self.host.config())
    }
}
