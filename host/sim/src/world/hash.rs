//! The rolling hash of a run.

use std::fmt;

/// FNV-1a with 64 bits: the same on every machine and in every process.
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
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds a value by the text of its debug format, which has every field.
    pub(super) fn add_debug(&mut self, value: &impl fmt::Debug) {
        use fmt::Write;
        // Writing to a hash cannot fail.
        let _ = writeln!(self, "{value:?}");
    }

    pub(super) fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Write for RollingHash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_fnv_1a_and_depends_on_the_order() {
        let mut hash = RollingHash::default();
        hash.add(b"foobar");
        assert_eq!(hash.value(), 0x8594_4171_f739_67e8);
        let (mut first, mut second) = (RollingHash::default(), RollingHash::default());
        first.add_debug(&(1, 2));
        second.add_debug(&(2, 1));
        assert_ne!(first, second);
    }
}
