//! FNV-1a: a hash that is the same in each process, in each release and on each machine. It does not resist chosen collisions.

/// The hash of no bytes.
pub const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// Returns the hash with 64 bits of some bytes and of `bytes` after them. `hash` is that of the former, or [`EMPTY`].
#[must_use]
pub fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the hash with 32 bits.
pub(crate) fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_specification() {
        // The test vectors of the authors of FNV.
        assert_eq!(fnv1a(EMPTY, b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(EMPTY, b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(fnv1a(EMPTY, b"foo"), b"bar"), 0x8594_4171_f739_67e8);
        assert_eq!(fnv1a_32(b"foobar"), 0xbf9c_f968);
    }
}
