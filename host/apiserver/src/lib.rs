//! An embedded Kubernetes API server: in memory or on disk, over HTTP or in process.
//!
//! [`ApiServer`] behaves like kube-apiserver for the built-in kinds that controllers use and for custom resources:
//! lists with paging and resource versions, watches with history, bookmarks and 410, the four kinds of patch, CRDs,
//! discovery. Pass [`ApiServer::service`] to `kube::Client::new`, or let [`ApiServer::serve`] listen for kubectl.
//! [`ApiServer::run_controllers`] starts the controllers of a cluster, a scheduler and simulated kubelets.
//!
//! A socket is served with TLS and requires the credentials of [`ApiServer::kubeconfig`]; requests within the process
//! need none. Every request is allowed unless [`Authorization::Rbac`] is chosen. All objects are lost when the process ends, unless
//! [`ApiServerBuilder::build_with_data`] keeps them in a directory. That method needs the feature `persistence`, which is
//! enabled by default.
//!
//! # Modules
//!
//! Dependencies go one way: a module uses only modules of the lines above its own. A unit test checks this list.
//!
//! ```text
//! go
//! etcd_limits go_json
//! clock identifiers status user meta cbor admission_plugins cluster_ip_range
//! schema storage table
//! persistence webhooks
//! patch conversion
//! registry
//! request
//! access
//! admission
//! state respond
//! crd watch discovery openapi
//! rest
//! controllers
//! bootstrap
//! server
//! ```
//!
//! `state` holds what requests and controllers share. `rest` implements the verbs on it, `controllers` write through
//! `rest`, `bootstrap` creates the initial objects, and `server` connects all of it to HTTP.

mod access;
mod admission;
mod admission_plugins;
mod bootstrap;
mod cbor;
mod clock;
mod cluster_ip_range;
mod controllers;
mod conversion;
mod crd;
mod discovery;
mod etcd_limits;
mod go;
mod go_json;
mod identifiers;
mod meta;
pub mod openapi;
pub mod patch;
#[cfg_attr(not(feature = "persistence"), path = "persistence/left_out.rs")]
mod persistence;
mod registry;
mod request;
mod respond;
mod rest;
pub mod schema;
mod server;
mod state;
pub mod status;
mod storage;
pub mod table;
#[cfg(test)]
mod tests;
mod user;
mod watch;
mod webhooks;

pub use access::Authorization;
pub use admission_plugins::{AdmissionPlugin, UnknownAdmissionPlugin};
pub use clock::{Clock, SystemClock, TokioClock};
pub use cluster_ip_range::{ClusterIpRange, InvalidClusterIpRange};
pub use controllers::{ControllerOptions, Controllers, StageError, Stages, UnknownController};
#[cfg(feature = "persistence")]
pub use persistence::DataError;
pub use pilothouse_listen::{CertificateError, ServeError};
pub use request::Verb;
pub use respond::ResponseBody;
pub use server::{
    ApiServer, ApiServerBuilder, ApiService, Commit, CommittedObject, Faults, InitialObjects,
    KubeconfigError, Matcher, RequestCount, RequestLog,
};
pub use status::Status;
pub use user::User;
