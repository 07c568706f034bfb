//! Code that the kube-rs peers share: the allocator, the Foo of the sample controller, and the client.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

pub mod foo;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(all(feature = "mimalloc", not(feature = "jemalloc")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Returns a client for the cluster of a kubeconfig.
///
/// # Errors
/// If the file cannot be read, or needs a feature that is not compiled in, such as TLS.
pub async fn connect(kubeconfig: &Path) -> Result<Client, Box<dyn std::error::Error>> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
