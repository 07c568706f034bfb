//! The notifications that one subscriber has not taken yet.

use pilothouse_model::{Deletion, Notification, ObjectKey};

use crate::coalesce::{Coalesce, CoalescingQueue, Merged};

/// A subscriber's bounded queue of pending notifications, and the state of its initial list.
pub(super) struct Backlog {
    queue: CoalescingQueue<Notification>,
    /// The position after the last notification of the initial list.
    initial_end: Option<u64>,
    synced: bool,
    closed: bool,
    /// Whether the informer knows that notifications are being merged.
    recorded_merging: bool,
}

impl Backlog {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            queue: CoalescingQueue::new(limit.max(1)),
            initial_end: None,
            synced: false,
            closed: false,
            recorded_merging: false,
        }
    }

    /// Appends a notification. Returns whether the backlog was empty before.
    pub(super) fn push(&mut self, notification: Notification) -> bool {
        if self.closed {
            return false;
        }
        let was_empty = self.queue.is_empty();
        // The result is irrelevant here: `Added` itself says that the subscriber does not know the object.
        self.queue.push(notification, &|_| true);
        was_empty
    }

    /// Marks the end of the initial list: all its notifications have been pushed.
    pub(super) fn finish_initial_list(&mut self) {
        if self.initial_end.is_none() {
            self.initial_end = Some(self.queue.next_position());
        }
    }

    /// Returns `true` once: at the first call after the whole initial list was taken or cancelled by deletions.
    pub(super) fn take_newly_synced(&mut self) -> bool {
        let taken = |end: u64| self.queue.first_position().is_none_or(|first| first >= end);
        let newly_synced = !self.synced && self.initial_end.is_some_and(taken);
        self.synced |= newly_synced;
        newly_synced
    }

    /// Takes the first pending notification.
    pub(super) fn pop(&mut self) -> Option<Notification> {
        self.queue.pop()
    }

    /// Takes up to `limit` notifications.
    pub(super) fn take(&mut self, limit: usize) -> Vec<Notification> {
        let mut batch = Vec::with_capacity(self.queue.len().min(limit));
        while batch.len() < limit {
            let Some(notification) = self.pop() else { break };
            batch.push(notification);
        }
        batch
    }

    /// Returns how many notifications were merged away since the last call.
    pub(super) fn take_merged(&mut self) -> u64 {
        self.queue.take_merged()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Records whether notifications are being merged, and returns it. [`merging_change`](Self::merging_change) compares with this.
    pub(super) fn record_merging(&mut self) -> bool {
        self.recorded_merging = self.queue.is_merging();
        self.recorded_merging
    }

    /// Returns whether notifications are being merged, if that is not what was last recorded.
    pub(super) fn merging_change(&mut self) -> Option<bool> {
        let before = self.recorded_merging;
        Some(self.record_merging()).filter(|is_merging| *is_merging != before)
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.queue = CoalescingQueue::new(1);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}

impl Coalesce for Notification {
    fn key(&self) -> &ObjectKey {
        Notification::key(self)
    }

    fn merge(pending: Merged<Self>, next: Self, _: &dyn Fn(&ObjectKey) -> bool) -> Option<Merged<Self>> {
        use Merged::{One, Two};
        Some(match (pending, next) {
            // The subscriber never saw this object, so its deletion is not delivered.
            (One(Self::Added { .. }), Self::Deleted { .. }) => return None,
            (One(added @ Self::Added { .. }), present) => One(newer(added, present)),
            (One(updated @ Self::Updated { .. }), present @ Self::Updated { .. }) => {
                One(newer(updated, present))
            }
            (One(Self::Updated { .. }), deleted @ Self::Deleted { .. }) => One(deleted),
            (One(Self::Updated { old, .. }), added @ Self::Added { .. }) => Two(Self::tombstone(old), added),
            (One(deleted @ Self::Deleted { .. }), again @ Self::Deleted { .. }) => {
                One(merge_deletions(deleted, again))
            }
            (One(deleted @ Self::Deleted { .. }), present) => Two(deleted, present),
            (Two(deleted, _), Self::Deleted { .. }) => One(deleted),
            (Two(deleted, added), present) => Two(deleted, newer(added, present)),
        })
    }
}

/// Returns `first` with the newer object of `second`: an addition stays an addition, and an update keeps its old state.
fn newer(first: Notification, second: Notification) -> Notification {
    let object = second.object().clone();
    match first {
        Notification::Added { initial, .. } => Notification::Added { object, initial },
        Notification::Updated { old, .. } => Notification::Updated { old, new: object },
        Notification::Deleted { .. } => second,
    }
}

/// Merges two consecutive deletions and keeps the more informative one; see [`Deletion::merge`].
fn merge_deletions(first: Notification, second: Notification) -> Notification {
    match (first, second) {
        (
            Notification::Deleted { last, final_state_unknown },
            Notification::Deleted { last: newer, final_state_unknown: newer_unknown },
        ) => {
            let merged = Deletion { last, final_state_unknown }
                .merge(Deletion { last: newer, final_state_unknown: newer_unknown });
            Notification::Deleted { last: merged.last, final_state_unknown: merged.final_state_unknown }
        }
        (first, _) => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted_server::pod;

    #[test]
    fn the_end_of_the_initial_list_is_reported_once() {
        let mut backlog = Backlog::new(8);
        backlog.push(Notification::Added { object: pod("a", 1).object(), initial: true });
        backlog.finish_initial_list();
        assert!(!backlog.take_newly_synced(), "it waits");
        backlog.take(1);
        assert!(backlog.take_newly_synced());
        assert!(!backlog.take_newly_synced());
    }
}
