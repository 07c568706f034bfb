//! The source of what the server draws at random: UIDs, the endings of generated names, tokens, addresses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use uuid::Uuid;

/// The characters of generated names: without vowels and lookalikes, as in `k8s.io/apiserver/pkg/storage/names`.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A source of identifiers. Unpredictable unless it has a seed. Cheap to clone; clones draw from the same sequence.
#[derive(Clone, Default)]
pub(crate) struct Identifiers {
    /// The generator of a server with a seed; `None` stands for the operating system's randomness.
    seeded: Option<Arc<Seeded>>,
}

struct Seeded {
    generator: Mutex<StdRng>,
    /// How often something was drawn.
    draws: AtomicU64,
}

impl Identifiers {
    /// Creates a source whose identifiers follow from `seed` and from the order of the calls.
    pub(crate) fn from_seed(seed: u64) -> Self {
        let generator = Mutex::new(StdRng::seed_from_u64(seed));
        Self { seeded: Some(Arc::new(Seeded { generator, draws: AtomicU64::new(0) })) }
    }

    /// Returns how often something was drawn; 0 without a seed.
    pub(crate) fn draws(&self) -> u64 {
        self.seeded.as_ref().map_or(0, |seeded| seeded.draws.load(Ordering::Relaxed))
    }

    /// Returns a new UID.
    pub(crate) fn new_uid(&self) -> String {
        self.uuid().to_string()
    }

    /// Returns a token of 32 characters.
    pub(crate) fn token(&self) -> String {
        self.uuid().simple().to_string()
    }

    /// Returns a name for `generateName`: at most 58 characters of `base` and five random characters.
    pub(crate) fn generate_name(&self, base: &str) -> String {
        let mut random = self.uuid().as_u128();
        let mut name: String = base.chars().take(58).collect();
        for _ in 0..5 {
            let index = usize::try_from(random % LETTERS.len() as u128).unwrap_or(0);
            random /= LETTERS.len() as u128;
            name.push(char::from(LETTERS[index]));
        }
        name
    }

    /// Returns a random number.
    pub(crate) fn number(&self) -> u32 {
        self.uuid().as_fields().0
    }

    /// Returns the serial number of a certificate.
    pub(crate) fn serial(&self) -> [u8; 16] {
        self.uuid().into_bytes()
    }

    fn uuid(&self) -> Uuid {
        match &self.seeded {
            Some(seeded) => {
                let mut bytes = [0; 16];
                seeded.draws.fetch_add(1, Ordering::Relaxed);
                seeded.generator.lock().fill_bytes(&mut bytes);
                uuid::Builder::from_random_bytes(bytes).into_uuid()
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "the server's only use of the operating system's randomness"
            )]
            None => Uuid::new_v4(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_name_has_at_most_63_characters() {
        let identifiers = Identifiers::default();
        let name = identifiers.generate_name(&"a".repeat(80));
        assert_eq!(name.len(), 63);
        assert_ne!(identifiers.generate_name("x-"), identifiers.generate_name("x-"));
    }

    #[test]
    fn equal_seeds_give_equal_identifiers() {
        let draw = |identifiers: &Identifiers| {
            (
                identifiers.new_uid(),
                identifiers.generate_name("x-"),
                identifiers.token(),
                identifiers.number(),
            )
        };
        let (first, second) = (Identifiers::from_seed(7), Identifiers::from_seed(7));
        assert_eq!(draw(&first), draw(&second));
        assert_eq!(draw(&first), draw(&second.clone()));
        assert_eq!((first.draws(), second.draws()), (8, 8));
        assert_eq!(Identifiers::default().draws(), 0);
        assert_ne!(draw(&first), draw(&Identifiers::from_seed(8)));
        assert_ne!(Identifiers::default().new_uid(), Identifiers::default().new_uid());
    }
}
