//! How long a controller waits before it replaces a Pod that failed, after `k8s.io/client-go/util/flowcontrol`.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::object::until;

/// The delay after the first failure; it doubles with each further one.
const FIRST: Duration = Duration::from_secs(1);
const MAX: Duration = Duration::from_secs(15 * 60);

/// A delay starts again from the first after this time without a failure.
const EXPIRY: Duration = Duration::from_secs(2 * 15 * 60);

/// The delays of failing Pods by a key, such as the owner and the Node.
#[derive(Debug, Default)]
pub(super) struct PodBackoff {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    delay: Duration,
    last_failure: Timestamp,
}

impl PodBackoff {
    /// Returns how long a failed Pod must stay, or `None` if it may be replaced now; the next one then waits longer.
    pub(super) fn delay(&mut self, key: &str, now: Timestamp) -> Option<Duration> {
        self.entries.retain(|_, entry| until(after(entry.last_failure, EXPIRY), now).is_some());
        let Some(entry) = self.entries.get_mut(key) else {
            self.entries.insert(key.to_owned(), Entry { delay: FIRST, last_failure: now });
            return None;
        };
        if let Some(remaining) = until(after(entry.last_failure, entry.delay), now) {
            return Some(remaining);
        }
        *entry = Entry { delay: entry.delay.saturating_mul(2).min(MAX), last_failure: now };
        None
    }
}

fn after(time: Timestamp, delay: Duration) -> Timestamp {
    time.checked_add(delay).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_a_maximum_and_expires() {
        let mut backoff = PodBackoff::default();
        let mut now = Timestamp::UNIX_EPOCH;
        assert_eq!(backoff.delay("a", now), None, "the first failure");
        assert_eq!(backoff.delay("b", now), None, "keys are independent");
        let mut delays = Vec::new();
        for _ in 0..12 {
            let delay = backoff.delay("a", now).expect("a delay");
            delays.push(delay.as_secs());
            now = after(now, delay);
            assert_eq!(backoff.delay("a", now), None);
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
        now = after(now, EXPIRY);
        assert_eq!(backoff.delay("a", now), None);
        assert_eq!(backoff.delay("a", now), Some(FIRST));
        assert_eq!(backoff.entries.len(), 1, "`b` expired");
    }
}
