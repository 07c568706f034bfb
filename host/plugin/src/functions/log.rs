//! Implements `log`: writes to the plugin's log.

use super::pairs;
use crate::LogLevel;
use crate::bindings::pilothouse::controller::log::{Host, Level};
use crate::bindings::pilothouse::controller::types::Pair;
use crate::sandbox::GuestState;

impl Host for GuestState {
    fn log(&mut self, level: Level, message: String, fields: Vec<Pair>) -> wasmtime::Result<()> {
        let level = match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        self.console.lock().log(level, &message, pairs(fields));
        Ok(())
    }
}
