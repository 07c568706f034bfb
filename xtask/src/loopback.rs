//! Addresses for programs that cannot choose a free port themselves.

use std::net::TcpListener;

use anyhow::{Context, Result};

/// Returns an address on loopback, as `HOST:PORT`, on which nothing listens now.
///
/// # Errors
/// Errors if no port is free.
pub(crate) fn free_address() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("find a free port")?;
    Ok(listener.local_addr().context("read the address of a socket")?.to_string())
}
