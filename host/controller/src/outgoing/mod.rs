//! HTTP requests of plugins: only to granted hosts, and never to this machine because of what a DNS name
//! resolves to.

mod address;
mod client;
mod connect;
mod grants;
mod metrics;
#[cfg(test)]
mod tests;
mod tls;
mod transport;

pub(crate) use address::AddressScope;
pub(crate) use client::HttpClient;
pub(crate) use connect::Connector;
pub use grants::PatternError;
pub(crate) use grants::{HttpGrants, Pattern, Target, parse_patterns};
pub(crate) use metrics::{HttpCounters, HttpMetrics};
pub(crate) use tls::Tls;
pub use transport::HttpTransport;
