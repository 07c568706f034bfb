//! A bounded list of what is wrong with an object.

use std::ops::Deref;

use super::Cause;
use crate::go;

/// The bytes that the causes of one error take at most, unless the first one alone is larger.
const MAX_SIZE: usize = 1 << 20;
/// Bytes that a cause takes beside its texts.
const OVERHEAD: usize = size_of::<Cause>();
/// The message of the last cause if there were more.
const MORE: &str = "there are too many errors to list; correct these to see the others";

/// What is wrong with an object, up to a size.
///
/// An object of a few megabytes may have a million errors, each with a text that is longer than what is wrong. Causes beyond the size are
/// left out, and a last one says so.
#[derive(Debug, Default)]
pub(crate) struct Causes {
    listed: Vec<Cause>,
    size: usize,
    is_cut: bool,
}

impl Causes {
    /// Adds a cause, unless there are too many already.
    pub(crate) fn push(&mut self, cause: Cause) {
        let size = OVERHEAD + cause.field.len() + cause.reason.len() + cause.message.len();
        if self.is_full() || (!self.listed.is_empty() && self.size + size > MAX_SIZE) {
            self.is_cut = true;
            return;
        }
        self.size += size;
        self.listed.push(cause);
    }

    /// Whether further causes are left out. They need not be created then.
    pub(crate) fn is_full(&self) -> bool {
        self.is_cut || self.size >= MAX_SIZE
    }

    /// Counts a cause that was not created because the list is full.
    pub(crate) fn leave_out(&mut self) {
        self.is_cut = true;
    }

    /// Moves all causes of another list to this one.
    pub(crate) fn append(&mut self, other: &mut Self) {
        let Self { listed, is_cut, .. } = std::mem::take(other);
        self.extend(listed);
        self.is_cut |= is_cut;
    }

    /// Keeps only the causes for which `keep` returns true.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&Cause) -> bool) {
        self.listed.retain(keep);
    }
}

impl Extend<Cause> for Causes {
    fn extend<I: IntoIterator<Item = Cause>>(&mut self, causes: I) {
        causes.into_iter().for_each(|cause| self.push(cause));
    }
}

impl FromIterator<Cause> for Causes {
    fn from_iter<I: IntoIterator<Item = Cause>>(causes: I) -> Self {
        let mut list = Self::default();
        list.extend(causes);
        list
    }
}

impl Deref for Causes {
    type Target = [Cause];

    fn deref(&self) -> &[Cause] {
        &self.listed
    }
}

impl From<Causes> for Vec<Cause> {
    fn from(causes: Causes) -> Self {
        let Causes { mut listed, is_cut, .. } = causes;
        if is_cut {
            listed.push(Cause {
                field: "<nil>".to_owned(),
                reason: "FieldValueInvalid".to_owned(),
                message: format!("Invalid value: {}: {MORE}", go::quoted("")),
            });
        }
        listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(bytes: usize) -> Cause {
        Cause { field: "spec".to_owned(), reason: String::new(), message: "x".repeat(bytes) }
    }

    #[test]
    fn causes_beyond_the_size_are_left_out_and_the_last_one_says_so() {
        let mut causes: Causes = (0..1_000_000).map(|_| cause(1_000)).collect();
        assert!(causes.is_full() && causes.len() < 1_000, "{}", causes.len());
        let (listed, mut other) = (causes.len(), Causes::default());
        other.push(cause(10));
        causes.append(&mut other);
        assert_eq!((causes.len(), other.len()), (listed, 0));
        let causes = Vec::from(causes);
        assert_eq!(causes.len(), listed + 1);
        assert!(causes[listed].message.ends_with("correct these to see the others"));
        let again: Causes = causes.into_iter().collect();
        assert!(again.len() >= listed);
    }

    #[test]
    fn the_first_cause_is_listed_whatever_its_size() {
        let mut causes = Causes::default();
        causes.push(cause(3 * MAX_SIZE));
        assert!(causes.is_full());
        assert_eq!(Vec::from(causes).len(), 1, "no other cause was left out");
    }

    #[test]
    fn few_causes_stay_as_they_are() {
        let causes: Causes = (1..100).map(cause).collect();
        assert_eq!(Vec::from(causes), (1..100).map(cause).collect::<Vec<_>>());
    }
}
