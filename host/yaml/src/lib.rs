//! Reads YAML that operators and plugin authors write: bounds what a text may contain, and describes its errors in one line.

mod bounded;
mod description;
mod names;

pub use bounded::{from_multiple, from_str};
pub use description::{describe, describe_message};
pub use names::suggestion;
