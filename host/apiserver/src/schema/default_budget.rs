//! Bounds the defaults of one object. A list of many short elements, each of which gets long defaults, would otherwise take a thousand times
//! the memory of the request.

use serde_json::Value;

use crate::etcd_limits::MAX_OBJECT_BYTES;

/// Defaults would make an object larger than any that can be stored. Some of them were set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultsTooLarge;

/// The bytes of JSON that defaults may still add to an object.
pub(super) struct Budget {
    bytes: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { bytes: MAX_OBJECT_BYTES }
    }

    /// Counts a default.
    pub(super) fn take(&mut self, name: &str, default: &Value) -> Result<(), DefaultsTooLarge> {
        self.bytes = self.bytes.checked_sub(member_len(name, default)).ok_or(DefaultsTooLarge)?;
        Ok(())
    }
}

/// Returns the length of a member's JSON. Numbers and escapes count as short.
fn member_len(name: &str, value: &Value) -> usize {
    name.len() + r#""":,"#.len() + value_len(value)
}

fn value_len(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| value_len(item) + 1).sum::<usize>(),
        Value::Object(object) => {
            2 + object.iter().map(|(name, child)| member_len(name, child)).sum::<usize>()
        }
    }
}
