//! The part of WASI 0.2 that a core module without a component type may import by name: `wasi:io`, clocks, randomness, `wasi:cli` and outgoing
//! HTTP.
//!
//! Files and sockets are not in it: the host's are empty, so only language runtimes import them, and those do so by WASI preview 1 or with
//! a component type.

use std::collections::{BTreeMap, BTreeSet};

/// A package of WASI.
struct Package {
    name: &'static str,
    /// What stands for the package's version in the declarations of others.
    placeholder: &'static str,
    interfaces: &'static [&'static str],
    /// The declarations without the package's name.
    wit: &'static str,
    /// The packages that the declarations use.
    uses: &'static [&'static str],
}

const IO: &str = "wasi:io";
const CLOCKS: &str = "wasi:clocks";

/// The packages. Each uses only packages before it.
static PACKAGES: [Package; 5] = [
    Package {
        name: IO,
        placeholder: "@IO.",
        interfaces: &["error", "poll", "streams"],
        wit: include_str!("io.wit"),
        uses: &[],
    },
    Package {
        name: CLOCKS,
        placeholder: "@CLOCKS.",
        interfaces: &["monotonic-clock", "wall-clock"],
        wit: include_str!("clocks.wit"),
        uses: &[IO],
    },
    Package {
        name: "wasi:random",
        placeholder: "@RANDOM.",
        interfaces: &["random", "insecure", "insecure-seed"],
        wit: include_str!("random.wit"),
        uses: &[],
    },
    Package {
        name: "wasi:cli",
        placeholder: "@CLI.",
        interfaces: &[
            "environment",
            "exit",
            "stdin",
            "stdout",
            "stderr",
            "terminal-input",
            "terminal-output",
            "terminal-stdin",
            "terminal-stdout",
            "terminal-stderr",
        ],
        wit: include_str!("cli.wit"),
        uses: &[IO],
    },
    Package {
        name: "wasi:http",
        placeholder: "@HTTP.",
        interfaces: &["types", "outgoing-handler"],
        wit: include_str!("http.wit"),
        uses: &[CLOCKS, IO],
    },
];

/// Returns the WIT of the packages that a module's imports name, and of those that they use. Each has the version that is named first; one
/// that is not named has the version of a package that uses it. A package follows those that it uses.
pub(super) fn packages(imports: &BTreeSet<String>) -> Vec<String> {
    let versions = versions(imports);
    let wit = |package: &Package| {
        let version = versions.get(package.name)?;
        let text = format!("package {}@{version};\n{}", package.name, package.wit);
        Some(PACKAGES.iter().fold(text, |text, used| match versions.get(used.name) {
            Some(version) => text.replace(used.placeholder, &format!("@{version}.")),
            None => text,
        }))
    };
    PACKAGES.iter().filter_map(wit).collect()
}

/// Returns the versions of the packages that are needed.
fn versions(imports: &BTreeSet<String>) -> BTreeMap<&'static str, &str> {
    let named = |package: &str| {
        imports.iter().find_map(|import| import.strip_prefix(package)?.strip_prefix('/')?.split_once('@'))
    };
    let mut versions = BTreeMap::new();
    for package in &PACKAGES {
        if let Some((_, version)) = named(package.name) {
            versions.insert(package.name, version);
        }
    }
    // In reverse, so that a package that is only used passes its version on.
    for package in PACKAGES.iter().rev() {
        if let Some(version) = versions.get(package.name).copied() {
            for used in package.uses {
                versions.entry(*used).or_insert(version);
            }
        }
    }
    versions
}

/// Returns those of a module's imports that [`packages`] has.
pub(super) fn interfaces(imports: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    imports.iter().map(String::as_str).filter(|name| declares(name))
}

/// Returns whether [`packages`] has an interface of this name, in any version.
pub(super) fn declares(name: &str) -> bool {
    PACKAGES.iter().any(|package| {
        let rest = name.strip_prefix(package.name).and_then(|rest| rest.strip_prefix('/'));
        let interface = rest.and_then(|rest| rest.split_once('@')).map(|(interface, _)| interface);
        interface.is_some_and(|interface| package.interfaces.contains(&interface))
    })
}

#[cfg(test)]
mod tests {
    use wit_parser::abi::{AbiVariant, WasmType};
    use wit_parser::{Resolve, SourceMap, WorldId};

    use super::*;
    use crate::{Engine, EngineOptions};

    const VERSION: &str = "0.2.6";

    fn imports(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_package_that_is_only_used_has_the_version_of_its_user() {
        let http = imports(&["wasi:http/types@0.2.3"]);
        let expected = BTreeMap::from([("wasi:http", "0.2.3"), (CLOCKS, "0.2.3"), (IO, "0.2.3")]);
        assert_eq!(versions(&http), expected);
        let stdout = imports(&["wasi:cli/stdout@0.2.6", "wasi:io/streams@0.2.0"]);
        assert_eq!(versions(&stdout), BTreeMap::from([("wasi:cli", "0.2.6"), (IO, "0.2.0")]));
        assert!(versions(&imports(&["pilothouse:controller/log@0.1.1"])).is_empty());
    }

    /// Returns a world that imports everything that this module declares.
    fn world_of_everything() -> (Resolve, WorldId) {
        let names: Vec<_> = PACKAGES
            .iter()
            .flat_map(|package| {
                let name = |interface: &&str| format!("{}/{interface}@{VERSION}", package.name);
                package.interfaces.iter().map(name).collect::<Vec<_>>()
            })
            .collect();
        let imported = imports(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let mut resolve = Resolve::default();
        let mut push = |text: &str| {
            let mut sources = SourceMap::new();
            sources.push_str("test.wit", text);
            let parsed = sources.parse().map_err(|(_, error)| error).expect("it parses");
            resolve.push_group(parsed).expect("it resolves")
        };
        for package in packages(&imported) {
            push(&package);
        }
        let lines: String = names.iter().map(|name| format!("  import {name};\n")).collect();
        let package = push(&format!("package mine:test;\nworld everything {{\n{lines}}}\n"));
        let world = resolve.select_world(&[package], Some("everything")).expect("the world");
        (resolve, world)
    }

    #[tokio::test]
    async fn every_declared_function_of_wasi_is_offered_with_the_declared_type() {
        let (resolve, world) = world_of_everything();
        let mut functions = String::new();
        for (key, item) in &resolve.worlds[world].imports {
            let wit_parser::WorldItem::Interface { id, .. } = item else { continue };
            for (name, function) in &resolve.interfaces[*id].functions {
                let signature = resolve.wasm_signature(AbiVariant::GuestImport, function);
                let types = |types: &[WasmType]| {
                    let name = |ty: &WasmType| match ty {
                        WasmType::I32 | WasmType::Pointer | WasmType::Length => " i32",
                        WasmType::I64 | WasmType::PointerOrI64 => " i64",
                        WasmType::F32 => " f32",
                        WasmType::F64 => " f64",
                    };
                    types.iter().map(name).collect::<String>()
                };
                functions.push_str(&format!(
                    "(import \"{}\" \"{name}\" (func (param{}) (result{})))\n",
                    resolve.name_world_key(key),
                    types(&signature.params),
                    types(&signature.results)
                ));
            }
        }
        assert!(functions.contains("[method]output-stream.blocking-write-and-flush"), "{functions}");
        let plugin = include_str!("../../../tests/guests/done.wat");
        let module = plugin.replacen("(module", &format!("(module {functions}"), 1);
        let module = wat::parse_str(&module).unwrap_or_else(|error| panic!("{error}"));
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        engine.load(module).await.unwrap_or_else(|error| panic!("{error}"));
    }
}
