//! Listening on a socket: TLS, limits of connections and requests, and the protection against requests that web pages cause. The embedded
//! API server and the host's status port share it.

mod certificate;
mod guard;
mod serve;

pub use certificate::CertificateError;
pub(crate) use certificate::{Authority, base64};
pub use guard::{Refusal, RequestGuard};
pub use serve::{Listening, ServeError, serve};
