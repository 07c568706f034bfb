//! The subcommands, one module each, and what several of them share.

pub(crate) mod apiserver;
pub(crate) mod build;
pub(crate) mod check;
pub(crate) mod compile;
pub(crate) mod dev;
mod host;
mod ingest;
mod listen;
pub(crate) mod logs;
pub(crate) mod new;
pub(crate) mod rbac;
mod rebuild;
mod remote;
pub(crate) mod run;
pub(crate) mod status;
