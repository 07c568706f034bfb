//! Plugins built for released versions of the contract keep running.

use std::fs;
use std::path::Path;

use kube::api::PostParams;
use serde_json::json;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::harness::Host;

/// Builds a component from the released WIT, as the tools at the time of the release would have done.
fn build_component(folder: &Path, module: &[u8]) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(folder).expect("the released WIT parses");
    let world = resolve.select_world(&[package], Some("reconciler")).expect("a world");
    let mut module = module.to_vec();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("a described module");
    let encoder = ComponentEncoder::default().module(&module).expect("a module for the world");
    encoder.validate(true).encode().expect("a component")
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_built_for_released_contracts_still_run() {
    let releases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/released");
    let folders = fs::read_dir(&releases).expect("the releases").map(|entry| entry.expect("an entry").path());
    let folders: Vec<_> = folders.filter(|path| path.is_dir()).collect();
    assert!(!folders.is_empty());
    let host = Host::start().await;
    let manifest = json!({"metadata": {"name": "one", "labels": {"test": "released"}}});
    let map = serde_json::from_value(manifest).expect("a config map");
    let made = host.server.config_maps().create(&PostParams::default(), &map).await.expect("created");
    let version = made.metadata.resource_version.expect("a version");
    for folder in folders {
        let release = folder.file_name().expect("a name").to_string_lossy().replace('.', "-");
        let module = wat::parse_file(folder.join("plugin.wat")).expect("a core module");
        let component = build_component(&folder, &module);
        for (form, file) in [("component", component), ("module", module)] {
            let name = format!("released-{release}-{form}");
            host.install_plugin(&name, &file);
            host.wait_for_state(&name, "running").await;
            host.wait(&format!("{name} to reconcile"), || async {
                let log = String::from_utf8(host.pilothouse(&["logs", &name]).stdout).expect("text");
                log.contains(&version).then_some(())
            })
            .await;
        }
    }
}
