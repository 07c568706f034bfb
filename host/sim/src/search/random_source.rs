//! Random numbers of the search.

/// A generator of random numbers whose sequence never changes between versions of a library: a seed must find the same
/// bug for ever. This is SplitMix64.
#[derive(Clone, Debug)]
pub struct RandomSource(u64);

impl RandomSource {
    /// Returns a generator that yields the same numbers for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// Returns a number below `bound`, or 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64().checked_rem(bound).unwrap_or_default()
    }

    /// Returns an element, or `None` if there is none.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(usize::try_from(self.below(items.len() as u64)).unwrap_or_default())
    }

    /// Returns `true` once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns the items in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            let other = usize::try_from(self.below(index as u64 + 1)).unwrap_or_default();
            items.swap(index, other);
        }
    }
}
