use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::Failed;

/// Binds an address that a flag gave.
pub(crate) async fn bind(flag: &str, address: SocketAddr) -> Result<TcpListener, Failed> {
    TcpListener::bind(address).await.map_err(|error| {
        Failed::Usage(format!("{flag} {address}: {error}; give another address, or port 0 for a free one"))
    })
}

/// The address that was bound, with its real port.
pub(crate) fn local(listener: &TcpListener) -> Result<SocketAddr, Failed> {
    listener.local_addr().map_err(|error| Failed::Work(format!("a bound socket has no address: {error}")))
}
