//! Runs the subcommands for plugin authors as processes in temporary folders: new, build, check, rbac, dev --build; and completions. `surfaces` compares the
//! public surfaces with `tests/snapshots`.
//!
//! All builds are of Rust projects, because the rest of the repository needs the Rust toolchain anyway, and share
//! `examples/target`. `tests/e2e/templates.rs` builds the templates of all languages.

mod binary;
mod build;
mod check;
mod completions;
mod dev;
mod host;
mod new;
mod project;
mod rbac;
mod snapshot;
mod surfaces;
