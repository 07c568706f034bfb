//! What a module or component imports and exports, read without compiling it.

use std::collections::BTreeSet;

use wasmparser::{BinaryReaderError, Encoding, Parser, Payload, Validator};

use super::{LoadError, PACKAGE, PACKAGE_VERSION, one_line};

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

    /// Those that the host calls when something happens; without any there is nothing that a plugin could do.
    const CALLED: [Self; 3] = [Self::Reconcile, Self::Observe, Self::Index];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Reconcile => "reconcile",
            Self::Observe => "observe",
            Self::Index => "index",
        }
    }

    pub(super) fn export_name(self) -> String {
        format!("{PACKAGE}/{}@{PACKAGE_VERSION}", self.name())
    }
}

/// The names by which a binary meets the world.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// A component's imports, or the modules that a core module imports from.
    pub(super) imports: BTreeSet<String>,
    /// Of a core module: module and name of each import.
    pub(super) functions: Vec<(String, String)>,
    /// A component's exports, or a core module's exports.
    pub(super) exports: BTreeSet<String>,
    /// A core module that says in a custom section which world it was made for.
    pub(super) has_component_type: bool,
    /// A relocatable object file, to be linked.
    pub(super) is_object_file: bool,
}

/// Components in components: tools make three or four levels. The validator's time grows with the square of the depth.
const MAX_DEPTH: u32 = 100;

/// Functions of all modules together. The largest guests there are, interpreters, have some 20,000; a compiler takes several KiB for each,
/// however short it is.
pub(super) const MAX_FUNCTIONS: u32 = 100_000;

/// Reads the binary's names and validates it.
pub(super) fn inspect(bytes: &[u8]) -> Result<Shape, LoadError> {
    let mut shape = Shape::default();
    // Nested modules and components come through the same parser: only the outermost level counts.
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
            // Counted before anything is made of them.
            Payload::FunctionSection(section) => functions = functions.saturating_add(section.count()),
            Payload::CodeSectionStart { count, .. } => code = code.saturating_add(count),
            payload if depth == 1 => shape.take(payload).map_err(|error| invalid(bytes, &error))?,
            _ => {}
        }
        if functions.max(code) > MAX_FUNCTIONS {
            return Err(LoadError::TooManyFunctions { limit: MAX_FUNCTIONS });
        }
    }
    Validator::new_with_features(features()).validate_all(bytes).map_err(|error| invalid(bytes, &error))?;
    Ok(shape)
}

fn features() -> wasmparser::WasmFeatures {
    // Everything that the parser knows: what the engine doesn't have is its own to refuse, in its own words.
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

impl Shape {
    fn take(&mut self, payload: Payload<'_>) -> Result<(), BinaryReaderError> {
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

    /// Whether an interface of the contract is exported, by a component or in one of the two ways in which core modules spell it.
    pub(super) fn exports(&self, interface: Interface) -> bool {
        self.exports.iter().filter_map(|name| contract_name(name)).any(|(name, _)| name == interface.name())
    }

    /// The version of the contract that the exports name; names that end at the minor version ("0.1") mean ours.
    pub(super) fn package_version(&self) -> &str {
        let mut versions =
            self.exports.iter().filter_map(|name| contract_name(name)).map(|(_, version)| version);
        versions.find(|version| version.matches('.').count() == 2).unwrap_or(PACKAGE_VERSION)
    }
}

/// Interface and version of a name in our package: `pilothouse:controller/INTERFACE@VERSION`, in a core module with `#FUNCTION`, or
/// `cm32p2|pilothouse:controller/INTERFACE@0.1|FUNCTION`.
pub(super) fn contract_name(name: &str) -> Option<(&str, &str)> {
    let name = name.strip_prefix("cm32p2|").unwrap_or(name);
    let rest = name.strip_prefix(PACKAGE)?.strip_prefix('/')?;
    let (interface, version) = rest.split_once('@')?;
    let version = version.split(['#', '|']).next().unwrap_or(version);
    Some((interface, version))
}

/// Refuses what can't be a plugin of this host, by its names alone.
pub(super) fn check(shape: &Shape) -> Result<(), LoadError> {
    if shape.is_object_file {
        return Err(LoadError::NotWasm {
            found: "a WebAssembly object file".to_owned(),
            remedy: "link it (`wasm-ld`, or your compiler without -c)",
        });
    }
    let names = shape.imports.iter().chain(&shape.exports);
    if let Some((_, version)) =
        names.filter_map(|name| contract_name(name)).find(|(_, version)| !is_served(version))
    {
        return Err(LoadError::WrongVersion { wanted: one_line(version), offered: PACKAGE_VERSION });
    }
    if !shape.exports(Interface::Plugin) {
        return Err(not_a_plugin(shape));
    }
    if !Interface::CALLED.iter().any(|interface| shape.exports(*interface)) {
        return Err(LoadError::NothingToCall);
    }
    check_imports(shape)
}

/// Within 0.1 newer versions only add; what a plugin needs of that and this host lacks shows when it is linked.
fn is_served(version: &str) -> bool {
    version == "0.1" || version.strip_prefix("0.1.").is_some_and(|patch| patch.parse::<u32>().is_ok())
}

fn not_a_plugin(shape: &Shape) -> LoadError {
    const SHOWN: usize = 5;
    let remedy = if shape.exports.contains("_start")
        || shape.exports.iter().any(|name| name.starts_with("wasi:cli/run"))
    {
        "this is a command with a main function; a plugin is a library (in Rust, crate-type cdylib)"
    } else if shape.exports.iter().any(|name| name.starts_with("wasi:http/incoming-handler")) {
        "this is an HTTP handler"
    } else {
        "build it with an SDK of this project, or for that world"
    };
    let mut names: Vec<_> = shape.exports.iter().take(SHOWN).map(|name| one_line(name)).collect();
    if shape.exports.len() > SHOWN {
        names.push(format!("and {} more", shape.exports.len() - SHOWN));
    }
    let found = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    LoadError::NotAPlugin { found, remedy }
}

/// What the linker holds, as a person would list it.
const OFFERED: &str = "pilothouse:controller@0.1.0 with cache, client, config, queue, events, log, metrics, objects, changes, types; and WASI 0.2 with io, clocks, random, cli, filesystem, sockets, and http/types and http/outgoing-handler";

/// The contract's own among them.
const INTERFACES: [&str; 10] =
    ["cache", "client", "config", "queue", "events", "log", "metrics", "objects", "changes", "types"];

fn check_imports(shape: &Shape) -> Result<(), LoadError> {
    let is_offered = |name: &str| match contract_name(name) {
        Some((interface, _)) => INTERFACES.contains(&interface),
        None => {
            let name = name.strip_prefix("cm32p2|").unwrap_or(name);
            ["wasi:io/", "wasi:clocks/", "wasi:random/", "wasi:cli/", "wasi:filesystem/", "wasi:sockets/"]
                .iter()
                .any(|package| name.starts_with(package))
                || name.starts_with("wasi:http/types@")
                || name.starts_with("wasi:http/outgoing-handler@")
                || is_of_the_encoder(name)
        }
    };
    let missing: Vec<_> =
        shape.imports.iter().filter(|name| !is_offered(name)).map(|name| one_line(name)).collect();
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
    Err(LoadError::NotOffered { imports: missing.join(", "), offered: OFFERED, remedy })
}

/// Modules that a core module imports from and the encoder provides: the preview 1 adapter, intrinsics on exported resources, the root of
/// the world.
fn is_of_the_encoder(module: &str) -> bool {
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
    fn a_module_of_very_many_functions_is_refused_before_it_is_compiled() {
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
    fn what_the_world_imports_is_offered_to_components_too() {
        let (resolve, package) = super::super::encode::contract().expect("the contract");
        let world = &resolve.worlds[resolve.packages[package].worlds["imports"]];
        let names = world.imports.keys().map(|key| resolve.name_world_key(key));
        let imported: BTreeSet<_> = names
            .filter_map(|name| contract_name(&name).map(|(interface, _)| interface.to_owned()))
            .collect();
        assert_eq!(imported, INTERFACES.map(str::to_owned).into());
        for interface in INTERFACES {
            assert!(OFFERED.contains(interface), "{OFFERED} does not say {interface}");
        }
    }
}
