//! The rolling hash of a run.

use std::fmt;
use std::hash::{Hash, Hasher};

/// A multiplicative hash of words of 64 bits, which is the same on every machine and in every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RollingHash(u64);

impl Default for RollingHash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl RollingHash {
    /// Adds bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add_word(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            // At most 7 bytes, so that the length has room.
            word[7] = u8::try_from(rest.len()).unwrap_or_default();
            self.add_word(u64::from_le_bytes(word));
        }
    }

    /// Adds every field of a value.
    pub(super) fn add_value(&mut self, value: &impl Hash) {
        value.hash(self);
    }

    /// Adds a value by the text of its debug format, which has every field. Slower than [`add_value`](Self::add_value).
    pub(super) fn add_debug(&mut self, value: &impl fmt::Debug) {
        use fmt::Write;
        // Writing to a hash cannot fail.
        let _ = writeln!(self, "{value:?}");
    }

    pub(super) fn value(self) -> u64 {
        self.0
    }

    fn add_word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl fmt::Write for RollingHash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

/// Numbers are added in the same way whatever the machine's byte order and word size.
impl Hasher for RollingHash {
    fn write(&mut self, bytes: &[u8]) {
        self.add(bytes);
    }

    fn write_u8(&mut self, number: u8) {
        self.add_word(u64::from(number));
    }

    fn write_u16(&mut self, number: u16) {
        self.add_word(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.add_word(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.add_word(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.add_word(number as u64);
    }

    fn write_i64(&mut self, number: i64) {
        self.add_word(number.cast_unsigned());
    }

    fn write_isize(&mut self, number: isize) {
        self.add_word((number as i64).cast_unsigned());
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_hash_has_a_known_value_and_depends_on_the_order() {
        let mut hash = RollingHash::default();
        hash.add(b"foobar, foobar");
        assert_eq!(hash.value(), 0xa6f4_86eb_c5e7_0122);
        let (mut first, mut second) = (RollingHash::default(), RollingHash::default());
        first.add_debug(&(1, 2));
        second.add_debug(&(2, 1));
        assert_ne!(first, second);
    }

    #[test]
    fn every_part_of_a_value_counts() {
        let hashed = |value: &serde_json::Value| {
            let mut hash = RollingHash::default();
            hash.add_value(value);
            hash.value()
        };
        let values = [
            json!({}),
            json!([]),
            json!(null),
            json!(""),
            json!(0),
            json!(-1),
            json!(1.5),
            json!({"a": "b"}),
            json!({"a": "bc"}),
            json!({"ab": "c"}),
            json!(["a", "b"]),
            json!(["ab"]),
            json!([["a"], "b"]),
        ];
        let hashes: std::collections::BTreeSet<_> = values.iter().map(hashed).collect();
        assert_eq!(hashes.len(), values.len());
        assert_eq!(hashed(&json!({"a": 1, "b": 2})), hashed(&json!({"b": 2, "a": 1})));
    }
}
