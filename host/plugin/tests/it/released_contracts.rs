//! Plugins built against released versions of the contract load and run, in every form that a file may have.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pilothouse_plugin::{Form, InstanceLimits, LogSource, Outcome};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::fake_host::FakeHost;
use crate::loading::component;
use crate::{engine, request};

const OBJECT: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","resourceVersion":"17"}}"#;

/// Returns the folders of the released contracts.
fn releases() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/released");
    let entries = fs::read_dir(folder).expect("the folder wit/released");
    entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect()
}

/// Adds the component type of a released contract in a custom section, as the tools at the time of the release would have done.
fn with_component_type(module: &[u8], release: &Path) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(release).expect("the released WIT parses");
    let world = resolve.select_world(&[package], Some("reconciler")).expect("world reconciler");
    let mut module = module.to_vec();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("a section");
    module
}

#[tokio::test]
async fn plugins_of_released_contracts_run_in_every_form() {
    let releases = releases();
    assert!(releases.len() > 1, "{releases:?}");
    for release in releases {
        let version = release.file_name().expect("a name").to_str().expect("UTF-8");
        let module = wat::parse_file(release.join("plugin.wat")).unwrap_or_else(|error| panic!("{error}"));
        let with_type = with_component_type(&module, &release);
        let component = component(&with_type);
        for (form, file) in
            [(Form::CoreModule, module), (Form::CoreModule, with_type), (Form::Component, component)]
        {
            let code = engine().load(file).await;
            let code = code.unwrap_or_else(|error| panic!("{version}, {form:?}: {error}"));
            assert_eq!((code.form(), code.package_version()), (form, version));
            let host = Arc::new(FakeHost::default());
            host.put(OBJECT);
            let mut instance =
                code.instantiate(host.clone(), &InstanceLimits::default()).await.expect("an instance");
            assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
            assert_eq!(host.messages(LogSource::Log), ["17"], "{version}, {form:?}");
        }
    }
}
