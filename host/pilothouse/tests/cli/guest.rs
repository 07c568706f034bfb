//! The guest that the tests of simulations run as a plugin. Its descriptor is its configuration.

use std::fs;
use std::path::Path;

/// Writes the guest to the file `wasm`, and its sidecar with this descriptor, in JSON, to `PLUGIN.yaml`.
pub(crate) fn write_guest(folder: &Path, wasm: &str, plugin: &str, descriptor: &str) {
    fs::write(folder.join(wasm), guest(&[])).expect("written");
    let sidecar = format!("{{\"config\": {descriptor}}}").replace('\n', "");
    fs::write(folder.join(format!("{plugin}.yaml")), sidecar).expect("written");
}

/// Assembles the guest after replacing texts in its source. Panics if a text does not occur.
pub(crate) fn guest(replacements: &[(&str, &str)]) -> Vec<u8> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/src/world/tests/guest.wat");
    let mut text = fs::read_to_string(source).expect("a guest");
    for (from, to) in replacements {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    wat::parse_str(&text).expect("a guest")
}

/// Returns a version of the guest that creates the object in `data.other` in place of `data.first`.
pub(crate) fn other_guest() -> Vec<u8> {
    guest(&[("/data/first", "/data/other")])
}

/// Returns another file with the same behaviour: an empty custom section is added.
pub(crate) fn same_behaviour(wasm: &[u8]) -> Vec<u8> {
    [wasm, &[0, 2, 1, b'x']].concat()
}
