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
use super::{LoadError, one_line, wasi};
use crate::contract::{self, PACKAGE};

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
    // With names, the fault of a call with a bad pointer or handle can tell which import was called (see `fault`).
    encoder.validate(true).debug_names(true).encode().map_err(|error| failed(&error))
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
pub(crate) fn parse_contract() -> Result<(Resolve, PackageId), String> {
    let mut resolve = Resolve::default();
    let package = push(&mut resolve, &contract::FILES)?;
    Ok((resolve, package))
}

/// Returns a world with the module's exports, all imports of the contract, and the module's imports of WASI.
fn world_of(summary: &BinarySummary) -> Result<(Resolve, WorldId), String> {
    let mut resolve = Resolve::default();
    // The encoder finds exports by their full names, so a module for an earlier version gets this host's contract under that version.
    // This host's contract has all that the earlier one has. The encoder and the linker match imports of compatible versions.
    let version = summary.package_version();
    let (own, named) = (package_line(contract::VERSION), package_line(version));
    let wit = contract::FILES.map(|(name, text)| (name, text.replacen(&own, &named, 1)));
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
    fn the_contract_has_the_version_that_the_host_names() {
        let (resolve, package) = parse_contract().expect("the contract");
        let name = &resolve.packages[package].name;
        assert_eq!(name.to_string(), format!("{PACKAGE}@{}", contract::VERSION));
    }

    #[test]
    fn the_world_imports_the_wasi_interfaces_that_the_module_imports() {
        let imports = ["wasi:clocks/wall-clock@0.2.3", "wasi:random/random@0.2.0", "wasi:sockets/tcp@0.2.0"];
        let summary = BinarySummary {
            imports: imports.iter().map(|name| (*name).to_owned()).collect(),
            exports: [format!("{}#describe", Interface::Plugin.export_name())].into(),
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
        let plugin = format!("{}#describe", Interface::Plugin.export_name());
        for (imports, export) in [
            (&["wasi:clocks/monotonic-clock@0.2.6", "wasi:clocks/wall-clock@5.2.6"][..], plugin.as_str()),
            (&["wasi:random/random@0.2.0 {"], &plugin),
            (&[], "pilothouse:controller/plugin@0.1.01#describe"),
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
    fn the_world_exports_what_the_module_exports_in_its_version() {
        for version in ["0.1.0", contract::VERSION] {
            let exports =
                [format!("plugin@{version}#describe"), format!("index@{version}#values"), "other".to_owned()];
            let summary = BinarySummary {
                exports: exports.iter().map(|name| format!("{PACKAGE}/{name}")).collect(),
                ..BinarySummary::default()
            };
            let (resolve, world) = world_of(&summary).expect("a valid world");
            let world = &resolve.worlds[world];
            let names: BTreeSet<_> = world.exports.keys().map(|key| resolve.name_world_key(key)).collect();
            let expected = ["plugin", "index"].map(|name| format!("{PACKAGE}/{name}@{version}"));
            assert_eq!(names, BTreeSet::from(expected));
            assert_eq!(world.imports.len(), 10);
        }
    }
}
