//! Requests that are made from any bytes, the same in every run, against a server in process. `cargo xtask fuzz requests` searches for others.

mod driver;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The longest input in bytes: enough for the most requests of a script.
const MAX_INPUT: usize = 1500;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(1), max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn requests_of_any_bytes_are_answered_and_leave_whole_objects(input in prop::collection::vec(any::<u8>(), 0..MAX_INPUT)) {
        driver::run(&input);
    }
}
