//! Merges queued deltas of one object.

use pilothouse_model::{Delta, ObjectKey};

use crate::coalesce::{Coalesce, Merged};

impl Coalesce for Delta {
    fn key(&self) -> &ObjectKey {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Sync(object) => object.key(),
            Self::Deleted(deletion) => deletion.last.key(),
            Self::Replaced(_) => unreachable!("a replacement is a segment of its own"),
        }
    }

    fn merge(
        pending: Merged<Self>,
        next: Self,
        is_known: &dyn Fn(&ObjectKey) -> bool,
    ) -> Option<Merged<Self>> {
        use Merged::{One, Two};
        Some(match (pending, next) {
            (One(Self::Deleted(deletion)), Self::Deleted(later)) => One(Self::Deleted(deletion.merge(later))),
            (One(deletion @ Self::Deleted(_)), present) => Two(deletion, present),
            (One(present), deletion @ Self::Deleted(_)) => {
                if !is_known(Coalesce::key(&present)) {
                    return None;
                }
                One(deletion)
            }
            (One(present), next) => One(newer(present, next)),
            // The state after the first deletion was never delivered, so its own deletion need not be either.
            (Two(deletion, _), Self::Deleted(_)) => One(deletion),
            (Two(deletion, present), next) => Two(deletion, newer(present, next)),
        })
    }
}

/// Merges two deltas of an existing object: the newer state, as the more informative delta type.
fn newer(first: Delta, next: Delta) -> Delta {
    match (first, next) {
        (Delta::Added(_), Delta::Added(object) | Delta::Updated(object) | Delta::Sync(object)) => {
            Delta::Added(object)
        }
        (Delta::Updated(_), Delta::Sync(object)) => Delta::Updated(object),
        (_, next) => next,
    }
}
