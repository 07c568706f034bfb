//! The host's functions. In a plugin the bindings implement them, in a native test the fake host of [`testing`](crate::testing).

#[cfg(not(target_family = "wasm"))]
mod native;
#[cfg(target_family = "wasm")]
mod wasm;

#[cfg(not(target_family = "wasm"))]
pub(crate) use native::*;
#[cfg(target_family = "wasm")]
pub(crate) use wasm::*;
