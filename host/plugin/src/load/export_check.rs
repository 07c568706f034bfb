//! Checks the exports of a plugin, and finds those that are probably misspelt.

use super::inspect::{BinarySummary, ContractName, Interface};
use super::similar::{has_letters_of, is_similar};
use super::{LoadError, name_text};

/// Number of unknown exports that are compared with the contract's names. A file may have millions.
const COMPARED: usize = 1000;

/// Number of exports that an error lists.
const LISTED: usize = 5;

/// Maximum number of warnings about one file.
const MAX_WARNINGS: usize = 5;

const POST_RETURN: &str = "cabi_post_";

/// The prefix of names in the standard naming of core modules.
const STANDARD: &str = "cm32p2|";

/// Errors if the file does not export what a plugin must export.
pub(super) fn check(summary: &BinarySummary) -> Result<(), LoadError> {
    if !summary.exports(Interface::Plugin) {
        return Err(not_a_plugin(summary));
    }
    if !Interface::CALLABLE.iter().any(|interface| summary.exports(*interface)) {
        return Err(LoadError::NoCallableExport { remedy: missing_callable(summary) });
    }
    if summary.is_component {
        return Ok(());
    }
    for interface in Interface::ALL {
        if summary.exports(interface) && !exports_function(summary, interface) {
            return Err(misspelt_function(summary, interface));
        }
    }
    Ok(())
}

/// Returns warnings about exports that have no effect, which is probably a mistake.
pub(super) fn warnings(summary: &BinarySummary) -> Vec<String> {
    if summary.is_component {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    let initializes = ["_initialize", "cm32p2_initialize"].iter().any(|name| summary.exports.contains(*name));
    if summary.exports.contains("_start") && !initializes && !summary.has_start_function {
        warnings.push(
            "the module exports _start, which the host never calls, so its runtime and its global variables may not be initialized: \
             build it as a library (a reactor, -mexec-model=reactor), or export that function as _initialize"
                .to_owned(),
        );
    }
    let useless = summary.exports.iter().filter_map(|name| {
        let function = function_of_post_return(name)?;
        (!summary.exports.contains(&function)).then_some((name, function))
    });
    warnings.extend(useless.take(MAX_WARNINGS).map(|(name, function)| {
        let exported = Interface::ALL.into_iter().filter(|interface| summary.exports(*interface));
        let similar =
            exported.map(|interface| wanted(summary, interface)).find(|known| resembles(&function, known));
        let hint = similar.map(|known| format!(": did you mean {}?", post_return_of(&known))).unwrap_or_default();
        format!(
            "the export {} is never called, so the memory of results is not freed: it would follow calls of {}, which is not exported{hint}",
            name_text(name),
            name_text(&function)
        )
    }));
    warnings
}

/// Returns the function whose results are freed by the function of this name.
fn function_of_post_return(name: &str) -> Option<String> {
    if let Some(function) = name.strip_prefix(POST_RETURN) {
        return Some(function.to_owned());
    }
    let function = name.strip_prefix(STANDARD)?.strip_suffix("_post")?;
    Some(format!("{STANDARD}{function}"))
}

fn post_return_of(function: &str) -> String {
    if function.starts_with(STANDARD) {
        format!("{function}_post")
    } else {
        format!("{POST_RETURN}{function}")
    }
}

/// Returns the name that the file should export for an interface: that of its function in a core module, and its own in a component.
fn wanted(summary: &BinarySummary, interface: Interface) -> String {
    let version = summary.package_version();
    let package = crate::contract::PACKAGE;
    let name = interface.name();
    if summary.is_component {
        return format!("{package}/{name}@{version}");
    }
    let function = interface.function();
    if summary.exports.iter().any(|name| name.starts_with(STANDARD)) {
        return format!("{STANDARD}{package}/{name}@{}|{function}", crate::contract::compatible_versions());
    }
    format!("{package}/{name}@{version}#{function}")
}

fn exports_function(summary: &BinarySummary, interface: Interface) -> bool {
    let names = summary.exports.iter().filter_map(|name| ContractName::parse(name));
    names
        .filter(|name| name.interface == interface.name())
        .any(|name| name.function == Some(interface.function()))
}

/// Returns whether an export was probably meant to have this name of the contract.
fn resembles(export: &str, wanted: &str) -> bool {
    if is_similar(export, wanted) {
        return true;
    }
    // The function alone, or with its interface: `describe`, `plugin_describe`.
    let Some((path, function)) = wanted.rsplit_once(['#', '|']) else { return false };
    let interface = path.rsplit('/').next().and_then(|interface| interface.split('@').next()).unwrap_or(path);
    has_letters_of(export, function) || has_letters_of(export, &format!("{interface}{function}"))
}

/// Returns the export that was probably meant to have this name.
fn similar_export<'a>(summary: &'a BinarySummary, wanted: &str) -> Option<&'a str> {
    let exports = summary.exports.iter().take(COMPARED);
    exports.map(String::as_str).find(|export| *export != wanted && resembles(export, wanted))
}

fn rename(from: &str, to: &str) -> String {
    format!("rename the export {} to {to}", name_text(from))
}

fn not_a_plugin(summary: &BinarySummary) -> LoadError {
    let wanted = wanted(summary, Interface::Plugin);
    let similar = similar_export(summary, &wanted);
    let exports = |prefix: &str| summary.exports.iter().any(|name| name.starts_with(prefix));
    let remedy = if let Some(export) = similar {
        rename(export, &wanted)
    } else if summary.exports.contains("_start") || exports("wasi:cli/run") {
        "this is a command with a main function; a plugin is a library (in Rust, crate-type cdylib)"
            .to_owned()
    } else if exports("wasi:http/incoming-handler") {
        "this is an HTTP handler".to_owned()
    } else {
        "build it with an SDK of this project, or for that world".to_owned()
    };
    LoadError::NotAPlugin { found: list(summary, similar), wanted, remedy }
}

/// Returns the first exports, with this one at the beginning.
fn list(summary: &BinarySummary, first: Option<&str>) -> String {
    let others = summary.exports.iter().map(String::as_str).filter(|name| Some(*name) != first);
    let mut names: Vec<_> = first.into_iter().chain(others).take(LISTED).map(name_text).collect();
    if summary.exports.len() > LISTED {
        names.push(format!("and {} more", summary.exports.len() - LISTED));
    }
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn missing_callable(summary: &BinarySummary) -> String {
    let names = Interface::CALLABLE.map(|interface| wanted(summary, interface));
    let similar = names.iter().find_map(|wanted| Some((similar_export(summary, wanted)?, wanted)));
    match similar {
        Some((export, wanted)) => rename(export, wanted),
        None => format!(
            "export one of {}, or build it for the world reconciler, observer or controller",
            names.join(", ")
        ),
    }
}

fn misspelt_function(summary: &BinarySummary, interface: Interface) -> LoadError {
    let wanted = wanted(summary, interface);
    let is_of_interface =
        |name: &&String| ContractName::parse(name).is_some_and(|name| name.interface == interface.name());
    let export = summary.exports.iter().find(is_of_interface).map_or("", String::as_str);
    LoadError::MisspeltExport { found: name_text(export), remedy: rename(export, &wanted), wanted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::VERSION;

    fn module(exports: &[&str]) -> BinarySummary {
        let exports = exports.iter().map(|name| name.replace("VERSION", VERSION)).collect();
        BinarySummary { exports, ..BinarySummary::default() }
    }

    const DESCRIBE: &str = "pilothouse:controller/plugin@VERSION#describe";
    const RECONCILE: &str = "pilothouse:controller/reconcile@VERSION#reconcile";

    fn refused(exports: &[&str]) -> String {
        check(&module(exports)).expect_err("refused").to_string()
    }

    #[test]
    fn a_misspelt_export_is_named_with_the_name_that_it_should_have() {
        let describe = DESCRIBE.replace("VERSION", VERSION);
        let reconcile = RECONCILE.replace("VERSION", VERSION);
        for (exports, found, wanted) in [
            (["describe", RECONCILE], "describe", &describe),
            (["plugin_describe", RECONCILE], "plugin_describe", &describe),
            (["pilothouse:controller/plugin@VERSION.describe", RECONCILE], ".describe", &describe),
            (["pilothouse:controler/plugin@VERSION#describe", RECONCILE], "controler", &describe),
            (["pilothouse:controller/plugin@VERSION#descibe", RECONCILE], "#descibe", &describe),
            ([DESCRIBE, "reconcile"], "reconcile", &reconcile),
            ([DESCRIBE, "pilothouse:controller/reconcile@VERSION#run"], "#run", &reconcile),
        ] {
            let text = refused(&exports);
            assert!(text.contains(found), "{exports:?}: {text}");
            assert!(text.ends_with(&format!("to {wanted}")), "{exports:?}: {text}");
        }
    }

    #[test]
    fn the_list_of_exports_begins_with_the_one_that_is_probably_meant() {
        let text = refused(&["a", "b", "c", "d", "e", "f", "plugin.describe"]);
        assert!(text.starts_with("exports plugin.describe, a, b, c, d, and 2 more, expected "), "{text}");
    }

    #[test]
    fn modules_with_the_standard_names_are_told_standard_names() {
        let text = refused(&[
            "cm32p2|pilothouse:controller/plugin@0.1|descibe",
            "cm32p2|pilothouse:controller/reconcile@0.1|reconcile",
        ]);
        assert!(text.ends_with("to cm32p2|pilothouse:controller/plugin@0.1|describe"), "{text}");
    }

    #[test]
    fn many_long_names_make_a_short_error() {
        let names: Vec<_> = (0..10_000).map(|number| format!("{number}{}", "x".repeat(10_000))).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert!(refused(&names).len() < 2000);
    }

    #[test]
    fn a_post_return_function_of_nothing_is_a_warning() {
        let export = format!("cabi_post_{}", RECONCILE.replace("#reconcile", "#reconcil"));
        let warnings = warnings(&module(&[DESCRIBE, RECONCILE, &export]));
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let meant = format!("did you mean cabi_post_{}?", RECONCILE.replace("VERSION", VERSION));
        assert!(warnings[0].ends_with(&meant), "{warnings:?}");
        assert!(warnings[0].contains("never called"), "{warnings:?}");
    }

    #[test]
    fn post_return_functions_of_exports_cause_no_warning() {
        let post_return = format!("cabi_post_{DESCRIBE}");
        let exports = [
            DESCRIBE,
            post_return.as_str(),
            "mine:own/thing#f",
            "cabi_post_mine:own/thing#f",
            "cm32p2|pilothouse:controller/reconcile@0.1|reconcile",
            "cm32p2|pilothouse:controller/reconcile@0.1|reconcile_post",
        ];
        assert_eq!(warnings(&module(&exports)), Vec::<String>::new());
    }

    #[test]
    fn a_start_export_that_never_runs_is_a_warning() {
        let warning = warnings(&module(&[DESCRIBE, RECONCILE, "_start"])).join("\n");
        assert!(warning.contains("_start, which the host never calls"), "{warning}");
        assert!(warning.contains("_initialize"), "{warning}");
        assert!(warnings(&module(&[DESCRIBE, RECONCILE, "_start", "_initialize"])).is_empty());
        let started = BinarySummary { has_start_function: true, ..module(&[DESCRIBE, RECONCILE, "_start"]) };
        assert!(warnings(&started).is_empty());
    }
}
