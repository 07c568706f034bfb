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
//! The requests of plugins come from the host's own process. Connections from that process are therefore refused, so that a plugin with a grant
//! for HTTP requests to this machine cannot act as the operator.
//!
//! A proxy that runs as the same user passes this check on behalf of its clients. Requests with the headers that proxies add are therefore
//! refused, and requests need a header that neither a web form nor a forged URL can add.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderMap, HeaderName, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use pilothouse_listen::{ConnectionAddresses, ConnectionVerdict};

use super::CLIENT_HEADER;
use super::connection_table::{Client, ConnectionTable};

/// The user ID of root.
const ROOT: u32 = 0;
/// The user ID that stands for unmapped users, unless the machine's administrator has changed it.
const DEFAULT_OVERFLOW_USER: u32 = 65534;

/// Only tests connect to their own process.
const ACCEPTS_THIS_PROCESS: bool = cfg!(test);

/// Recognises the user who runs the host.
pub(super) struct Peers {
    table: Arc<ConnectionTable>,
    /// Whether requests of this process are its user's.
    accepts_this_process: bool,
}

impl Default for Peers {
    fn default() -> Self {
        Self { table: Arc::default(), accepts_this_process: ACCEPTS_THIS_PROCESS }
    }
}

/// Rejects requests of others with 403.
pub(super) async fn require_own_user(
    State(peers): State<Arc<Peers>>,
    request: Request,
    next: Next,
) -> Response {
    if let Err(text) = check_headers(request.headers()) {
        return (StatusCode::FORBIDDEN, format!("{text}\n")).into_response();
    }
    if peers.sent(request.extensions()).await {
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

impl Peers {
    /// Returns whether the user who runs the host, or root, has sent a request with these extensions, on the same machine.
    pub(super) async fn sent(&self, extensions: &Extensions) -> bool {
        let addresses = extensions.get::<ConnectionAddresses>().copied();
        self.is_own_user(addresses, extensions.get::<ConnectionVerdict>()).await
    }

    /// Returns whether the other end of a connection belongs to the user who runs the host, or to root, on the same machine. The owner of a
    /// connection does not change, so `verdict` keeps the result.
    async fn is_own_user(
        &self,
        addresses: Option<ConnectionAddresses>,
        verdict: Option<&ConnectionVerdict>,
    ) -> bool {
        let Some(addresses) = addresses else { return false };
        if !addresses.client.ip().to_canonical().is_loopback() {
            return false;
        }
        if cfg!(not(target_os = "linux")) {
            return true;
        }
        let decision = self.owns(addresses);
        let is_own = match verdict {
            Some(verdict) => verdict.get_or_decide(decision).await,
            None => decision.await,
        };
        is_own.unwrap_or(false)
    }

    /// Looks up the owner of a connection; `None` if the kernel's tables cannot be read.
    async fn owns(&self, addresses: ConnectionAddresses) -> Option<bool> {
        let Some(Client { user, is_this_process }) = self.table.owner(addresses).await? else {
            return Some(false);
        };
        if is_this_process && !self.accepts_this_process {
            return Some(false);
        }
        Some(user == ROOT || (user == rustix::process::geteuid().as_raw() && !is_ambiguous(user).await))
    }
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::http::HeaderValue;
    use tokio::net::{TcpListener, TcpSocket, TcpStream};

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
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
        let peers = Peers::default();
        assert!(peers.is_own_user(Some(addresses), None).await);
        assert!(!peers.is_own_user(None, None).await);
        let (local, remote) = (address("10.0.0.1:9464"), address("10.0.0.7:1"));
        let elsewhere = ConnectionAddresses { server: local, client: remote, ..addresses };
        assert!(!peers.is_own_user(Some(elsewhere), None).await);
        drop(client);
        if cfg!(target_os = "linux") {
            assert!(!peers.is_own_user(Some(addresses), None).await, "nobody has this connection");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_connection_from_the_hosts_own_process_may_change_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (_client, server) = connect(&listener, address("127.0.0.1:0")).await;
        let addresses = ConnectionAddresses::of(&server).expect("connected");
        let peers = Peers { accepts_this_process: false, ..Peers::default() };
        assert!(!peers.is_own_user(Some(addresses), None).await, "a plugin may have sent it");
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
        let peers = Peers::default();
        assert!(peers.is_own_user(Some(later), None).await);
        assert!(!peers.is_own_user(Some(earlier), None).await);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn all_requests_that_wait_share_one_read_of_the_tables() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (_client, server) = connect(&listener, address("127.0.0.1:0")).await;
        let own = ConnectionAddresses::of(&server).expect("connected");
        let other = ConnectionAddresses { inode: 0, ..own };
        let peers = Peers::default();
        let mut requests: Vec<_> = (0..500).map(|_| peers.is_own_user(Some(other), None)).collect();
        requests.push(peers.is_own_user(Some(own), None));
        let mut answers = futures::future::join_all(requests).await;
        assert_eq!(answers.pop(), Some(true), "the operator's request is among many others");
        assert!(answers.iter().all(|is_own| !is_own));
        assert_eq!(peers.table.reads(), 1);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_tables_are_read_once_for_all_requests_of_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (_client, server) = connect(&listener, address("127.0.0.1:0")).await;
        let own = ConnectionAddresses::of(&server).expect("connected");
        let peers = Peers::default();
        for (addresses, is_own) in [(own, true), (ConnectionAddresses { inode: 0, ..own }, false)] {
            let (verdict, before) = (ConnectionVerdict::default(), peers.table.reads());
            for _ in 0..100 {
                assert_eq!(peers.is_own_user(Some(addresses), Some(&verdict)).await, is_own);
            }
            assert_eq!(peers.table.reads(), before + 1);
        }
    }
}
