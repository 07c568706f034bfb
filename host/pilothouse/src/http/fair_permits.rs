//! Permits that many clients share: none of them gets all, and none has all the places in the queue.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pilothouse_listen::ClientNetwork;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A client; `None` for requests that do not come through the listener.
pub(super) type Client = Option<ClientNetwork>;

/// How many permits there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    /// The number of permits.
    pub(super) total: usize,
    /// The maximum number of permits of one client.
    pub(super) per_client: usize,
    /// The maximum number of requests of one client that have a permit or wait for one.
    pub(super) requests_per_client: usize,
}

/// Permits that are granted in the order of the requests, among those whose client has not reached its share.
pub(super) struct FairPermits {
    shares: Shares,
    permits: Arc<Semaphore>,
    clients: Mutex<BTreeMap<Client, Weak<ClientShare>>>,
}

/// What one client has of the permits. It exists as long as one of the client's requests does.
struct ClientShare {
    permits: Arc<Semaphore>,
    requests: Arc<Semaphore>,
}

/// A permit, which is returned when it is dropped.
pub(super) struct FairPermit {
    _permits: [OwnedSemaphorePermit; 3],
    _client: Arc<ClientShare>,
}

impl FairPermits {
    pub(super) fn new(shares: Shares) -> Self {
        Self { shares, permits: Arc::new(Semaphore::new(shares.total)), clients: Mutex::default() }
    }

    /// Waits for a permit; `None` if too many requests of the client have one or wait. Cancel safe.
    pub(super) async fn acquire(&self, client: Client) -> Option<FairPermit> {
        let share = self.share(client);
        let request = Arc::clone(&share.requests).try_acquire_owned().ok()?;
        // The client's own permit comes first: a client with many requests has few places in the queue of all.
        let own = Arc::clone(&share.permits).acquire_owned().await.ok()?;
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        Some(FairPermit { _permits: [request, own, permit], _client: share })
    }

    /// Returns a permit if one is free and the client has not reached its share.
    pub(super) fn try_acquire(&self, client: Client) -> Option<FairPermit> {
        let share = self.share(client);
        let request = Arc::clone(&share.requests).try_acquire_owned().ok()?;
        let own = Arc::clone(&share.permits).try_acquire_owned().ok()?;
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(FairPermit { _permits: [request, own, permit], _client: share })
    }

    fn share(&self, client: Client) -> Arc<ClientShare> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = clients.get(&client).and_then(Weak::upgrade) {
            return share;
        }
        clients.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(ClientShare {
            permits: Arc::new(Semaphore::new(self.shares.per_client)),
            requests: Arc::new(Semaphore::new(self.shares.requests_per_client)),
        });
        clients.insert(client, Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn client(last: u8) -> Client {
        Some(ClientNetwork::of([10, 0, 0, last].into()))
    }

    #[test]
    fn a_client_with_many_requests_leaves_permits_to_others() {
        let permits = FairPermits::new(Shares { total: 3, per_client: 2, requests_per_client: 5 });
        let mut greedy: Vec<_> = (0..5).map(|_| Box::pin(permits.acquire(client(1)))).collect();
        let mut granted: Vec<_> =
            greedy.iter_mut().filter_map(|request| request.as_mut().now_or_never().flatten()).collect();
        assert_eq!(granted.len(), 2);
        assert!(permits.acquire(client(1)).now_or_never().expect("refused at once").is_none());
        let other = permits.acquire(client(2)).now_or_never().flatten();
        assert!(other.is_some());
        assert!(permits.try_acquire(client(3)).is_none(), "all are in use");
        // The third client waits behind at most two requests of the first one.
        let mut third = Box::pin(permits.acquire(client(3)));
        assert!(third.as_mut().now_or_never().is_none());
        granted.pop();
        assert!(third.now_or_never().flatten().is_some());
    }

    #[test]
    fn clients_without_requests_are_forgotten() {
        let permits = FairPermits::new(Shares { total: 1, per_client: 1, requests_per_client: 1 });
        for last in 0..=u8::MAX {
            assert!(permits.try_acquire(client(last)).is_some());
        }
        assert_eq!(permits.clients.lock().expect("not poisoned").len(), 1);
    }
}
