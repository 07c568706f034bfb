//! The bindings of the WIT package. They are not part of the SDK's public API.
//!
//! `cargo xtask bindings` generates them from `wit/`. They are committed, so that a plugin's build compiles no generator.
//!
//! The imports are generated once, together with `plugin`, which every guest exports. Each further export has its own world over the
//! same imports, so that a guest exports only what `export!` names. The linker merges the descriptions of the worlds.
#![allow(missing_docs, unreachable_pub, unsafe_op_in_unsafe_fn, clippy::all)]

#[rustfmt::skip]
#[path = "generated/guest.rs"]
mod guest;

#[rustfmt::skip]
#[path = "generated/index.rs"]
pub mod index;
#[rustfmt::skip]
#[path = "generated/observe.rs"]
pub mod observe;
#[rustfmt::skip]
#[path = "generated/reconcile.rs"]
pub mod reconcile;

pub use guest::*;
