//! The plugins that the tests run.

use std::path::PathBuf;

/// The folder to which `cargo xtask build-guests` writes the plugins.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/target/guests");

/// An example plugin.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Guest {
    ConfigmapRollout,
    Conformance,
    DeleteEverything,
    Hostile,
    IngressTls,
    LabelPropagator,
    PodCounter,
    SampleController,
    SecretReplicator,
    TwoObservers,
    SampleControllerAssemblyScript,
    SampleControllerGo,
    SampleControllerJs,
    SampleControllerPython,
    SampleControllerZig,
    TtlCleaner,
    WebhookNotifier,
}

impl Guest {
    /// Reads the plugin's .wasm file.
    pub(crate) fn wasm(self) -> Vec<u8> {
        let name = match self {
            Self::ConfigmapRollout => "configmap-rollout",
            Self::Conformance => "conformance",
            Self::DeleteEverything => "delete-everything",
            Self::Hostile => "hostile",
            Self::IngressTls => "ingress-tls",
            Self::SecretReplicator => "secret-replicator",
            Self::TwoObservers => "two-observers",
            Self::LabelPropagator => "label-propagator",
            Self::PodCounter => "pod-counter",
            Self::SampleController => "sample-controller",
            Self::SampleControllerAssemblyScript => "sample-controller-assemblyscript",
            Self::SampleControllerGo => "sample-controller-go",
            Self::SampleControllerJs => "sample-controller-js",
            Self::SampleControllerPython => "sample-controller-python",
            Self::SampleControllerZig => "sample-controller-zig",
            Self::TtlCleaner => "ttl-cleaner",
            Self::WebhookNotifier => "webhook-notifier",
        };
        let path = PathBuf::from(FOLDER).join(format!("{name}.wasm"));
        std::fs::read(&path).unwrap_or_else(|error| {
            panic!(
                "{}: {error}; run `cargo xtask build-guests`, or `cargo xtask test`, which includes it",
                path.display()
            )
        })
    }
}

/// Assembles a hand-written guest of the plugin crate's tests.
pub(crate) fn wat(name: &str) -> Vec<u8> {
    let path = format!("{}/../plugin/tests/guests/{name}.wat", env!("CARGO_MANIFEST_DIR"));
    wat::parse_file(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Assembles a guest like [`wat`] after replacing texts in its source. Panics if a text does not occur.
pub(crate) fn wat_with(name: &str, replacements: &[(&str, &str)]) -> Vec<u8> {
    let path = format!("{}/../plugin/tests/guests/{name}.wat", env!("CARGO_MANIFEST_DIR"));
    let mut text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    for (from, to) in replacements {
        assert!(text.contains(from), "{path}: {from}");
        text = text.replace(from, to);
    }
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the plugin with a custom section that contains the number: a different file with the same behaviour.
pub(crate) fn another_version(wasm: &[u8], number: u8) -> Vec<u8> {
    let mut other = wasm.to_vec();
    let name = b"version";
    let payload = [&[u8::try_from(name.len()).expect("short")], name.as_slice(), &[number]].concat();
    other.push(0);
    other.push(u8::try_from(payload.len()).expect("short"));
    other.extend(payload);
    other
}
