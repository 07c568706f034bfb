//! Core modules into components.
//!
//! Most toolchains leave the component type in a custom section of the module. Go's doesn't, and neither does a person who writes WAT: such
//! a module gets the world that its exports name.

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{PackageId, Resolve, SourceMap, WorldId};

use super::inspect::{Interface, Shape};
use super::{LoadError, PACKAGE, PACKAGE_VERSION, one_line, wasi};

/// The contract, file by file, as it was when the host was built.
const WIT: [(&str, &str); 15] = [
    ("cache.wit", include_str!("../../../../wit/cache.wit")),
    ("changes.wit", include_str!("../../../../wit/changes.wit")),
    ("client.wit", include_str!("../../../../wit/client.wit")),
    ("config.wit", include_str!("../../../../wit/config.wit")),
    ("events.wit", include_str!("../../../../wit/events.wit")),
    ("index.wit", include_str!("../../../../wit/index.wit")),
    ("log.wit", include_str!("../../../../wit/log.wit")),
    ("metrics.wit", include_str!("../../../../wit/metrics.wit")),
    ("objects.wit", include_str!("../../../../wit/objects.wit")),
    ("observe.wit", include_str!("../../../../wit/observe.wit")),
    ("plugin.wit", include_str!("../../../../wit/plugin.wit")),
    ("queue.wit", include_str!("../../../../wit/queue.wit")),
    ("reconcile.wit", include_str!("../../../../wit/reconcile.wit")),
    ("types.wit", include_str!("../../../../wit/types.wit")),
    ("worlds.wit", include_str!("../../../../wit/worlds.wit")),
];

/// What becomes part of components made from modules that import preview 1.
pub(crate) const ADAPTER: &[u8] = WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;

/// Makes a core module into a component.
pub(super) fn encode(module: &[u8], shape: &Shape) -> Result<Vec<u8>, LoadError> {
    let wrapped;
    let module = if shape.has_component_type {
        module
    } else {
        wrapped = with_component_type(module, shape)?;
        &wrapped
    };
    component(module, shape)
}

fn failed(error: &impl std::fmt::Display) -> LoadError {
    let message = one_line(&format!("{error:#}"));
    let said_already = "failed to decode world from module: module was not valid: ";
    LoadError::Encode { message: message.replacen(said_already, "", 1) }
}

fn component(module: &[u8], shape: &Shape) -> Result<Vec<u8>, LoadError> {
    let mut encoder = ComponentEncoder::default().module(module).map_err(|error| failed(&error))?;
    if shape.imports.contains(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME) {
        encoder =
            encoder.adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, ADAPTER).map_err(|error| failed(&error))?;
    }
    encoder.validate(true).encode().map_err(|error| failed(&error))
}

/// Adds the section in which toolchains say which world a module was made for.
fn with_component_type(module: &[u8], shape: &Shape) -> Result<Vec<u8>, LoadError> {
    // The contract parses: what does not is a name or a version in the module.
    let (resolve, world) = world_of(shape).map_err(|error| failed(&error))?;
    let mut module = module.to_vec();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .map_err(|error| failed(&error))?;
    Ok(module)
}

/// The contract as this host serves it.
pub(super) fn contract() -> Result<(Resolve, PackageId), String> {
    let mut resolve = Resolve::default();
    let package = push(&mut resolve, &WIT)?;
    Ok((resolve, package))
}

/// The world of a module that exports what this one exports and imports anything of the contract, and of WASI what this one does.
fn world_of(shape: &Shape) -> Result<(Resolve, WorldId), String> {
    let mut resolve = Resolve::default();
    // A module for a later patch version gets ours under that name: whether ours is enough shows when it is linked.
    let version = shape.package_version();
    let wit = WIT.map(|(name, text)| (name, text.replacen(&package(PACKAGE_VERSION), &package(version), 1)));
    push(&mut resolve, &wit.each_ref().map(|(name, text)| (*name, text.as_str())))?;
    for package in wasi::packages(&shape.imports) {
        push(&mut resolve, &[("wasi.wit", &package)])?;
    }
    let mut text =
        format!("package pilothouse:guest;\nworld guest {{\n  include {PACKAGE}/imports@{version};\n");
    for interface in wasi::interfaces(&shape.imports) {
        text.push_str(&format!("  import {interface};\n"));
    }
    for interface in Interface::ALL {
        if shape.exports(interface) {
            text.push_str(&format!("  export {PACKAGE}/{}@{version};\n", interface.name()));
        }
    }
    text.push_str("}\n");
    let package = push(&mut resolve, &[("guest.wit", &text)])?;
    let world = resolve.select_world(&[package], Some("guest")).map_err(|error| format!("{error:#}"))?;
    Ok((resolve, world))
}

/// The line with which the package begins, in the file that says so.
fn package(version: &str) -> String {
    format!("package {PACKAGE}@{version};")
}

fn push(resolve: &mut Resolve, files: &[(&str, &str)]) -> Result<PackageId, String> {
    let mut sources = SourceMap::new();
    for (name, contents) in files {
        sources.push_str(name, *contents);
    }
    let parsed = sources.parse().map_err(|(_, error)| error.to_string())?;
    resolve.push_group(parsed).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_wit_in_the_binary_is_the_whole_folder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit");
        let files: BTreeSet<_> = std::fs::read_dir(folder)
            .expect("the folder wit/")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
            .filter(|name| name.ends_with(".wit"))
            .collect();
        assert_eq!(files, WIT.iter().map(|(name, _)| (*name).to_owned()).collect());
    }

    #[test]
    fn a_modules_world_has_the_clock_that_the_module_asks_for() {
        let imports = ["wasi:clocks/wall-clock@0.2.3", "wasi:random/random@0.2.0", "wasi:sockets/tcp@0.2.0"];
        let shape = Shape {
            imports: imports.iter().map(|name| (*name).to_owned()).collect(),
            exports: [format!("{PACKAGE}/plugin@0.1.0#describe")].into(),
            ..Shape::default()
        };
        let (resolve, world) = world_of(&shape).expect("a valid world");
        let world = &resolve.worlds[world];
        let names: BTreeSet<_> = world.imports.keys().map(|key| resolve.name_world_key(key)).collect();
        assert!(names.contains(imports[0]) && names.contains(imports[1]), "{names:?}");
        assert!(!names.contains(imports[2]), "{names:?}");
    }

    #[test]
    fn names_of_which_no_world_can_be_made_are_the_modules_fault() {
        let plugin = format!("{PACKAGE}/plugin@0.1.0#describe");
        for (imports, export) in [
            (&["wasi:clocks/monotonic-clock@0.2.6", "wasi:clocks/wall-clock@5.2.6"][..], plugin.as_str()),
            (&["wasi:random/random@0.2.0 {"], &plugin),
            (&[], "pilothouse:controller/plugin@0.1.+5#describe"),
        ] {
            let shape = Shape {
                imports: imports.iter().map(|name| (*name).to_owned()).collect(),
                exports: [export.to_owned()].into(),
                ..Shape::default()
            };
            let error = with_component_type(b"\0asm\x01\0\0\0", &shape).expect_err(export);
            assert!(matches!(error, LoadError::Encode { .. }), "{imports:?} {export}: {error}");
        }
    }

    #[test]
    fn a_modules_world_exports_what_the_module_exports() {
        let exports = ["plugin@0.1.0#describe", "index@0.1.0#values", "cabi_realloc"];
        let shape = Shape {
            exports: exports.iter().map(|name| format!("{PACKAGE}/{name}")).collect(),
            ..Shape::default()
        };
        let (resolve, world) = world_of(&shape).expect("a valid world");
        let world = &resolve.worlds[world];
        let names: BTreeSet<_> = world.exports.keys().map(|key| resolve.name_world_key(key)).collect();
        assert_eq!(names, BTreeSet::from([Interface::Plugin.export_name(), Interface::Index.export_name()]));
        assert_eq!(world.imports.len(), 10);
    }
}
