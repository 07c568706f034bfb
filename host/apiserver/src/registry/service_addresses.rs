//! The cluster IPs and node ports of all Services.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::mem;

use parking_lot::Mutex;
use pilothouse_model::hash::HashMap;
use serde_json::Value;

use crate::storage::{EventKind, StoredObject, Table};

/// The namespace and name of a Service.
type Key = (Box<str>, Box<str>);

/// A node port with its protocol.
type Port = (u64, String);

/// The addresses of the stored Services, brought up to date when they are read. A read costs as much as what changed since the last
/// one, and not as much as there are Services.
#[derive(Debug, Default)]
pub(crate) struct ServiceAddresses {
    cached: Mutex<Cached>,
}

#[derive(Debug, Default)]
struct Cached {
    addresses: Addresses,
    /// The last change of the table, and the revision up to which events were applied; `None` before the first read.
    position: Option<(u64, u64)>,
}

impl ServiceAddresses {
    /// Passes the addresses to `query`. They contain every write to the table that completed before this call.
    pub(crate) fn read<T>(&self, table: &Table, query: impl FnOnce(&Addresses) -> T) -> T {
        let mut cached = self.cached.lock();
        cached.update(table);
        query(&cached.addresses)
    }

    /// Passes the addresses to `choose` and reserves the cluster IP that it returns for the Service `key`, a namespace and a name, so that no
    /// request at the same time gets it, too. The reservation ends when it is dropped; by then, the Service is stored or refused.
    pub(crate) fn reserve(
        &self,
        table: &Table,
        key: (&str, &str),
        choose: impl FnOnce(&Addresses) -> Option<String>,
    ) -> Option<ReservedIp<'_>> {
        let mut cached = self.cached.lock();
        cached.update(table);
        let ip = choose(&cached.addresses)?;
        let key: Key = (key.0.into(), key.1.into());
        cached.addresses.reserved.entry(ip.clone()).or_default().push(key.clone());
        Some(ReservedIp { addresses: self, ip, key })
    }
}

/// A cluster IP of a Service that is not stored yet.
#[derive(Debug)]
pub(crate) struct ReservedIp<'a> {
    addresses: &'a ServiceAddresses,
    ip: String,
    key: Key,
}

impl Drop for ReservedIp<'_> {
    fn drop(&mut self) {
        let reserved = &mut self.addresses.cached.lock().addresses.reserved;
        let Some(holders) = reserved.get_mut(&self.ip) else { return };
        if let Some(index) = holders.iter().position(|key| *key == self.key) {
            holders.swap_remove(index);
        }
        if holders.is_empty() {
            reserved.remove(&self.ip);
        }
    }
}

impl Cached {
    fn update(&mut self, table: &Table) {
        // Read before the events, so that a later write leads to another update.
        let change = table.last_change();
        let events = match self.position {
            Some((last, _)) if last == change => return,
            Some((_, revision)) => table.events_after(revision, usize::MAX).ok(),
            None => None,
        };
        let revision = if let Some(batch) = events {
            for event in &batch.events {
                match event.kind {
                    EventKind::Added | EventKind::Modified => self.addresses.put(&event.object),
                    EventKind::Deleted => self.addresses.remove(&key(&event.object)),
                }
            }
            batch.complete_to
        } else {
            let (services, revision) = table.list(None);
            let reserved = mem::take(&mut self.addresses.reserved);
            self.addresses = Addresses { reserved, ..Addresses::default() };
            for service in services {
                self.addresses.put(&service);
            }
            revision
        };
        self.position = Some((change, revision));
    }
}

/// Which Service has which address and ports.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    services: HashMap<Key, ServiceAllocation>,
    ips: HashMap<String, BTreeSet<Key>>,
    /// The cluster IPs of Services that are being created. Requests that create the same Service may reserve the same one.
    reserved: HashMap<String, Vec<Key>>,
    ports: HashMap<Port, BTreeSet<Key>>,
}

/// What one Service has.
#[derive(Debug, Default)]
struct ServiceAllocation {
    ip: Option<String>,
    ports: Vec<Port>,
}

impl Addresses {
    /// Whether a Service other than `except`, a namespace and a name, has a cluster IP, or is being created with it.
    pub(crate) fn has_ip(&self, ip: &str, except: (&str, &str)) -> bool {
        self.ips.get(ip).is_some_and(|holders| is_other(holders, except))
            || self.reserved.get(ip).is_some_and(|holders| is_other(holders, except))
    }

    /// Whether a Service other than `except`, a namespace and a name, has a node port.
    pub(crate) fn has_port(&self, port: u64, protocol: &str, except: (&str, &str)) -> bool {
        let holders = self.ports.get(&(port, protocol.to_owned()));
        holders.is_some_and(|holders| is_other(holders, except))
    }

    /// Adds a Service, or replaces its earlier state.
    pub(crate) fn put(&mut self, service: &StoredObject) {
        let key = key(service);
        self.remove(&key);
        let held = ServiceAllocation::of(service);
        if let Some(ip) = &held.ip {
            self.ips.entry(ip.clone()).or_default().insert(key.clone());
        }
        for port in &held.ports {
            self.ports.entry(port.clone()).or_default().insert(key.clone());
        }
        self.services.insert(key, held);
    }

    fn remove(&mut self, key: &Key) {
        let Some(held) = self.services.remove(key) else { return };
        if let Some(ip) = held.ip {
            release(&mut self.ips, &ip, key);
        }
        for port in held.ports {
            release(&mut self.ports, &port, key);
        }
    }
}

impl ServiceAllocation {
    fn of(service: &StoredObject) -> Self {
        // The selectable fields of Services.
        let [ip, kind] = &*service.fields else { return Self::default() };
        let ip = Some(&**ip).filter(|ip| !["", "None"].contains(ip)).map(str::to_owned);
        let mut ports = Vec::new();
        if ["NodePort", "LoadBalancer"].contains(&&**kind) {
            let value = service.value();
            let all = value["spec"]["ports"].as_array().into_iter().flatten();
            ports.extend(all.filter_map(|port| Some((node_port(port)?, protocol(port)))));
        }
        Self { ip, ports }
    }
}

/// Returns the node port of a Service's port, if it has one.
pub(crate) fn node_port(port: &Value) -> Option<u64> {
    port["nodePort"].as_u64().filter(|number| *number > 0)
}

/// Returns the protocol of a Service's port.
pub(crate) fn protocol(port: &Value) -> String {
    port["protocol"].as_str().unwrap_or("TCP").to_owned()
}

fn is_other<'a>(holders: impl IntoIterator<Item = &'a Key>, except: (&str, &str)) -> bool {
    holders.into_iter().any(|(namespace, name)| (&**namespace, &**name) != except)
}

fn release<T: Eq + Hash>(held: &mut HashMap<T, BTreeSet<Key>>, what: &T, key: &Key) {
    if let Some(holders) = held.get_mut(what) {
        holders.remove(key);
        if holders.is_empty() {
            held.remove(what);
        }
    }
}

fn key(service: &StoredObject) -> Key {
    (service.namespace.clone(), service.name.clone())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::storage::{HistoryLimits, ObjectDraft, Storage};

    fn draft(name: u8, ip: u8, port: u64) -> ObjectDraft {
        let ip = if ip == 0 { "None".to_owned() } else { format!("10.96.0.{ip}") };
        ObjectDraft {
            value: json!({
                "metadata": {"namespace": "n", "name": format!("s{name}")},
                "spec": {"type": "NodePort", "clusterIP": ip, "ports": [{"nodePort": port}]},
            }),
            fields: Box::new([ip.as_str().into(), "NodePort".into()]),
            schema: 0,
        }
    }

    #[test]
    fn address_is_free_for_its_own_service_and_after_a_deletion() {
        let storage = Storage::new(HistoryLimits { events: 10, bytes: usize::MAX }, 1);
        let (table, addresses) = (storage.table("", "services"), ServiceAddresses::default());
        let stored = table.create(draft(1, 7, 30007)).expect("created");
        let has = |name: &str| addresses.read(&table, |all| all.has_ip("10.96.0.7", ("n", name)));
        assert!(has("s2") && !has("s1"));
        assert!(addresses.read(&table, |all| all.has_port(30007, "TCP", ("", ""))));
        assert!(!addresses.read(&table, |all| all.has_port(30007, "UDP", ("", ""))));
        table.delete(&stored, draft(1, 7, 30007)).expect("deleted");
        assert!(!has("s2"));
        assert!(addresses.cached.lock().addresses.ips.is_empty());
    }

    #[test]
    fn reserved_address_is_taken_for_other_services_until_the_reservation_ends() {
        let storage = Storage::new(HistoryLimits { events: 10, bytes: usize::MAX }, 1);
        let (table, addresses) = (storage.table("", "services"), ServiceAddresses::default());
        let reserve = || addresses.reserve(&table, ("n", "s1"), |_| Some("10.96.0.7".to_owned()));
        let has = |name: &str| addresses.read(&table, |all| all.has_ip("10.96.0.7", ("n", name)));
        let (first, second) = (reserve(), reserve());
        assert!(has("s2") && !has("s1"));
        drop(first);
        assert!(has("s2"), "the other request still has it");
        table.create(draft(3, 9, 30001)).expect("created");
        table.compact();
        assert!(has("s2"), "a reservation outlives a list of all Services");
        drop(second);
        assert!(!has("s2") && addresses.cached.lock().addresses.reserved.is_empty());
    }

    proptest! {
        /// The result is that of looking at all Services, whether the history is long enough or not.
        #[test]
        fn addresses_are_those_of_the_stored_services(
            writes in prop::collection::vec((0..5_u8, 0..6_u8, 0..4_u64), 1..60), history in 1..20_usize,
        ) {
            let storage = Storage::new(HistoryLimits { events: history, bytes: usize::MAX }, 1);
            let (table, addresses) = (storage.table("", "services"), ServiceAddresses::default());
            for (index, (name, ip, port)) in writes.into_iter().enumerate() {
                let written = match table.get("n", &format!("s{name}")) {
                    Some(current) if ip == 5 => table.delete(&current, draft(name, ip, port)),
                    Some(current) => table.update(&current, draft(name, ip, port)),
                    None => table.create(draft(name, ip, port)),
                };
                prop_assert!(written.is_ok());
                if index % 3 == 0 {
                    let stored = table.list(None).0;
                    for ip in 1..6 {
                        let ip = format!("10.96.0.{ip}");
                        let expected = stored.iter().any(|service| *service.fields[0] == *ip && &*service.name != "s0");
                        prop_assert_eq!(addresses.read(&table, |all| all.has_ip(&ip, ("n", "s0"))), expected);
                    }
                    for port in 1..4 {
                        let expected = stored.iter().any(|service| service.value()["spec"]["ports"][0]["nodePort"] == port);
                        prop_assert_eq!(addresses.read(&table, |all| all.has_port(port, "TCP", ("", ""))), expected);
                    }
                }
            }
        }
    }
}
