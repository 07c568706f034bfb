//! The implementations of the acceptance plugin.

use std::path::PathBuf;

/// An implementation of the acceptance plugin, in a guest language or in WebAssembly text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Implementation {
    /// The folder in `examples/acceptance`.
    pub(super) name: &'static str,
}

impl Implementation {
    /// Returns all implementations.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        pilothouse_toolchain::acceptance_implementations().map(|name| Self { name })
    }

    /// Returns the plugin's name.
    pub(super) fn plugin(&self) -> String {
        format!("acceptance-{}", self.name)
    }

    /// Reads the .wasm file that `cargo xtask build-guests` wrote.
    pub(super) fn wasm(&self) -> Vec<u8> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/target/guests");
        let path = PathBuf::from(folder).join(format!("{}.wasm", self.plugin()));
        std::fs::read(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; run `cargo xtask build-guests acceptance-{}`", path.display(), self.name)
        })
    }
}
