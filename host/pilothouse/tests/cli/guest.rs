//! The guest that the tests of simulations run as a plugin. Its descriptor is its configuration.

use std::fs;
use std::path::Path;

/// Writes the guest to the file `wasm`, and its sidecar with this descriptor, in JSON, to `PLUGIN.yaml`.
pub(crate) fn write_guest(folder: &Path, wasm: &str, plugin: &str, descriptor: &str) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/src/world/tests/guest.wat");
    fs::write(folder.join(wasm), wat::parse_file(source).expect("a guest")).expect("written");
    let sidecar = format!("{{\"config\": {descriptor}}}").replace('\n', "");
    fs::write(folder.join(format!("{plugin}.yaml")), sidecar).expect("written");
}
