//! The kernel's tables of connections, which show who owns the ends of those on this machine.
//!
//! A read takes a thread, and time in proportion to all connections of the machine. All requests that wait for one share the next one, so that a
//! client with many connections delays others by one read only.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilothouse_listen::ConnectionAddresses;
use tokio::sync::oneshot;

/// The kernel's tables of the TCP connections in this network namespace.
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
/// The state of an established connection in these tables. Connections in other states may have lost their owner.
const ESTABLISHED: &str = "01";

/// Looks up the owners of connections.
#[derive(Default)]
pub(super) struct ConnectionTable {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    requests: Vec<(ConnectionAddresses, oneshot::Sender<Owner>)>,
    /// Whether a task reads the tables, and will read them again for these requests.
    is_reading: bool,
    /// The number of reads so far.
    reads: u64,
}

/// Who has the client's end of a connection; `None` if the tables do not have both ends.
pub(super) type Owner = Option<Client>;

/// The process at the client's end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Client {
    /// The user ID of the process that created the socket.
    pub(super) user: u32,
    /// Whether it is this process: a plugin may have sent the request.
    pub(super) is_this_process: bool,
}

/// The local and the remote address of a connection's end.
type Ends = (SocketAddr, SocketAddr);

impl ConnectionTable {
    /// Returns the owner of a connection's other end; `None` if the tables cannot be read.
    pub(super) async fn owner(self: &Arc<Self>, connection: ConnectionAddresses) -> Option<Owner> {
        let (sender, receiver) = oneshot::channel();
        let was_reading = {
            let mut waiting = self.waiting();
            waiting.requests.push((connection, sender));
            std::mem::replace(&mut waiting.is_reading, true)
        };
        if !was_reading {
            // A task of its own, because the request that starts the read may be given up.
            tokio::spawn(Reading { table: Arc::clone(self), has_ended: false }.run());
        }
        receiver.await.ok()
    }

    /// Returns how often the tables were read.
    #[cfg(test)]
    pub(super) fn reads(&self) -> u64 {
        self.waiting().reads
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that reads the tables until no request waits.
struct Reading {
    table: Arc<ConnectionTable>,
    has_ended: bool,
}

impl Reading {
    async fn run(mut self) {
        loop {
            let requests = {
                let mut waiting = self.table.waiting();
                if waiting.requests.is_empty() {
                    waiting.is_reading = false;
                    self.has_ended = true;
                    return;
                }
                waiting.reads += 1;
                std::mem::take(&mut waiting.requests)
            };
            let connections: Vec<_> = requests.iter().map(|(connection, _)| *connection).collect();
            // Without an answer, the requests end when their senders are dropped.
            let Ok(Some(owners)) = tokio::task::spawn_blocking(move || owners(&connections)).await else {
                continue;
            };
            for ((_, sender), owner) in requests.into_iter().zip(owners) {
                // A request that was given up has no receiver.
                let _ = sender.send(owner);
            }
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if !self.has_ended {
            let mut waiting = self.table.waiting();
            waiting.is_reading = false;
            waiting.requests.clear();
        }
    }
}

/// Returns the owners of the clients' ends; `None` if no table can be read.
fn owners(connections: &[ConnectionAddresses]) -> Option<Vec<Owner>> {
    let of_client = |connection: &ConnectionAddresses| ends(connection.client, connection.server);
    let of_server = |connection: &ConnectionAddresses| ends(connection.server, connection.client);
    let clients = read(&connections.iter().map(of_client).collect())?;
    let own_sockets = own_sockets()?;
    // While the server's end is established, nothing but its own peer can be an established client's end with these addresses. The order
    // matters: an end that is established now was so when the client's end was found, and when this process's sockets were.
    let servers = read(&connections.iter().map(of_server).collect())?;
    let owner = |connection: &ConnectionAddresses| {
        let server = servers.get(&of_server(connection))?;
        let client = clients.get(&of_client(connection))?;
        let is_this_process = own_sockets.contains(&client.inode);
        (server.inode == connection.inode).then_some(Client { user: client.user, is_this_process })
    };
    Some(connections.iter().map(owner).collect())
}

/// Returns the inodes of this process's sockets; `None` if they cannot be read.
fn own_sockets() -> Option<BTreeSet<u64>> {
    let descriptors = std::fs::read_dir("/proc/self/fd").ok()?;
    let targets = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.ok()?.path()).ok());
    Some(targets.filter_map(|target| socket_inode(target.to_str()?)).collect())
}

/// Parses the target of a link such as `socket:[1234]`.
fn socket_inode(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn ends(local: SocketAddr, remote: SocketAddr) -> Ends {
    (canonical(local), canonical(remote))
}

/// One end of an established connection.
#[derive(Debug, PartialEq, Eq)]
struct ConnectionEnd {
    /// The user ID of the process that created the socket.
    user: u32,
    /// The socket's inode.
    inode: u64,
}

/// Reads the kernel's tables, and returns what they have of these ends; `None` if no table can be read.
fn read(wanted: &BTreeSet<Ends>) -> Option<BTreeMap<Ends, ConnectionEnd>> {
    let mut found = BTreeMap::new();
    // Without IPv6, there is no second table.
    let tables: Vec<_> = TABLES.iter().filter_map(|table| std::fs::read_to_string(table).ok()).collect();
    for table in &tables {
        find(table, wanted, &mut found);
    }
    (!tables.is_empty()).then_some(found)
}

/// Adds what a table of connections has of these ends.
fn find(table: &str, wanted: &BTreeSet<Ends>, found: &mut BTreeMap<Ends, ConnectionEnd>) {
    for line in table.lines().skip(1) {
        if let Some((ends, end)) = parse_line(line).filter(|(ends, _)| wanted.contains(ends)) {
            found.entry(ends).or_insert(end);
        }
    }
}

/// Parses a line about an established connection that has an owner.
fn parse_line(line: &str) -> Option<(Ends, ConnectionEnd)> {
    let mut fields = line.split_whitespace();
    let (_, local, remote) = (fields.next()?, fields.next()?, fields.next()?);
    if fields.next()? != ESTABLISHED {
        return None;
    }
    let user = fields.nth(3)?.parse().ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    // A socket that its process has closed is shown with root's ID and without an inode.
    (inode != 0).then_some(((parse_address(local)?, parse_address(remote)?), ConnectionEnd { user, inode }))
}

/// Parses an address such as `0100007F:1F90`: the words of the IP address in the machine's byte order, and the port.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(words.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match words.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let mut octets = [0; 16];
            for (position, part) in octets.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(8 * position)?);
            }
            IpAddr::from(octets)
        }
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}

/// Returns the address with IPv4 instead of an IPv4 address that is mapped to IPv6, and without a scope.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_to_sockets_have_an_inode() {
        assert_eq!(socket_inode("socket:[1234]"), Some(1234));
        for other in ["/dev/null", "pipe:[1234]", "socket:[]", "socket:[12", "anon_inode:[eventfd]"] {
            assert_eq!(socket_inode(other), None, "{other}");
        }
    }

    #[cfg(target_endian = "little")]
    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    /// Returns a table with one connection. The words are those of a little-endian machine.
    #[cfg(target_endian = "little")]
    fn table(local: &str, remote: &str, state: &str, user: &str, inode: &str) -> String {
        format!(
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:24F8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 7 1\n   \
             1: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {user}        0 {inode} 2 0000\n"
        )
    }

    #[cfg(target_endian = "little")]
    fn connection_end(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<ConnectionEnd> {
        let (wanted, mut found) = (BTreeSet::from([ends(local, remote)]), BTreeMap::new());
        find(table, &wanted, &mut found);
        found.remove(&ends(local, remote))
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn the_owner_of_the_clients_end_is_found() {
        let (client, server) = (address("127.0.0.1:50000"), address("127.0.0.1:9464"));
        let (local, remote) = ("0100007F:C350", "0100007F:24F8");
        let owner_in = |table: &str| connection_end(table, client, server).map(|end| end.user);
        let end = connection_end(&table(local, remote, "01", "1000", "99"), client, server);
        assert_eq!(end, Some(ConnectionEnd { user: 1000, inode: 99 }));
        assert_eq!(owner_in(&table(local, remote, "01", "1000", "99")), Some(1000));
        assert_eq!(owner_in(&table(remote, local, "01", "1000", "99")), None, "the server's end");
        assert_eq!(owner_in(&table("0100007F:C351", remote, "01", "1000", "99")), None, "another port");
        assert_eq!(owner_in(&table(local, remote, "06", "0", "0")), None, "closed, and shown as root's");
        assert_eq!(owner_in(&table(local, remote, "01", "0", "0")), None);
        assert_eq!(owner_in("not a table"), None);
        let mapped = ("0000000000000000FFFF00000100007F:C350", "0000000000000000FFFF00000100007F:24F8");
        assert_eq!(
            owner_in(&table(mapped.0, mapped.1, "01", "5", "99")),
            Some(5),
            "a socket of both families"
        );
        let six = table(
            "00000000000000000000000001000000:C350",
            "00000000000000000000000001000000:24F8",
            "01",
            "6",
            "99",
        );
        let end = connection_end(&six, address("[::1]:50000"), address("[::1]:9464"));
        assert_eq!(end, Some(ConnectionEnd { user: 6, inode: 99 }));
    }
}
