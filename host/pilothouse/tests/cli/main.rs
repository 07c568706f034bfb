//! The subcommands for authors, run as a process in folders that go away: new, build, check, rbac, dev --build.
//!
//! Builds are of Rust, whose toolchain the rest of the project needs as well, and share `examples/target`. What comes of the
//! templates of all languages is tested in `tests/e2e/templates.rs`.

mod build;
mod check;
mod dev;
mod new;
mod project;
mod rbac;
mod tool;
