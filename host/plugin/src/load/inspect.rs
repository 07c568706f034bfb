//! Reads what a module or component imports and exports, without compiling it, and checks that this host can run it.

use std::collections::BTreeSet;

use wasmparser::{BinaryReaderError, Encoding, ExternalKind, Parser, Payload, TypeRef, Validator};

use super::{LoadError, export_check, features, import_check, one_line};
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
    pub(super) const CALLABLE: [Self; 3] = [Self::Reconcile, Self::Observe, Self::Index];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Reconcile => "reconcile",
            Self::Observe => "observe",
            Self::Index => "index",
        }
    }

    /// Returns the function of the interface.
    pub(super) fn function(self) -> &'static str {
        match self {
            Self::Plugin => "describe",
            Self::Reconcile => "reconcile",
            Self::Observe => "observe",
            Self::Index => "values",
        }
    }

    pub(super) fn export_name(self) -> String {
        contract::interface_name(self.name())
    }
}

/// The imports and exports of a binary.
#[derive(Debug, Default)]
pub(super) struct BinarySummary {
    /// Whether this is a component, not a core module.
    pub(super) is_component: bool,
    /// A component's imports, or the modules that a core module imports from.
    pub(super) imports: BTreeSet<String>,
    /// Module and name of each import of a core module.
    pub(super) functions: Vec<(String, String)>,
    /// Module and name of the memory that a core module imports.
    pub(super) imported_memory: Option<(String, String)>,
    /// Whether each memory of a core module has 64-bit addresses.
    pub(super) memories_64: Vec<bool>,
    /// Whether the memory that a core module exports for the contract's functions has 64-bit addresses.
    pub(super) has_64_bit_memory: bool,
    /// Whether a core module has a start function.
    pub(super) has_start_function: bool,
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

/// The names of the memory that the contract's functions use, in the two namings of core modules.
const MEMORY_NAMES: [&str; 2] = ["memory", "cm32p2_memory"];

/// Reads the binary's imports and exports, and validates it.
pub(super) fn inspect(bytes: &[u8]) -> Result<BinarySummary, LoadError> {
    let mut summary = BinarySummary::default();
    // The parser also reports the contents of nested modules and components; only the outermost level counts.
    let mut depth = 0_u32;
    let (mut functions, mut code) = (0_u32, 0_u32);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|error| invalid(bytes, &error))? {
            Payload::Version { encoding, .. } => {
                depth += 1;
                if depth == 1 {
                    summary.is_component = encoding == Encoding::Component;
                }
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
    Validator::new_with_features(features::accepted())
        .validate_all(bytes)
        .map_err(|error| features::refusal(&error).unwrap_or_else(|| invalid(bytes, &error)))?;
    Ok(summary)
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
                    let name = (import.module.to_owned(), import.name.to_owned());
                    if let TypeRef::Memory(memory) = import.ty {
                        self.memories_64.push(memory.memory64);
                        self.imported_memory.get_or_insert_with(|| name.clone());
                    }
                    self.imports.insert(import.module.to_owned());
                    self.functions.push(name);
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export?;
                    if export.kind == ExternalKind::Memory && MEMORY_NAMES.contains(&export.name) {
                        let index = usize::try_from(export.index).unwrap_or(usize::MAX);
                        self.has_64_bit_memory |= self.memories_64.get(index).is_some_and(|is_64| *is_64);
                    }
                    self.exports.insert(export.name.to_owned());
                }
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    self.memories_64.push(memory?.memory64);
                }
            }
            Payload::StartSection { .. } => self.has_start_function = true,
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

/// A name in the contract's package: `pilothouse:controller/INTERFACE@VERSION`. In a core module `#FUNCTION` may follow, or the name is
/// `cm32p2|pilothouse:controller/INTERFACE@0.1|FUNCTION`.
pub(super) struct ContractName<'a> {
    pub(super) interface: &'a str,
    pub(super) version: &'a str,
    pub(super) function: Option<&'a str>,
}

impl<'a> ContractName<'a> {
    /// Returns `None` if the name is in another package, or does not have this form.
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        let name = name.strip_prefix("cm32p2|").unwrap_or(name);
        let rest = name.strip_prefix(PACKAGE)?.strip_prefix('/')?;
        let (interface, rest) = rest.split_once('@')?;
        let (version, function) = match rest.split_once(['#', '|']) {
            Some((version, function)) => (version, Some(function)),
            None => (rest, None),
        };
        contract::is_version(version).then_some(Self { interface, version, function })
    }
}

/// Returns interface and version of a name in the contract's package.
pub(super) fn contract_name(name: &str) -> Option<(&str, &str)> {
    ContractName::parse(name).map(|name| (name.interface, name.version))
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
    if summary.has_64_bit_memory {
        return Err(features::memory_64());
    }
    export_check::check(summary)?;
    import_check::check(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_contract_has_a_version() {
        let parse =
            |name| ContractName::parse(name).map(|name| (name.interface, name.version, name.function));
        assert_eq!(parse("pilothouse:controller/cache@0.1.1"), Some(("cache", "0.1.1", None)));
        let export = "pilothouse:controller/plugin@0.2.0-rc.1#describe";
        assert_eq!(parse(export), Some(("plugin", "0.2.0-rc.1", Some("describe"))));
        let standard = "cm32p2|pilothouse:controller/plugin@0.1|describe";
        assert_eq!(parse(standard), Some(("plugin", "0.1", Some("describe"))));
        for name in [
            "pilothouse:controller/plugin@0.1.1.describe",
            "pilothouse:controller/plugin@0.1.1/describe",
            "pilothouse:controller/plugin@describe",
            "pilothouse:controller/plugin",
            "pilothouse:other/plugin@0.1.1",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }

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
}
