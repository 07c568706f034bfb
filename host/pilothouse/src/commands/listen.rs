//! Binds the sockets that flags ask for.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::CommandError;

/// Binds `address`, the value of `flag`.
///
/// # Errors
/// Returns a usage error if the address cannot be bound, for example because the port is in use.
pub(crate) async fn bind(flag: &str, address: SocketAddr) -> Result<TcpListener, CommandError> {
    TcpListener::bind(address).await.map_err(|error| {
        CommandError::Usage(format!(
            "{flag} {address}: cannot listen: {error}; choose another address, or port 0 for any free port"
        ))
    })
}

/// Returns the address of a listener. If it was bound to port 0, this has the actual port.
pub(crate) fn local_address(listener: &TcpListener) -> Result<SocketAddr, CommandError> {
    listener
        .local_addr()
        .map_err(|error| CommandError::Failure(format!("cannot read the address of a bound socket: {error}")))
}
