//! Serving a socket: TLS, limits on connections and requests, and protection against requests from web pages.
//!
//! The embedded API server and the host's status port use this module.

mod certificate;
mod guard;
mod serve;

pub use certificate::CertificateError;
pub(crate) use certificate::{Authority, base64};
pub use guard::{Refusal, RequestGuard};
pub use serve::{BoundListener, ServeError, serve};
