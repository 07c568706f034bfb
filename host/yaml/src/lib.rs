//! Reads YAML that operators and plugin authors write: bounds what a text may contain, describes its errors in one line, and finds the place of a
//! member.

mod bounded;
mod description;
mod field_path;
mod names;
mod places;
mod values;

pub use bounded::{from_multiple, from_str};
pub use description::{describe, describe_message};
pub use field_path::{FieldPath, PathStep};
pub use names::suggestion;
pub use places::{Place, Places};
pub use values::{ValueError, from_value};
