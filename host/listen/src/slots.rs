//! The slots of open connections, by client.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{ClientNetwork, ConnectionLimits};

/// The number of connections of a client, ordinary ones included, up to which it gets reserved ones.
const RESERVED_PER_CLIENT: usize = 4;

/// The slots of a listener.
pub(crate) struct Slots {
    ordinary: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    per_client: usize,
    clients: Mutex<BTreeMap<ClientNetwork, usize>>,
}

/// Room for a connection that is yet to be accepted.
pub(crate) struct Vacancy {
    permit: OwnedSemaphorePermit,
    is_reserved: bool,
}

/// The slot of an open connection.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    client: ClientNetwork,
    is_reserved: bool,
    _permit: OwnedSemaphorePermit,
}

impl Slots {
    pub(crate) fn new(limits: &ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            ordinary: Arc::new(Semaphore::new(limits.connections)),
            reserved: Arc::new(Semaphore::new(limits.reserved)),
            per_client: limits.connections_per_client,
            clients: Mutex::default(),
        })
    }

    /// Waits until there is room for a connection; `None` is never returned while the semaphores are open. Cancel safe.
    pub(crate) async fn vacancy(&self) -> Option<Vacancy> {
        let (permit, is_reserved) = tokio::select! {
            biased;
            permit = Arc::clone(&self.ordinary).acquire_owned() => (permit, false),
            permit = Arc::clone(&self.reserved).acquire_owned() => (permit, true),
        };
        permit.ok().map(|permit| Vacancy { permit, is_reserved })
    }

    /// Gives a connection its slot; `None` if its client has too many already.
    pub(crate) fn occupy(self: &Arc<Self>, vacancy: Vacancy, address: IpAddr) -> Option<Slot> {
        let client = ClientNetwork::of(address);
        let Vacancy { mut permit, mut is_reserved } = vacancy;
        // An ordinary slot may have become free while the listener waited for a connection.
        if is_reserved && let Ok(ordinary) = Arc::clone(&self.ordinary).try_acquire_owned() {
            (permit, is_reserved) = (ordinary, false);
        }
        // Those who hold the ordinary slots do not get the reserved ones, too.
        let limit = if is_reserved { self.per_client.min(RESERVED_PER_CLIENT) } else { self.per_client };
        let mut clients = self.clients();
        let count = clients.get(&client).copied().unwrap_or_default();
        if count >= limit {
            return None;
        }
        clients.insert(client, count + 1);
        drop(clients);
        Some(Slot { slots: Arc::clone(self), client, is_reserved, _permit: permit })
    }

    fn clients(&self) -> MutexGuard<'_, BTreeMap<ClientNetwork, usize>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Whether all ordinary slots were in use.
    pub(crate) fn is_reserved(&self) -> bool {
        self.is_reserved
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut clients = self.slots.clients();
        if let Some(count) = clients.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn occupy(slots: &Arc<Slots>, address: [u8; 4]) -> Option<Slot> {
        let vacancy = slots.vacancy().await.expect("open");
        slots.occupy(vacancy, address.into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_with_many_connections_leaves_slots_to_others() {
        let limits = ConnectionLimits {
            connections: 3,
            connections_per_client: 2,
            reserved: 1,
            streams: 1,
            request_window: 65_535,
            idle_timeout: Duration::ZERO,
            response: None,
        };
        let slots = Slots::new(&limits);
        let mut greedy = Vec::new();
        for _ in 0..10 {
            greedy.extend(occupy(&slots, [10, 0, 0, 1]).await);
        }
        assert_eq!(greedy.len(), 2);
        let other = occupy(&slots, [10, 0, 0, 2]).await.expect("a slot");
        assert!(!other.is_reserved());
        let probe = occupy(&slots, [10, 0, 0, 3]).await.expect("a slot");
        assert!(probe.is_reserved());
        // None is left, until one ends.
        assert!(tokio::time::timeout(Duration::from_secs(60), slots.vacancy()).await.is_err());
        drop(probe);
        let vacancy = slots.vacancy().await.expect("open");
        drop(greedy.pop());
        let next = slots.occupy(vacancy, [10, 0, 0, 1].into()).expect("a slot");
        assert!(!next.is_reserved(), "an ordinary slot became free");
        drop((greedy, other, next));
        assert!(slots.clients().is_empty());
    }

    #[tokio::test]
    async fn those_who_hold_the_ordinary_slots_get_no_reserved_ones() {
        let limits = ConnectionLimits {
            connections: 10,
            connections_per_client: 5,
            reserved: 3,
            streams: 1,
            request_window: 65_535,
            idle_timeout: Duration::ZERO,
            response: None,
        };
        let slots = Slots::new(&limits);
        let mut held = Vec::new();
        for number in 0..100 {
            held.extend(occupy(&slots, [10, 0, 0, number % 3]).await);
        }
        let reserved = held.iter().filter(|slot| slot.is_reserved()).count();
        assert_eq!((held.len(), reserved), (12, 2), "each of three clients has four");
        let probe = occupy(&slots, [10, 0, 0, 9]).await.expect("a slot");
        assert!(probe.is_reserved());
    }
}
