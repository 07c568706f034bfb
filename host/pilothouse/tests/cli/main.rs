//! Runs the subcommands for plugin authors as processes in temporary folders: new, build, check, test, rbac, abi, dev --build; completions; and those for operators that need no cluster, or only the embedded one: bundle, size, preflight. `surfaces` compares the
//! public surfaces with `tests/snapshots`.
//!
//! All builds with compilers are of Rust projects, because the rest of the repository needs the Rust toolchain anyway, and share
//! `examples/target`. `tests/e2e/templates.rs` builds the templates of all languages.

mod abi;
mod apiserver;
mod binary;
mod build;
mod bundle;
mod check;
mod completions;
mod dev;
mod envtest;
mod export;
mod guest;
mod host;
mod new;
mod preflight;
mod project;
mod rbac;
mod replay;
mod scenarios;
mod sim;
mod sim_input;
mod sim_versions;
mod size;
mod snapshot;
mod surfaces;
mod traces;
mod unauthorized;
