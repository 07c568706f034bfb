//! Checks that a request that changes something comes from the user who runs the host, on the same machine.
//!
//! The status port has no credentials: everyone who reaches it may read. What a request may change is therefore limited to processes
//! that could also stop the host: those of its own user, and root's. A loopback address alone would not show that, because other users of the
//! machine, and proxies that forward requests from elsewhere, connect from loopback addresses, too. On Linux, the kernel's table of
//! connections shows who owns the other end of one. Elsewhere, the loopback address has to do.

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use pilothouse_listen::ConnectionAddresses;

/// The kernel's tables of the TCP connections in this network namespace.
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
/// The state of an established connection in these tables. Connections in other states may have lost their owner.
const ESTABLISHED: &str = "01";
/// The user ID of root.
const ROOT: u32 = 0;

/// Rejects requests of others with 403.
pub(super) async fn require_own_user(request: Request, next: Next) -> Response {
    let addresses = request.extensions().get::<ConnectionAddresses>().copied();
    if is_own_user(addresses).await {
        return next.run(request).await;
    }
    let text = "only a process of the user who runs the host, on the same machine, may change something through this port; in a \
                cluster, run the command in the host's container with kubectl exec\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

async fn is_own_user(addresses: Option<ConnectionAddresses>) -> bool {
    let Some(ConnectionAddresses { client, server }) = addresses else { return false };
    if !client.ip().to_canonical().is_loopback() {
        return false;
    }
    if cfg!(not(target_os = "linux")) {
        return true;
    }
    for table in TABLES {
        // Without IPv6, there is no second table.
        let Ok(text) = tokio::fs::read_to_string(table).await else { continue };
        if let Some(owner) = owner(&text, client, server) {
            return owner == ROOT || owner == rustix::process::geteuid().as_raw();
        }
    }
    false
}

/// Returns the user ID of the process that has the client's end of a connection, from a table of connections.
fn owner(table: &str, client: SocketAddr, server: SocketAddr) -> Option<u32> {
    let ends = (canonical(client), canonical(server));
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, remote, state, _, _, _, user, _, inode, ..] = fields[..] else { return None };
        let is_client = (parse_address(local)?, parse_address(remote)?) == ends;
        // A socket that its process has closed is shown with root's ID and without an inode.
        (is_client && state == ESTABLISHED && inode != "0").then(|| user.parse().ok())?
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
        let owner_in = |table: &str| owner(table, client, server);
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
        assert_eq!(owner(&six, address("[::1]:50000"), address("[::1]:9464")), Some(6));
    }

    #[tokio::test]
    async fn only_connections_of_the_own_user_from_this_machine_may_change_something() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = listener.local_addr().expect("an address");
        let stream = tokio::net::TcpStream::connect(server).await.expect("a connection");
        let client = stream.local_addr().expect("an address");
        assert!(is_own_user(Some(ConnectionAddresses { server, client })).await);
        assert!(!is_own_user(None).await);
        let elsewhere =
            ConnectionAddresses { server: address("10.0.0.1:9464"), client: address("10.0.0.7:1") };
        assert!(!is_own_user(Some(elsewhere)).await);
        #[cfg(target_os = "linux")]
        {
            drop(stream);
            assert!(
                !is_own_user(Some(ConnectionAddresses { server, client })).await,
                "nobody has this connection"
            );
        }
    }
}
