//! Encoding of core modules as components.
//!
//! Most toolchains write the component type to a custom section of the module. A module without one, as from Go's compiler or from
//! hand-written WAT, gets a world with the interfaces that its exports name.

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{PackageId, Resolve, SourceMap, WorldId};

use super::inspect::{BinarySummary, Interface};
use super::{LoadError, PACKAGE, PACKAGE_VERSION, one_line, wasi};

/// The files of the contract, as of the build of this host.
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

/// The adapter from WASI preview 1 to 0.2, which becomes part of the components of modules that import preview 1.
pub(crate) const ADAPTER: &[u8] = WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;

/// Encodes a core module as a component.
pub(super) fn encode(module: &[u8], summary: &BinarySummary) -> Result<Vec<u8>, LoadError> {
    let with_type;
    let module = if summary.has_component_type {
        module
    } else {
        with_type = with_component_type(module, summary)?;
        &with_type
    };
    encode_component(module, summary)
}

fn failed(error: &impl std::fmt::Display) -> LoadError {
    let message = one_line(&format!("{error:#}"));
    // The text of `LoadError::Encode` says this already.
    let redundant = "failed to decode world from module: module was not valid: ";
    LoadError::Encode { message: message.replacen(redundant, "", 1) }
}

fn encode_component(module: &[u8], summary: &BinarySummary) -> Result<Vec<u8>, LoadError> {
    let mut encoder = ComponentEncoder::default().module(module).map_err(|error| failed(&error))?;
    if summary.imports.contains(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME) {
        encoder =
            encoder.adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, ADAPTER).map_err(|error| failed(&error))?;
    }
    encoder.validate(true).encode().map_err(|error| failed(&error))
}

/// Adds the custom section in which toolchains write the world of a module.
fn with_component_type(module: &[u8], summary: &BinarySummary) -> Result<Vec<u8>, LoadError> {
    // The contract itself parses, so an error comes from a name or a version in the module.
    let (resolve, world) = world_of(summary).map_err(|error| failed(&error))?;
    let mut module = module.to_vec();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .map_err(|error| failed(&error))?;
    Ok(module)
}

/// Returns the contract that this host serves.
pub(super) fn contract() -> Result<(Resolve, PackageId), String> {
    let mut resolve = Resolve::default();
    let package = push(&mut resolve, &WIT)?;
    Ok((resolve, package))
}

/// Returns a world with the module's exports, all imports of the contract, and the module's imports of WASI.
fn world_of(summary: &BinarySummary) -> Result<(Resolve, WorldId), String> {
    let mut resolve = Resolve::default();
    // A module for a later patch version gets this host's contract under that version. Linking fails if it needs more.
    let version = summary.package_version();
    let wit = WIT
        .map(|(name, text)| (name, text.replacen(&package_line(PACKAGE_VERSION), &package_line(version), 1)));
    push(&mut resolve, &wit.each_ref().map(|(name, text)| (*name, text.as_str())))?;
    for package in wasi::packages(&summary.imports) {
        push(&mut resolve, &[("wasi.wit", &package)])?;
    }
    let mut text =
        format!("package pilothouse:guest;\nworld guest {{\n  include {PACKAGE}/imports@{version};\n");
    for interface in wasi::interfaces(&summary.imports) {
        text.push_str(&format!("  import {interface};\n"));
    }
    for interface in Interface::ALL {
        if summary.exports(interface) {
            text.push_str(&format!("  export {PACKAGE}/{}@{version};\n", interface.name()));
        }
    }
    text.push_str("}\n");
    let package = push(&mut resolve, &[("guest.wit", &text)])?;
    let world = resolve.select_world(&[package], Some("guest")).map_err(|error| format!("{error:#}"))?;
    Ok((resolve, world))
}

/// Returns the `package` declaration of the contract.
fn package_line(version: &str) -> String {
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
    fn the_binary_has_every_file_of_the_wit_folder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit");
        let files: BTreeSet<_> = std::fs::read_dir(folder)
            .expect("the folder wit/")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
            .filter(|name| name.ends_with(".wit"))
            .collect();
        assert_eq!(files, WIT.iter().map(|(name, _)| (*name).to_owned()).collect());
    }

    #[test]
    fn the_world_imports_the_wasi_interfaces_that_the_module_imports() {
        let imports = ["wasi:clocks/wall-clock@0.2.3", "wasi:random/random@0.2.0", "wasi:sockets/tcp@0.2.0"];
        let summary = BinarySummary {
            imports: imports.iter().map(|name| (*name).to_owned()).collect(),
            exports: [format!("{PACKAGE}/plugin@0.1.0#describe")].into(),
            ..BinarySummary::default()
        };
        let (resolve, world) = world_of(&summary).expect("a valid world");
        let world = &resolve.worlds[world];
        let names: BTreeSet<_> = world.imports.keys().map(|key| resolve.name_world_key(key)).collect();
        assert!(names.contains(imports[0]) && names.contains(imports[1]), "{names:?}");
        assert!(!names.contains(imports[2]), "{names:?}");
    }

    #[test]
    fn names_that_are_invalid_in_wit_are_an_encode_error() {
        let plugin = format!("{PACKAGE}/plugin@0.1.0#describe");
        for (imports, export) in [
            (&["wasi:clocks/monotonic-clock@0.2.6", "wasi:clocks/wall-clock@5.2.6"][..], plugin.as_str()),
            (&["wasi:random/random@0.2.0 {"], &plugin),
            (&[], "pilothouse:controller/plugin@0.1.+5#describe"),
        ] {
            let summary = BinarySummary {
                imports: imports.iter().map(|name| (*name).to_owned()).collect(),
                exports: [export.to_owned()].into(),
                ..BinarySummary::default()
            };
            let error = with_component_type(b"\0asm\x01\0\0\0", &summary).expect_err(export);
            assert!(matches!(error, LoadError::Encode { .. }), "{imports:?} {export}: {error}");
        }
    }

    #[test]
    fn the_world_exports_what_the_module_exports() {
        let exports = ["plugin@0.1.0#describe", "index@0.1.0#values", "cabi_realloc"];
        let summary = BinarySummary {
            exports: exports.iter().map(|name| format!("{PACKAGE}/{name}")).collect(),
            ..BinarySummary::default()
        };
        let (resolve, world) = world_of(&summary).expect("a valid world");
        let world = &resolve.worlds[world];
        let names: BTreeSet<_> = world.exports.keys().map(|key| resolve.name_world_key(key)).collect();
        assert_eq!(names, BTreeSet::from([Interface::Plugin.export_name(), Interface::Index.export_name()]));
        assert_eq!(world.imports.len(), 10);
    }
}
