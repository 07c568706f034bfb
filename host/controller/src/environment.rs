//! Where a host takes the time of day and randomness from: from the operating system, or from a simulation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use tokio::time::Instant;

/// The sources that a host takes the time of day and randomness from. The default is the operating system. Cheap to clone.
///
/// Timers and durations follow tokio's time, which tests and simulations pause.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The time of day.
    pub clock: WallClock,
    /// Randomness, for guests and for the jitter of delays.
    pub randomness: Randomness,
}

/// A source of the time of day. The default is the system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock(Option<Epoch>);

/// A time of day, and the point of tokio's time at which it was.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    time: Timestamp,
    instant: Instant,
}

/// A source of random bytes. The default is the operating system's, which suits secrets. Cheap to clone; clones draw from the same sequence.
#[derive(Clone, Debug, Default)]
pub struct Randomness(Option<Arc<Seeded>>);

#[derive(Debug)]
struct Seeded {
    seed: u64,
    generator: Mutex<StdRng>,
    /// How often something was drawn, from this source and from all its forks.
    draws: Arc<AtomicU64>,
}

impl Environment {
    /// Returns an environment with the same clock and a random sequence of its own, so that what one user draws does not change what another
    /// one gets.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { clock: self.clock, randomness: self.randomness.fork() }
    }
}

impl WallClock {
    /// Creates a clock that reads `time` now and advances with tokio's time. Must be called in the runtime whose time it is to follow.
    #[must_use]
    pub fn starting_at(time: Timestamp) -> Self {
        Self(Some(Epoch { time, instant: Instant::now() }))
    }

    /// Returns the current time.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place where the controller reads the system clock"
    )]
    pub fn now(self) -> Timestamp {
        match self.0 {
            Some(Epoch { time, instant }) => time.checked_add(instant.elapsed()).unwrap_or(Timestamp::MAX),
            None => Timestamp::now(),
        }
    }

    /// Returns the current time as the standard library's type.
    pub(crate) fn system_time(self) -> SystemTime {
        self.now().into()
    }

    /// Returns the time since 1970; zero before.
    pub(crate) fn since_epoch(self) -> Duration {
        self.system_time().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

impl Randomness {
    /// Creates a source whose bytes follow from `seed` and from the order of the calls. Its bytes suit no secrets.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self::seeded(seed, StdRng::seed_from_u64(seed), Arc::default())
    }

    fn seeded(seed: u64, generator: StdRng, draws: Arc<AtomicU64>) -> Self {
        Self(Some(Arc::new(Seeded { seed, generator: Mutex::new(generator), draws })))
    }

    /// Returns how often something was drawn from this source and its forks. 0 for the operating system's randomness, which is not counted.
    #[must_use]
    pub fn draws(&self) -> u64 {
        self.0.as_ref().map_or(0, |seeded| seeded.draws.load(Ordering::Relaxed))
    }

    /// Returns a source with a sequence of its own. The sequence follows from the seed and from what was drawn before.
    #[must_use]
    pub fn fork(&self) -> Self {
        match &self.0 {
            Some(seeded) => {
                let mut generator = seeded.draw();
                let (seed, mut bytes) = (generator.random(), [0; 32]);
                generator.fill_bytes(&mut bytes);
                Self::seeded(seed, StdRng::from_seed(bytes), Arc::clone(&seeded.draws))
            }
            None => Self(None),
        }
    }

    /// Returns the seed; `None` for the operating system's randomness.
    pub(crate) fn seed(&self) -> Option<u64> {
        self.0.as_ref().map(|seeded| seeded.seed)
    }

    /// Fills the buffer with random bytes.
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place where the controller asks for random bytes"
    )]
    pub(crate) fn fill(&self, buffer: &mut [u8]) {
        match &self.0 {
            Some(seeded) => seeded.draw().fill_bytes(buffer),
            None => rand::rng().fill_bytes(buffer),
        }
    }

    /// Returns a number from 0 to 1, for the jitter of a delay.
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place where the controller asks for random numbers"
    )]
    pub(crate) fn fraction(&self) -> f64 {
        match &self.0 {
            Some(seeded) => seeded.draw().random(),
            None => rand::random(),
        }
    }
}

impl Seeded {
    /// Returns the generator, and counts the draw.
    fn draw(&self) -> MutexGuard<'_, StdRng> {
        self.draws.fetch_add(1, Ordering::Relaxed);
        self.generator.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(randomness: &Randomness) -> ([u8; 24], f64) {
        let mut bytes = [0; 24];
        randomness.fill(&mut bytes);
        (bytes, randomness.fraction())
    }

    #[test]
    fn equal_seeds_give_equal_sequences() {
        let (first, second) = (Randomness::from_seed(7), Randomness::from_seed(7));
        assert_eq!(draw(&first), draw(&second));
        assert_eq!(draw(&first.clone()), draw(&second));
        assert_ne!(draw(&first), draw(&Randomness::from_seed(8)));
        assert!((0.0..1.0).contains(&first.fraction()));
    }

    #[test]
    fn forks_have_sequences_of_their_own() {
        let (first, second) = (Randomness::from_seed(7), Randomness::from_seed(7));
        let (one, two) = (first.fork(), first.fork());
        assert_ne!(draw(&one), draw(&two));
        assert_ne!(one.seed(), two.seed());
        // What is drawn from one fork changes neither the next fork nor the source.
        let expected = second.fork();
        draw(&expected);
        assert_eq!(two.seed(), second.fork().seed());
        assert_eq!(draw(&first), draw(&second));
    }

    #[test]
    fn draws_are_counted_with_those_of_forks() {
        let randomness = Randomness::from_seed(7);
        assert_eq!(randomness.draws(), 0);
        draw(&randomness);
        let fork = randomness.fork();
        draw(&fork);
        assert_eq!((randomness.draws(), fork.draws()), (5, 5));
    }

    #[test]
    fn the_default_has_no_seed() {
        let randomness = Randomness::default();
        assert_ne!(draw(&randomness), draw(&randomness));
        assert_eq!(randomness.draws(), 0);
        assert_eq!((randomness.seed(), randomness.fork().seed()), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_with_a_start_follows_paused_time() {
        let clock = WallClock::starting_at("2026-01-02T03:04:05Z".parse().expect("a time"));
        tokio::time::advance(Duration::from_millis(61_500)).await;
        assert_eq!(clock.now().to_string(), "2026-01-02T03:05:06.5Z");
        assert_eq!(clock.since_epoch().subsec_millis(), 500);
        assert!(WallClock::default().now() > Timestamp::UNIX_EPOCH);
    }
}
