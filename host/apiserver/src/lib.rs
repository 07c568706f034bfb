//! An embedded Kubernetes API server: in memory, over HTTP or in process.
//!
//! [`ApiServer`] answers what kube-apiserver answers, for the built-in kinds that controllers use and for custom
//! resources: lists with paging and versions, watches with history, bookmarks and 410, the four kinds of patch, CRDs,
//! discovery. Give [`ApiServer::service`] to `kube::Client::new`, or let [`ApiServer::serve`] listen for kubectl.
//! [`ApiServer::run_controllers`] starts what a controller manager would do.
//!
//! A socket is served with TLS, and to who has the credentials of [`ApiServer::kubeconfig`]; in process nobody needs any. Everything is
//! allowed unless [`Authorization::Rbac`] is chosen, and nothing outlives the process.

mod access;
mod clock;
mod controllers;
mod crd;
mod discovery;
pub mod listen;
pub mod openapi;
pub mod patch;
mod registry;
mod request;
mod rest;
pub mod schema;
mod server;
pub mod status;
mod storage;
pub mod table;
mod watch;

pub use access::{Authorization, User};
pub use clock::{Clock, SystemClock, TokioClock};
pub use listen::{CertificateError, ServeError};
pub use request::Verb;
pub use server::{
    ApiServer, ApiServerBuilder, ApiService, Faults, KubeconfigError, Matcher, RequestCount, RequestLog,
    ResponseBody,
};
pub use status::Status;
