//! A queue of keys with due times.

use std::collections::BTreeMap;

use tokio::time::Instant;

/// Keys, each with the time at which it is due. A key that is added twice is due at the earlier time.
#[derive(Debug)]
pub(super) struct Queue<K> {
    due: BTreeMap<K, Instant>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self { due: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// Adds a key that is due at `at`.
    pub(super) fn add(&mut self, key: K, at: Instant) {
        let due = self.due.entry(key).or_insert(at);
        *due = (*due).min(at);
    }

    /// Removes a key.
    pub(super) fn remove(&mut self, key: &K) {
        self.due.remove(key);
    }

    /// Returns the time at which the first key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    /// Removes and returns the keys that are due, in their order, at most `limit`.
    pub(super) fn take_due(&mut self, now: Instant, limit: usize) -> Vec<K> {
        let is_due = |(key, at): (&K, &Instant)| (*at <= now).then(|| key.clone());
        let keys: Vec<K> = self.due.iter().filter_map(is_due).take(limit).collect();
        for key in &keys {
            self.due.remove(key);
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn key_is_due_once_at_its_earliest_time() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut queue = Queue::default();
        queue.add("a", after(3));
        queue.add("a", after(1));
        queue.add("a", after(2));
        queue.add("b", after(2));
        assert_eq!(queue.next_due(), Some(after(1)));
        assert_eq!(queue.take_due(start, 9), Vec::<&str>::new());
        assert_eq!(queue.take_due(after(1), 9), ["a"]);
        assert_eq!(queue.take_due(after(9), 9), ["b"]);
        assert_eq!(queue.next_due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn taking_due_keys_is_limited() {
        let now = Instant::now();
        let mut queue = Queue::default();
        for key in 0..5 {
            queue.add(key, now);
        }
        queue.remove(&0);
        assert_eq!(queue.take_due(now, 3), [1, 2, 3]);
        assert_eq!(queue.take_due(now, 3), [4]);
    }
}
