//! Serves HTTP on a socket: TLS, limits on connections and requests, and protection against requests from web pages.
//!
//! The embedded API server and the host's status port use this crate. [`serve()`] accepts connections, [`Authority`] signs the
//! certificates of listeners with TLS, and [`RequestGuard`] refuses requests that a web page of another site may have caused.

mod activity;
mod certificate;
mod guard;
mod limits;
mod serve;
mod slots;
mod tracked;
mod verdict;

pub use certificate::{Authority, CertificateError, ClientAuthority, ClientCertificate, ServerCertificate};
pub use guard::{Refusal, RequestGuard};
pub use limits::{ClientNetwork, ConnectionLimits, EndlessResponse, ReservedConnection, ResponseTimeouts};
pub use serve::{BoundListener, ConnectionAddresses, ServeError, serve};
pub use verdict::ConnectionVerdict;
