//! Reads what a module or component imports and exports, without compiling it, and checks that this host can run it.

use std::collections::BTreeSet;

use wasmparser::{BinaryReaderError, Encoding, Parser, Payload, Validator};

use super::{LoadError, one_line};
use crate::contract::{self, PACKAGE};

/// The interfaces that a plugin may export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interface {
    Plugin,
    Reconcile,
    Observe,
    Index,
}

impl Interface {
    pub(crate) const ALL: [Self; 4] = [Self::Plugin, Self::Reconcile, Self::Observe, Self::Index];

    /// The interfaces that the host calls while a plugin runs. A plugin that exports none of them could do nothing.
    const CALLABLE: [Self; 3] = [Self::Reconcile, Self::Observe, Self::Index];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Reconcile => "reconcile",
            Self::Observe => "observe",
            Self::Index => "index",
        }
    }

    pub(super) fn export_name(self) -> String {
        contract::interface_name(self.name())
    }
}

/// The imports and exports of a binary.
#[derive(Debug, Default)]
pub(super) struct BinarySummary {
    /// A component's imports, or the modules that a core module imports from.
    pub(super) imports: BTreeSet<String>,
    /// Module and name of each import of a core module.
    pub(super) functions: Vec<(String, String)>,
    /// The names of the exports.
    pub(super) exports: BTreeSet<String>,
    /// Whether a core module has a custom section with its component type.
    pub(super) has_component_type: bool,
    /// Whether this is a relocatable object file, which must be linked first.
    pub(super) is_object_file: bool,
}

/// Maximum depth of components within components. Tools make three or four levels; the validator's time grows with the square of the depth.
const MAX_DEPTH: u32 = 100;

/// Maximum number of functions of all modules together. The largest known guests, interpreters, have about 20,000. A compiler takes several
/// KiB for each function, however short it is.
pub(super) const MAX_FUNCTIONS: u32 = 100_000;

/// Reads the binary's imports and exports, and validates it.
pub(super) fn inspect(bytes: &[u8]) -> Result<BinarySummary, LoadError> {
    let mut summary = BinarySummary::default();
    // The parser also reports the contents of nested modules and components; only the outermost level counts.
    let mut depth = 0_u32;
    let (mut functions, mut code) = (0_u32, 0_u32);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|error| invalid(bytes, &error))? {
            Payload::Version { encoding: Encoding::Module | Encoding::Component, .. } => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(LoadError::Invalid {
                        message: format!("modules or components are nested more than {MAX_DEPTH} deep"),
                    });
                }
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            // Counted before validation, which takes memory for each function.
            Payload::FunctionSection(section) => functions = functions.saturating_add(section.count()),
            Payload::CodeSectionStart { count, .. } => code = code.saturating_add(count),
            payload if depth == 1 => summary.add(payload).map_err(|error| invalid(bytes, &error))?,
            _ => {}
        }
        if functions.max(code) > MAX_FUNCTIONS {
            return Err(LoadError::TooManyFunctions { limit: MAX_FUNCTIONS });
        }
    }
    Validator::new_with_features(features()).validate_all(bytes).map_err(|error| invalid(bytes, &error))?;
    Ok(summary)
}

fn features() -> wasmparser::WasmFeatures {
    // All features that the parser knows: the engine refuses those that it lacks, with a more precise message.
    wasmparser::WasmFeatures::all()
}

fn invalid(bytes: &[u8], error: &BinaryReaderError) -> LoadError {
    let message = one_line(&error.to_string());
    let ends_early = error.message().contains("unexpected end") || error.message().contains("unexpected-eof");
    if ends_early {
        return LoadError::Truncated { size: bytes.len(), message };
    }
    LoadError::Invalid { message }
}

impl BinarySummary {
    fn add(&mut self, payload: Payload<'_>) -> Result<(), BinaryReaderError> {
        match payload {
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import?;
                    self.imports.insert(import.module.to_owned());
                    self.functions.push((import.module.to_owned(), import.name.to_owned()));
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    self.exports.insert(export?.name.to_owned());
                }
            }
            Payload::ComponentImportSection(section) => {
                for import in section {
                    self.imports.insert(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    self.exports.insert(export?.name.name.to_owned());
                }
            }
            Payload::CustomSection(section) => match section.name() {
                name if name.starts_with("component-type") => self.has_component_type = true,
                "linking" => self.is_object_file = true,
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }

    /// Returns whether an interface of the contract is exported, by a component or in one of the two spellings of core modules.
    pub(super) fn exports(&self, interface: Interface) -> bool {
        self.exports.iter().filter_map(|name| contract_name(name)).any(|(name, _)| name == interface.name())
    }

    /// Returns the version of the contract that the exports name. A name with a minor version only ("0.1") means this host's.
    pub(super) fn package_version(&self) -> &str {
        let mut versions =
            self.exports.iter().filter_map(|name| contract_name(name)).map(|(_, version)| version);
        versions.find(|version| version.matches('.').count() == 2).unwrap_or(contract::VERSION)
    }
}

/// Returns interface and version of a name in the contract's package: `pilothouse:controller/INTERFACE@VERSION`. In a core module
/// `#FUNCTION` may follow, or the name is `cm32p2|pilothouse:controller/INTERFACE@0.1|FUNCTION`.
pub(super) fn contract_name(name: &str) -> Option<(&str, &str)> {
    let name = name.strip_prefix("cm32p2|").unwrap_or(name);
    let rest = name.strip_prefix(PACKAGE)?.strip_prefix('/')?;
    let (interface, version) = rest.split_once('@')?;
    let version = version.split(['#', '|']).next().unwrap_or(version);
    Some((interface, version))
}

/// Errors if a binary with these imports and exports cannot be a plugin of this host.
pub(super) fn check(summary: &BinarySummary) -> Result<(), LoadError> {
    if summary.is_object_file {
        return Err(LoadError::NotWasm {
            found: "a WebAssembly object file".to_owned(),
            remedy: "link it (`wasm-ld`, or your compiler without -c)",
        });
    }
    let names = summary.imports.iter().chain(&summary.exports);
    let mut versions = names.filter_map(|name| contract_name(name)).map(|(_, version)| version);
    if let Some(version) = versions.find(|version| !contract::is_served(version)) {
        return Err(LoadError::WrongVersion { wanted: one_line(version), offered: contract::VERSION });
    }
    if !summary.exports(Interface::Plugin) {
        return Err(not_a_plugin(summary));
    }
    if !Interface::CALLABLE.iter().any(|interface| summary.exports(*interface)) {
        return Err(LoadError::NoCallableExport);
    }
    check_imports(summary)
}

fn not_a_plugin(summary: &BinarySummary) -> LoadError {
    const SHOWN: usize = 5;
    let remedy = if summary.exports.contains("_start")
        || summary.exports.iter().any(|name| name.starts_with("wasi:cli/run"))
    {
        "this is a command with a main function; a plugin is a library (in Rust, crate-type cdylib)"
    } else if summary.exports.iter().any(|name| name.starts_with("wasi:http/incoming-handler")) {
        "this is an HTTP handler"
    } else {
        "build it with an SDK of this project, or for that world"
    };
    let mut names: Vec<_> = summary.exports.iter().take(SHOWN).map(|name| one_line(name)).collect();
    if summary.exports.len() > SHOWN {
        names.push(format!("and {} more", summary.exports.len() - SHOWN));
    }
    let found = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    LoadError::NotAPlugin { found, remedy }
}

/// The interfaces of the contract that plugins may import.
const INTERFACES: [&str; 10] =
    ["cache", "client", "config", "queue", "events", "log", "metrics", "objects", "changes", "types"];

fn check_imports(summary: &BinarySummary) -> Result<(), LoadError> {
    let is_offered = |name: &str| match contract_name(name) {
        Some((interface, _)) => INTERFACES.contains(&interface),
        None => {
            let name = name.strip_prefix("cm32p2|").unwrap_or(name);
            ["wasi:io/", "wasi:clocks/", "wasi:random/", "wasi:cli/", "wasi:filesystem/", "wasi:sockets/"]
                .iter()
                .any(|package| name.starts_with(package))
                || name.starts_with("wasi:http/types@")
                || name.starts_with("wasi:http/outgoing-handler@")
                || is_provided_by_encoder(name)
        }
    };
    let missing: Vec<_> =
        summary.imports.iter().filter(|name| !is_offered(name)).map(|name| one_line(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let has = |prefix: &str| missing.iter().any(|name| name.starts_with(prefix));
    let remedy = if has("wasi:http") {
        "a plugin sends HTTP requests by wasi:http/outgoing-handler of WASI 0.2 and receives none"
    } else if has("env") || has("wbg") || has("__wbindgen") {
        "the code expects a browser or another host: build it without wasm-bindgen, Emscripten and the like"
    } else if has("wasi_unstable") || has("wasi:") {
        "rebuild it with tools that target WASI 0.2 or preview 1"
    } else {
        "remove the dependency that needs it"
    };
    Err(LoadError::UnsupportedImports {
        imports: missing.join(", "),
        offered: offered(),
        remedy: remedy.to_owned(),
    })
}

/// Returns the imports that the linker offers, for error messages.
fn offered() -> String {
    format!(
        "{PACKAGE}@{} with {}; and WASI 0.2 with io, clocks, random, cli, filesystem, sockets, and http/types and http/outgoing-handler",
        contract::VERSION,
        INTERFACES.join(", ")
    )
}

/// Returns whether a core module's imports from this module are provided by the encoder: the preview 1 adapter, intrinsics of exported
/// resources, and the root of the world.
fn is_provided_by_encoder(module: &str) -> bool {
    module == "wasi_snapshot_preview1"
        || module == "$root"
        || module.is_empty()
        || module.starts_with("[export]")
        || module == "cm32p2"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_module_with_too_many_functions_is_refused_before_it_is_compiled() {
        let module = |functions: u32| {
            let leb = |mut number: u32| {
                let mut bytes = Vec::new();
                while number > 0x7f {
                    bytes.push((number & 0x7f) as u8 | 0x80);
                    number >>= 7;
                }
                bytes.push(number as u8);
                bytes
            };
            let section = |id: u8, count: u32, item: &[u8]| {
                let body = [leb(count), item.repeat(count as usize)].concat();
                [vec![id], leb(body.len() as u32), body].concat()
            };
            let types = section(1, 1, &[0x60, 0, 0]);
            [
                b"\0asm\x01\0\0\0".to_vec(),
                types,
                section(3, functions, &[0]),
                section(10, functions, &[2, 0, 0x0b]),
            ]
            .concat()
        };
        assert!(inspect(&module(MAX_FUNCTIONS)).is_ok());
        let refused = inspect(&module(MAX_FUNCTIONS + 1)).expect_err("too many");
        assert_eq!(refused, LoadError::TooManyFunctions { limit: MAX_FUNCTIONS });
        assert!(refused.to_string().contains("more than 100000 functions"), "{refused}");
    }

    #[test]
    fn every_import_of_the_world_is_offered() {
        let (resolve, package) = super::super::encode::parse_contract().expect("the contract");
        let world = &resolve.worlds[resolve.packages[package].worlds["imports"]];
        let names = world.imports.keys().map(|key| resolve.name_world_key(key));
        let imported: BTreeSet<_> = names
            .filter_map(|name| contract_name(&name).map(|(interface, _)| interface.to_owned()))
            .collect();
        assert_eq!(imported, INTERFACES.map(str::to_owned).into());
    }
}
