//! Plugins for the tests.

use std::path::PathBuf;

/// The built example plugins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Guest {
    ConfigmapRollout,
    Conformance,
    DeleteEverything,
    LabelPropagator,
    SampleController,
    SampleControllerGo,
    SampleControllerJs,
    SampleControllerPython,
}

impl Guest {
    /// The bytes of its .wasm.
    pub(crate) fn wasm(self) -> Vec<u8> {
        let path = match self {
            Self::ConfigmapRollout => built("configmap-rollout"),
            Self::Conformance => by_cargo("conformance"),
            Self::DeleteEverything => by_cargo("delete_everything"),
            Self::LabelPropagator => built("label-propagator"),
            Self::SampleController => by_cargo("sample_controller"),
            Self::SampleControllerGo => built("sample-controller-go"),
            Self::SampleControllerJs => built("sample-controller-js"),
            Self::SampleControllerPython => built("sample-controller-python"),
        };
        std::fs::read(&path).unwrap_or_else(|error| {
            panic!(
                "{}: {error}; run `cargo xtask build-guests`, or `cargo xtask test` for everything",
                path.display()
            )
        })
    }
}

/// Where cargo leaves a plugin in Rust.
fn by_cargo(name: &str) -> PathBuf {
    let default = || examples("wasm32-unknown-unknown/release");
    let folder = std::env::var_os("PILOTHOUSE_GUESTS").map_or_else(default, PathBuf::from);
    folder.join(format!("{name}.wasm"))
}

/// Where xtask leaves a plugin in another language.
fn built(name: &str) -> PathBuf {
    examples("guests").join(format!("{name}.wasm"))
}

fn examples(folder: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/target")).join(folder)
}

/// A hand-written guest of the plugin crate's tests, assembled.
pub(crate) fn wat(name: &str) -> Vec<u8> {
    let path = format!("{}/../plugin/tests/guests/{name}.wat", env!("CARGO_MANIFEST_DIR"));
    wat::parse_file(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The same plugin as another file: with a custom section that says which.
pub(crate) fn another_version(wasm: &[u8], number: u8) -> Vec<u8> {
    let mut other = wasm.to_vec();
    let name = b"version";
    let payload = [&[u8::try_from(name.len()).expect("short")], name.as_slice(), &[number]].concat();
    other.push(0);
    other.push(u8::try_from(payload.len()).expect("short"));
    other.extend(payload);
    other
}
