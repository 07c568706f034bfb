//! Hash maps and sets whose order a simulation can fix.
//!
//! The order in which the standard library's maps iterate is random in each process. A program that has to do the same twice, such as a simulation,
//! calls [`set_seed`] before it creates the first map of this module. The order then follows from the seed and from what was inserted and removed.
//! Without a seed, the order is random, so that a user who chooses keys cannot provoke collisions.
//!
//! ```
//! use pilothouse_model::hash::{HashMap, HashSet};
//!
//! let mut replicas: HashMap<&str, u32> = HashMap::default();
//! replicas.insert("web", 3);
//! let names: HashSet<&str> = replicas.keys().copied().collect();
//! assert!(names.contains("web"));
//! ```

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use thiserror::Error;

/// A hash map, with the hasher of this module. Created by `HashMap::default()` or by collecting.
pub type HashMap<K, V> = std::collections::HashMap<K, V, HashState>;

/// A hash set, with the hasher of this module. Created by `HashSet::default()` or by collecting.
pub type HashSet<T> = std::collections::HashSet<T, HashState>;

/// An odd number with about as many ones as zeros: the fractional part of the golden ratio.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// The seed of the process; set by its first use.
static PROCESS_SEED: OnceLock<ProcessSeed> = OnceLock::new();

thread_local! {
    /// The number of hashers that this thread has created without a fixed seed.
    static CREATED: Cell<u64> = const { Cell::new(0) };
}

struct ProcessSeed {
    /// Whether [`set_seed`] chose the seed.
    is_fixed: bool,
    seed: u64,
    shared: SharedSeed,
}

/// The seed cannot be set any more, because a map exists already, or because another seed was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the seed of hash maps is in use already; set it once, before the first map is created")]
pub struct SeedInUse;

/// The hasher of a map of this module. `HashState::default()` has the seed of the process.
#[derive(Clone, Copy)]
pub struct HashState {
    seed: u64,
    shared: &'static SharedSeed,
}

/// Hashes a key for a map of this module.
#[derive(Clone)]
pub struct KeyHasher(FoldHasher<'static>);

/// Fixes the order of all maps of this module, in all threads of this process. Has no effect if it is called again with the same seed.
///
/// Whoever knows the seed can choose keys whose hashes collide, so a program that handles keys of others must not call this.
///
/// # Errors
/// If a map was created before, or if another seed was set.
pub fn set_seed(seed: u64) -> Result<(), SeedInUse> {
    let current = PROCESS_SEED.get_or_init(|| ProcessSeed::fixed(seed));
    if current.is_fixed && current.seed == seed { Ok(()) } else { Err(SeedInUse) }
}

impl ProcessSeed {
    fn fixed(seed: u64) -> Self {
        Self { is_fixed: true, seed, shared: SharedSeed::from_u64(seed) }
    }

    /// Draws a seed. The standard library's hasher has keys from the operating system's randomness.
    fn random() -> Self {
        let keys = std::hash::RandomState::new();
        let (seed, shared) = (keys.hash_one(0_u8), keys.hash_one(1_u8));
        Self { is_fixed: false, seed, shared: SharedSeed::from_u64(shared) }
    }

    /// Returns a new hasher. Without a fixed seed, each has another one, so that filling a map in the order of another does not provoke collisions.
    fn hash_state(&'static self) -> HashState {
        let number = if self.is_fixed { 0 } else { CREATED.replace(CREATED.get().wrapping_add(1)) };
        let seed = (self.seed ^ number).wrapping_mul(GOLDEN_RATIO).rotate_left(32);
        HashState { seed, shared: &self.shared }
    }
}

impl Default for HashState {
    fn default() -> Self {
        PROCESS_SEED.get_or_init(ProcessSeed::random).hash_state()
    }
}

impl BuildHasher for HashState {
    type Hasher = KeyHasher;

    #[inline]
    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(FoldHasher::with_seed(self.seed, self.shared))
    }
}

impl fmt::Debug for HashState {
    /// Does not show the seed, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashState").finish_non_exhaustive()
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHasher").finish_non_exhaustive()
    }
}

impl Hasher for KeyHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0.finish()
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.0.write_u8(number);
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.0.write_u16(number);
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0.write_u32(number);
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0.write_u64(number);
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        self.0.write_u128(number);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.0.write_usize(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the keys of a map with this hasher, in its order.
    fn order(state: HashState) -> Vec<u32> {
        let mut map = std::collections::HashMap::with_hasher(state);
        map.extend((0..1000).map(|key| (key, ())));
        map.into_keys().collect()
    }

    #[test]
    fn equal_seeds_give_equal_orders() {
        static SEEDS: [OnceLock<ProcessSeed>; 3] = [const { OnceLock::new() }; 3];
        let [first, equal, other] = [(0, 7), (1, 7), (2, 8)]
            .map(|(place, seed)| SEEDS[place].get_or_init(|| ProcessSeed::fixed(seed)));
        assert_eq!(order(first.hash_state()), order(first.hash_state()));
        assert_eq!(order(first.hash_state()), order(equal.hash_state()));
        assert_ne!(order(first.hash_state()), order(other.hash_state()));
    }

    #[test]
    fn without_a_seed_each_map_has_another_order() {
        static SEEDS: [OnceLock<ProcessSeed>; 2] = [const { OnceLock::new() }; 2];
        let [first, other] = [0, 1].map(|place| SEEDS[place].get_or_init(ProcessSeed::random));
        let state = first.hash_state();
        assert_eq!(order(state), order(state));
        assert_ne!(order(state), order(first.hash_state()));
        assert_ne!(order(state), order(other.hash_state()));
    }

    #[test]
    fn the_seed_cannot_be_set_after_the_first_map_exists() {
        let map: HashMap<u32, u32> = HashMap::default();
        assert!(map.is_empty());
        assert_eq!(set_seed(1), Err(SeedInUse));
    }

    #[test]
    fn a_hash_does_not_depend_on_how_the_map_was_created() {
        let state = HashState::default();
        assert_eq!(state.hash_one(("namespace", "name")), state.hash_one(("namespace", "name")));
        assert_ne!(state.hash_one(("namespace", "name")), state.hash_one(("name", "namespace")));
    }
}
