//! Checks that a request that changes something comes from the user who runs the host, on the same machine.
//!
//! Without `--auth kubernetes`, the status port asks for no credentials: everyone who reaches it may read. What a request may change is limited
//! to processes that could also stop the host: those of its own user, and root's. A loopback address alone would not show that, because other users of the
//! machine, and proxies that forward requests from elsewhere, connect from loopback addresses, too. On Linux, the kernel's table of
//! connections shows who owns the other end of one. Elsewhere, the loopback address has to do.
//!
//! A client can end its connection before its request is handled, and another process can then connect from the same port. The table must
//! therefore show the server's end with the inode of the request's own socket, after it has shown the client's end.
//!
//! A proxy that runs as the same user passes this check on behalf of its clients. Requests with the headers that proxies add are therefore
//! refused, and requests need a header that neither a web form nor a forged URL can add.

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use pilothouse_listen::ConnectionAddresses;
use tokio::sync::Semaphore;

use super::CLIENT_HEADER;

/// The kernel's tables of the TCP connections in this network namespace.
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
/// The state of an established connection in these tables. Connections in other states may have lost their owner.
const ESTABLISHED: &str = "01";
/// The user ID of root.
const ROOT: u32 = 0;
/// The user ID that stands for unmapped users, unless the machine's administrator has changed it.
const DEFAULT_OVERFLOW_USER: u32 = 65534;

/// Bounds concurrent reads of the tables: each takes a thread of the pool that the host's own work needs, too.
static TABLE_READS: Semaphore = Semaphore::const_new(2);

/// Rejects requests of others with 403.
pub(super) async fn require_own_user(request: Request, next: Next) -> Response {
    if let Err(text) = check_headers(request.headers()) {
        return (StatusCode::FORBIDDEN, format!("{text}\n")).into_response();
    }
    let addresses = request.extensions().get::<ConnectionAddresses>().copied();
    if is_own_user(addresses).await {
        return next.run(request).await;
    }
    let text = "only a process of the user who runs the host, on the same machine, may change something through this port; in a \
                cluster, run the command in the host's container with kubectl exec\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

/// Errors if a proxy has forwarded the request, or its sender did not intend it for a host.
pub(super) fn check_headers(headers: &HeaderMap) -> Result<(), String> {
    let is_added_by_proxies =
        |name: &&str| matches!(*name, "forwarded" | "via" | "x-real-ip") || name.starts_with("x-forwarded-");
    let mut names = headers.keys().map(HeaderName::as_str);
    if let Some(name) = names.find(is_added_by_proxies) {
        return Err(format!(
            "the request has the header {name} of a proxy; send requests that change something directly to the host"
        ));
    }
    if !headers.contains_key(CLIENT_HEADER) {
        return Err(format!(
            "requests that change something need the header {CLIENT_HEADER}; the commands of pilothouse send it"
        ));
    }
    Ok(())
}

/// Returns whether the other end of a connection belongs to the user who runs the host, or to root, on the same machine.
pub(super) async fn is_own_user(addresses: Option<ConnectionAddresses>) -> bool {
    let Some(ConnectionAddresses { client, server, inode }) = addresses else { return false };
    if !client.ip().to_canonical().is_loopback() {
        return false;
    }
    if cfg!(not(target_os = "linux")) {
        return true;
    }
    let Ok(_permit) = TABLE_READS.acquire().await else { return false };
    let Some(client_end) = find_connection(client, server).await else { return false };
    let is_own =
        client_end.user == rustix::process::geteuid().as_raw() && !is_ambiguous(client_end.user).await;
    if client_end.user != ROOT && !is_own {
        return false;
    }
    // While the server's end is established, nothing but its own peer can be an established client's end with these addresses. The order
    // matters: an end that is established now was so when the client's end was found.
    find_connection(server, client).await.is_some_and(|server_end| server_end.inode == inode)
}

/// Returns whether the tables show several users with this ID: a user namespace shows all users that it does not map with one ID.
async fn is_ambiguous(user: u32) -> bool {
    let read = async |path: &'static str| tokio::fs::read_to_string(path).await.unwrap_or_default();
    stands_for_unmapped_users(
        user,
        &read("/proc/sys/kernel/overflowuid").await,
        &read("/proc/self/uid_map").await,
    )
}

/// Returns whether `user` stands for the users that a user namespace does not map. A table without a line is that of a kernel without user
/// namespaces.
fn stands_for_unmapped_users(user: u32, overflow_user: &str, map: &str) -> bool {
    let count = |line: &str| line.split_whitespace().nth(2)?.parse::<u64>().ok();
    let is_complete = map.is_empty() || map.lines().filter_map(count).sum::<u64>() >= u64::from(u32::MAX);
    !is_complete && overflow_user.trim().parse().unwrap_or(DEFAULT_OVERFLOW_USER) == user
}

/// One end of an established connection.
#[derive(Debug, PartialEq, Eq)]
struct ConnectionEnd {
    /// The user ID of the process that created the socket.
    user: u32,
    /// The socket's inode.
    inode: u64,
}

/// Reads the kernel's tables, and returns the end of a connection that has the address `local`.
async fn find_connection(local: SocketAddr, remote: SocketAddr) -> Option<ConnectionEnd> {
    for table in TABLES {
        // Without IPv6, there is no second table.
        let Ok(text) = tokio::fs::read_to_string(table).await else { continue };
        if let Some(end) = connection_end(&text, local, remote) {
            return Some(end);
        }
    }
    None
}

/// Returns the end of a connection that has the address `local`, from a table of connections.
fn connection_end(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<ConnectionEnd> {
    let addresses = (canonical(local), canonical(remote));
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, remote, state, _, _, _, user, _, inode, ..] = fields[..] else { return None };
        if state != ESTABLISHED || (parse_address(local)?, parse_address(remote)?) != addresses {
            return None;
        }
        let end = ConnectionEnd { user: user.parse().ok()?, inode: inode.parse().ok()? };
        // A socket that its process has closed is shown with root's ID and without an inode.
        (end.inode != 0).then_some(end)
    })
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
    #[cfg(target_os = "linux")]
    use std::time::Duration;

    use axum::http::HeaderValue;
    use tokio::net::{TcpListener, TcpSocket, TcpStream};
    #[cfg(target_os = "linux")]
    use tokio::time::timeout;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    /// Returns a table with one connection. The words are those of a little-endian machine.
    fn table(local: &str, remote: &str, state: &str, user: &str, inode: &str) -> String {
        format!(
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:24F8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 7 1\n   \
             1: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {user}        0 {inode} 2 0000\n"
        )
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

    #[test]
    fn requests_of_proxies_and_without_the_clients_header_are_refused() {
        let check = |names: &[&'static str]| {
            let header =
                |&name: &&'static str| (HeaderName::from_static(name), HeaderValue::from_static("x"));
            let headers: HeaderMap = names.iter().map(header).collect();
            check_headers(&headers)
        };
        assert_eq!(check(&[CLIENT_HEADER, "accept", "user-agent"]), Ok(()));
        assert!(check(&["accept"]).is_err_and(|text| text.contains(CLIENT_HEADER)));
        for name in ["forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-proto"] {
            assert!(check(&[CLIENT_HEADER, name]).is_err_and(|text| text.contains(name)), "{name}");
        }
    }

    #[test]
    fn an_id_that_stands_for_unmapped_users_is_nobodys() {
        let (all, some) = ("         0          0 4294967295\n", "0 1000 1\n1 100000 65536\n");
        assert!(stands_for_unmapped_users(65534, "65534\n", some));
        assert!(stands_for_unmapped_users(65534, "", some));
        assert!(stands_for_unmapped_users(7, "7\n", some));
        assert!(!stands_for_unmapped_users(65534, "7\n", some));
        assert!(!stands_for_unmapped_users(1000, "65534\n", some));
        assert!(
            !stands_for_unmapped_users(65534, "65534\n", all),
            "the machine's own namespace maps all users"
        );
        assert!(!stands_for_unmapped_users(65534, "65534\n", ""));
    }

    /// Connects from `local`, which may have port 0, and returns both ends of the connection.
    async fn connect(listener: &TcpListener, local: SocketAddr) -> (TcpStream, TcpStream) {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_reuseaddr(true).expect("set");
        socket.bind(local).expect("a free port");
        let client = socket.connect(listener.local_addr().expect("an address")).await.expect("a connection");
        let (server, _) = listener.accept().await.expect("a connection");
        (client, server)
    }

    #[tokio::test]
    async fn only_connections_of_the_own_user_from_this_machine_may_change_something() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (client, server) = connect(&listener, address("127.0.0.1:0")).await;
        let addresses = ConnectionAddresses::of(&server).expect("connected");
        assert!(is_own_user(Some(addresses)).await);
        assert!(!is_own_user(None).await);
        let (local, remote) = (address("10.0.0.1:9464"), address("10.0.0.7:1"));
        let elsewhere = ConnectionAddresses { server: local, client: remote, ..addresses };
        assert!(!is_own_user(Some(elsewhere)).await);
        drop(client);
        if cfg!(target_os = "linux") {
            assert!(!is_own_user(Some(addresses)).await, "nobody has this connection");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_later_connection_from_the_same_port_does_not_vouch_for_an_earlier_one() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (client, server) = connect(&listener, address("127.0.0.1:0")).await;
        let port = client.local_addr().expect("an address");
        let earlier = ConnectionAddresses::of(&server).expect("connected");
        // Closes the connection with a reset, which frees the port at once.
        client.set_zero_linger().expect("set");
        drop(client);
        let (_client, later_server) = connect(&listener, port).await;
        let later = ConnectionAddresses::of(&later_server).expect("connected");
        assert_eq!((later.client, later.server), (earlier.client, earlier.server));
        assert!(is_own_user(Some(later)).await);
        assert!(!is_own_user(Some(earlier)).await);
    }

    /// In virtual time, which stands still while a thread reads: the timeout is over only if nothing reads.
    #[cfg(target_os = "linux")]
    #[tokio::test(start_paused = true)]
    async fn requests_wait_while_the_tables_are_read_for_others() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (_client, server) = connect(&listener, address("127.0.0.1:0")).await;
        let addresses = ConnectionAddresses::of(&server).ok();
        let others = TABLE_READS.acquire_many(2).await.expect("never closed");
        assert!(timeout(Duration::from_secs(60), is_own_user(addresses)).await.is_err());
        drop(others);
        assert!(is_own_user(addresses).await);
    }
}
