//! Checks that this host offers what a plugin imports, and says what to do about each import that it does not offer.

use std::collections::BTreeSet;

use super::inspect::{BinarySummary, ContractName};
use super::similar::{is_similar, most_similar};
use super::{LoadError, name_text, wasi};
use crate::contract::{self, PACKAGE, VERSION};

/// The interfaces of the contract that plugins may import.
const INTERFACES: [&str; 10] =
    ["cache", "client", "config", "queue", "events", "log", "metrics", "objects", "changes", "types"];

/// The packages of WASI 0.2 that the host offers as a whole.
const WASI: [&str; 6] =
    ["wasi:io/", "wasi:clocks/", "wasi:random/", "wasi:cli/", "wasi:filesystem/", "wasi:sockets/"];

/// Number of imports that an error names. A file may have millions.
const LISTED: usize = 5;

/// Errors if the host does not offer an interface, or a module, that the file imports from.
pub(super) fn check(summary: &BinarySummary) -> Result<(), LoadError> {
    let missing = summary.imports.iter().map(String::as_str).filter(|name| !is_offered(summary, name));
    let missing: BTreeSet<_> = missing.collect();
    if missing.is_empty() {
        return Ok(());
    }
    let (mut listed, mut count) = (Vec::new(), 0);
    for (module, item) in &summary.functions {
        if !is_interface(module) && missing.contains(module.as_str()) {
            count += 1;
            if listed.len() < LISTED {
                listed.push((name_text(&format!("{module}.{item}")), item_remedy(summary, module, item)));
            }
        }
    }
    for name in missing {
        if summary.is_component || is_interface(name) {
            count += 1;
            if listed.len() < LISTED {
                listed.push((name_text(name), interface_remedy(summary, name)));
            }
        }
    }
    Err(unsupported(&listed, count, offered()))
}

/// Returns the error for these imports, of which there are `count`, with the remedy of each.
pub(super) fn unsupported(listed: &[(String, String)], count: usize, offered: String) -> LoadError {
    let mut imports = listed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    if count > listed.len() {
        imports.push_str(&format!(" and {} more", count - listed.len()));
    }
    let mut groups: Vec<(Vec<&str>, &str)> = Vec::new();
    for (name, remedy) in listed {
        match groups.iter_mut().find(|(_, known)| *known == remedy.as_str()) {
            Some((names, _)) => names.push(name.as_str()),
            None => groups.push((vec![name.as_str()], remedy.as_str())),
        }
    }
    let remedies = match &groups[..] {
        [(_, remedy)] => (*remedy).to_owned(),
        groups => {
            let texts = groups.iter().map(|(names, remedy)| format!("{}: {remedy}", names.join(", ")));
            texts.collect::<Vec<_>>().join("; ")
        }
    };
    LoadError::UnsupportedImports { imports, offered, remedy: remedies }
}

fn is_offered(summary: &BinarySummary, name: &str) -> bool {
    if let Some(name) = ContractName::parse(name) {
        return INTERFACES.contains(&name.interface);
    }
    let interface = name.strip_prefix("cm32p2|").unwrap_or(name);
    if !interface.starts_with("wasi:") {
        return is_provided_by_encoder(interface);
    }
    let is_in_0_2 = interface.split_once('@').is_some_and(|(_, version)| version.starts_with("0.2"));
    // Without a component type, the module's world contains only what the loader declares.
    let is_declared = summary.is_component || summary.has_component_type || wasi::declares(name);
    let http = ["wasi:http/types@", "wasi:http/outgoing-handler@"];
    is_in_0_2 && is_declared && WASI.iter().chain(&http).any(|prefix| interface.starts_with(prefix))
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

/// Returns whether the module of an import is an interface, whose name says enough. Of others, such as `env`, each item counts.
fn is_interface(module: &str) -> bool {
    module.contains([':', '/']) || module == "wasi_unstable"
}

/// Returns what to do about an interface that the host does not offer.
fn interface_remedy(summary: &BinarySummary, name: &str) -> String {
    let interface = name.strip_prefix("cm32p2|").unwrap_or(name);
    if let Some(similar) = similar_interface(interface) {
        return format!("did you mean {similar}?");
    }
    if ContractName::parse(name).is_some() {
        return later_version();
    }
    let remedy = if interface.starts_with(PACKAGE) {
        "its name has the form pilothouse:controller/INTERFACE@VERSION"
    } else if interface.starts_with("wasi:http/") {
        "a plugin sends HTTP requests by wasi:http/outgoing-handler of WASI 0.2 and receives none"
    } else if interface == "wasi_unstable" {
        "rebuild it with tools that target WASI 0.2 or preview 1"
    } else if WASI.iter().any(|package| interface.starts_with(package)) {
        let is_bare = !summary.is_component && !summary.has_component_type;
        if is_bare && interface.contains("@0.2") {
            "a core module without a component type gets the interfaces of WASI's io, clocks, random, cli and http; for others, import \
             WASI preview 1, or build a component"
        } else {
            "rebuild it with tools that target WASI 0.2 or preview 1"
        }
    } else {
        "remove the dependency that needs it"
    };
    remedy.to_owned()
}

/// Returns what to do about an import of the contract that this host does not have.
pub(super) fn later_version() -> String {
    format!(
        "the plugin was built for a later version of the contract: update the host, or build for {VERSION}"
    )
}

/// Returns the interface of the contract that was probably meant.
fn similar_interface(name: &str) -> Option<String> {
    let (package, interface) = match name.rsplit_once('/') {
        Some((package, interface)) => (Some(package), interface),
        None => (None, name),
    };
    if package.is_some_and(|package| !is_similar(package, PACKAGE)) {
        return None;
    }
    let interface = interface.split_once('@').map_or(interface, |(interface, _)| interface);
    most_similar(interface, INTERFACES).map(contract::interface_name)
}

/// Returns what to do about one import of a core module from a module such as `env`.
fn item_remedy(summary: &BinarySummary, module: &str, item: &str) -> String {
    let is_memory =
        summary.imported_memory.as_ref().is_some_and(|(from, name)| from == module && name == item);
    if is_memory {
        return "the module imports its memory: let it export its own as \"memory\", without --import-memory (in AssemblyScript, without --importMemory)"
            .to_owned();
    }
    if module.starts_with("wbg") || module.starts_with("__wbindgen") {
        return "the code expects a browser: build it without wasm-bindgen".to_owned();
    }
    if let Some(similar) = similar_interface(module) {
        return format!("did you mean the module {similar}?");
    }
    if module != "env" && !module.starts_with("GOT.") {
        return "the code expects another host: remove the dependency that needs it".to_owned();
    }
    env_remedy(item)
}

/// Returns what to do about an import from `env`, where compilers put what is not defined.
fn env_remedy(item: &str) -> String {
    let has_prefix = |prefixes: &[&str]| prefixes.iter().any(|prefix| item.starts_with(prefix));
    if ["abort", "trace", "seed"].contains(&item) {
        return format!(
            "compile AssemblyScript with --use {item}=FUNCTION, a function of the plugin; in other languages, define {item}"
        );
    }
    let remedy = if has_prefix(&["emscripten_", "_emscripten", "invoke_", "__syscall", "_abort_js"]) {
        "build without Emscripten (clang with wasi-sdk, or zig cc), or with its options -sSTANDALONE_WASM --no-entry"
    } else if has_prefix(&["__cxa_", "_Unwind_"]) {
        "compile C++ with -fno-exceptions"
    } else if has_prefix(&["setjmp", "longjmp", "__wasm_setjmp", "__wasm_longjmp"]) {
        "build without setjmp"
    } else if ["__indirect_function_table", "__stack_pointer", "__memory_base", "__table_base"]
        .contains(&item)
    {
        "this is a module for dynamic linking: link it statically, without -shared and -pie"
    } else {
        "link the library that defines it; if it is a function of the contract, declare the module that it is imported from"
    };
    remedy.to_owned()
}

/// Returns the imports that the linker offers, for error messages.
fn offered() -> String {
    format!(
        "{PACKAGE}@{VERSION} with {}; and WASI 0.2 with io, clocks, random, cli, filesystem, sockets, and http/types and http/outgoing-handler",
        INTERFACES.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(imports: &[(&str, &str)]) -> BinarySummary {
        BinarySummary {
            imports: imports.iter().map(|(module, _)| (*module).to_owned()).collect(),
            functions: imports
                .iter()
                .map(|(module, name)| ((*module).to_owned(), (*name).to_owned()))
                .collect(),
            ..BinarySummary::default()
        }
    }

    fn refused(summary: &BinarySummary) -> String {
        check(summary).expect_err("refused").to_string()
    }

    #[test]
    fn every_import_of_the_world_is_offered() {
        let (resolve, package) = super::super::encode::parse_contract().expect("the contract");
        let world = &resolve.worlds[resolve.packages[package].worlds["imports"]];
        let names = world.imports.keys().map(|key| resolve.name_world_key(key));
        let imported: BTreeSet<_> = names
            .filter_map(|name| ContractName::parse(&name).map(|name| name.interface.to_owned()))
            .collect();
        assert_eq!(imported, INTERFACES.map(str::to_owned).into());
    }

    #[test]
    fn each_item_of_env_is_named_with_its_remedy() {
        for (item, remedy) in [
            ("abort", "--use abort="),
            ("emscripten_notify_memory_growth", "without Emscripten"),
            ("__cxa_throw", "-fno-exceptions"),
            ("__memory_base", "link it statically"),
            ("sqrt", "link the library"),
        ] {
            let text = refused(&module(&[("env", item)]));
            assert!(text.starts_with(&format!("imports env.{item}, which this host")), "{text}");
            assert!(text.contains(remedy), "{text}");
        }
        let both = refused(&module(&[("env", "abort"), ("env", "sqrt")]));
        assert!(both.contains("env.abort: compile AssemblyScript"), "{both}");
        assert!(both.contains("; env.sqrt: link"), "{both}");
    }

    #[test]
    fn an_imported_memory_should_be_exported() {
        let memory = ("env".to_owned(), "memory".to_owned());
        let summary = BinarySummary { imported_memory: Some(memory), ..module(&[("env", "memory")]) };
        let text = refused(&summary);
        assert!(text.contains("imports env.memory") && text.contains("without --import-memory"), "{text}");
    }

    #[test]
    fn the_interface_that_was_meant_is_named() {
        for name in [
            "pilothouse:controler/cache@0.1.1",
            "pilothouse:controller/cach@0.1.1",
            "pilothouse:controller/cache",
            "pilothouse/controller/cache",
            "cm32p2|pilothouse:controller/cahe@0.1",
        ] {
            let text = refused(&module(&[(name, "get")]));
            let meant = format!("did you mean {}?", contract::interface_name("cache"));
            assert!(text.ends_with(&meant), "{name}: {text}");
        }
        let later = refused(&module(&[("pilothouse:controller/teleport@0.1.1", "go")]));
        assert!(later.contains("update the host"), "{later}");
        let bare = refused(&module(&[("cache", "get")]));
        assert!(bare.contains("imports cache.get") && bare.contains("controller/cache@"), "{bare}");
    }

    #[test]
    fn many_imports_of_wasi_make_a_short_error() {
        let names: Vec<_> = (0..1000).map(|number| format!("wasi:nn/interface-{number}@0.2.0")).collect();
        let summary = BinarySummary {
            is_component: true,
            imports: names.iter().cloned().chain(["wasi:http/incoming-handler@0.2.0".to_owned()]).collect(),
            ..BinarySummary::default()
        };
        let text = refused(&summary);
        assert!(text.contains(" and 996 more, which this host doesn't offer"), "{text}");
        assert!(text.contains("wasi:http/incoming-handler@0.2.0: a plugin sends HTTP requests"), "{text}");
        assert!(text.len() < 2000, "{text}");
    }

    #[test]
    fn wasi_is_offered_in_version_0_2_only() {
        let name = |version: &str| format!("wasi:cli/stdout@{version}");
        let component = |name: String| BinarySummary {
            is_component: true,
            imports: [name].into(),
            ..BinarySummary::default()
        };
        assert_eq!(check(&component(name("0.2.6"))), Ok(()));
        let refused = refused(&component(name("0.3.0")));
        assert!(
            refused.contains("imports wasi:cli/stdout@0.3.0") && refused.contains("WASI 0.2"),
            "{refused}"
        );
    }

    #[test]
    fn a_core_module_without_a_component_type_gets_a_part_of_wasi() {
        assert_eq!(check(&module(&[("wasi:cli/stdout@0.2.6", "get-stdout")])), Ok(()));
        let files = module(&[("wasi:filesystem/types@0.2.6", "f")]);
        assert!(refused(&files).contains("import WASI preview 1, or build a component"));
        assert_eq!(check(&BinarySummary { has_component_type: true, ..files }), Ok(()));
    }
}
