//! The languages that the suite runs.

use std::path::PathBuf;

/// A language with an acceptance plugin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Language {
    /// The folder under `examples/acceptance`, and the end of the plugin's name.
    pub(super) name: &'static str,
    /// What its instances need more than the default limit of memory, as the sidecar writes it.
    pub(super) memory: Option<&'static str>,
}

impl Language {
    pub(super) const ALL: &[Self] = &[
        Self { name: "rust", memory: None },
        Self { name: "js", memory: None },
        Self { name: "python", memory: None },
        Self { name: "go", memory: None },
        Self { name: "c", memory: None },
        Self { name: "wat", memory: None },
    ];

    /// The plugin's name.
    pub(super) fn plugin(&self) -> String {
        format!("acceptance-{}", self.name)
    }

    /// The bytes of its .wasm, as `cargo xtask build-guests` left it.
    pub(super) fn wasm(&self) -> Vec<u8> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/target/guests");
        let path = PathBuf::from(folder).join(format!("{}.wasm", self.plugin()));
        std::fs::read(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; run `cargo xtask build-guests acceptance-{}`", path.display(), self.name)
        })
    }
}
