//! The subcommands, one module each, and what several of them share.

#[cfg(feature = "embedded-server")]
pub(crate) mod apiserver;
pub(crate) mod bundle;
pub(crate) mod check;
mod check_files;
pub(crate) mod compile;
pub(crate) mod completions;
#[cfg(feature = "registry")]
mod configured_entries;
pub(crate) mod control;
mod crd_files;
#[cfg(feature = "developer-tools")]
pub(crate) mod developer_tools;
#[cfg(feature = "embedded-server")]
pub(crate) mod envtest;
pub(crate) mod explain;
mod host;
mod host_permissions;
mod ingest;
mod inspected_plugin;
pub(crate) mod keys;
mod listen;
pub(crate) mod logs;
#[cfg(feature = "registry")]
mod plugin_manifest;
#[cfg(feature = "registry")]
mod plugin_resource;
pub(crate) mod preflight;
pub(crate) mod rbac;
#[cfg(feature = "registry")]
pub(crate) mod registry;
mod remote;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod size;
pub(crate) mod status;

pub(crate) use remote::percent_encoded;
