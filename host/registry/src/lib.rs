//! Plugins in OCI registries.
//!
//! A [`RegistryClient`] pushes and pulls artifacts; a [`Cache`] keeps what was pulled, so that a host starts again without the registry.
//! Registries are not trusted: content is used only if it has the digest that was asked for, and every response has limits of time and size.
//!
//! Everything that decides is pure and has unit tests: references, layouts, challenges, hosts, retries, schedules, policies.

mod address;
mod cache;
mod cache_folder;
mod challenge;
mod client;
mod connect;
mod credentials;
mod digest;
mod error;
mod exchange;
mod fetch;
mod layout;
mod manifest;
mod origin;
mod reference;
mod retry;
mod schedule;
mod signature;
mod source;
mod staging;
mod tls;

pub use cache::Cache;
pub use client::{ClientOptions, Limits, ManifestDocument, ReferrerPage, ReferrerPages, RegistryClient};
pub use credentials::{CredentialFile, Credentials};
pub use digest::Digest;
pub use error::{Problem, RegistryError};
pub use exchange::Timeouts;
pub use fetch::{CachedPlugin, fetch};
pub use layout::{Artifact, Layout};
pub use manifest::{Descriptor, Index, Manifest, media_type};
pub use reference::{Reference, SCHEME};
pub use schedule::{Outcome, Schedule};
pub use signature::{
    Decision, SignatureMaterial, SignaturePolicy, collect_signatures, load_signatures, store_signatures,
    verify,
};
pub use source::{
    AddedPlugins, OnViolation, PluginEntry, PluginSource, RegistrySettings, SourceEvents, SourceReport,
    check_plugin_cache, credentials,
};
pub use tls::Tls;
