//! The plugin's log. The host adds the plugin to every line, and in a reconcile the watch and the key. As with `tracing`, the macros need no context.
//!
//! ```
//! # let (name, replicas) = ("web", 3);
//! pilothouse_sdk::info!("created {name}");
//! pilothouse_sdk::warn!(deployment = name, replicas = replicas, "scaling");
//! ```

use std::fmt::Display;

pub use crate::bindings::pilothouse::controller::log::Level;
use crate::bindings::pilothouse::controller::types::Pair;
use crate::host::log::log as write_line;

/// Writes one line with fields; the macros are more convenient. In a native test without a [fake host](crate::testing) the line goes to
/// standard error.
pub fn log(level: Level, message: &str, fields: &[(&str, &dyn Display)]) {
    let pair =
        |(key, value): &(&str, &dyn Display)| Pair { key: (*key).to_owned(), value: value.to_string() };
    let fields: Vec<_> = fields.iter().map(pair).collect();
    write_line(level, message, &fields);
}

/// Writes a line at a [`Level`](log::Level): `log!(level, key = value, "text {}", argument)`.
#[macro_export]
macro_rules! log {
    ($level:expr, $($key:ident = $value:expr,)* $format:literal $($arguments:tt)*) => {
        $crate::log::log(
            $level,
            &::std::format!($format $($arguments)*),
            &[$((::std::stringify!($key), &$value)),*],
        )
    };
}

/// Writes a debug line: `debug!(key = value, "text {}", argument)`.
#[macro_export]
macro_rules! debug {
    ($($arguments:tt)*) => { $crate::log!($crate::log::Level::Debug, $($arguments)*) };
}

/// Writes an info line: `info!(key = value, "text {}", argument)`.
#[macro_export]
macro_rules! info {
    ($($arguments:tt)*) => { $crate::log!($crate::log::Level::Info, $($arguments)*) };
}

/// Writes a warning: `warn!(key = value, "text {}", argument)`.
#[macro_export]
macro_rules! warn {
    ($($arguments:tt)*) => { $crate::log!($crate::log::Level::Warn, $($arguments)*) };
}

/// Writes an error line: `error!(key = value, "text {}", argument)`.
#[macro_export]
macro_rules! error {
    ($($arguments:tt)*) => { $crate::log!($crate::log::Level::Error, $($arguments)*) };
}
