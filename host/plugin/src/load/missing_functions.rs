//! Detection of imported functions that this host's version of the contract does not have.
//!
//! A plugin that was built for a later compatible version may import a function that this host lacks. The engine and the encoder refuse it
//! too, but their messages do not say what to do.

use wit_parser::{InterfaceId, Resolve, TypeDefKind};

use super::inspect::contract_name;
use super::similar::most_similar;
use super::{LoadError, encode, import_check, name_text, one_line};
use crate::contract::{PACKAGE, VERSION};

/// Number of functions that an error names. A file may import thousands.
const LISTED: usize = 5;

/// Errors if one of these imports, given as (interface, function), is a function that this host's version of the contract does not have.
pub(super) fn check_functions<'a>(
    imports: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<(), LoadError> {
    let (resolve, package) =
        encode::parse_contract().map_err(|error| LoadError::Internal(one_line(&error)))?;
    let interfaces = &resolve.packages[package].interfaces;
    let (mut missing, mut count) = (Vec::new(), 0);
    for (interface, function) in imports {
        let Some((name, _)) = contract_name(interface) else { continue };
        let Some(id) = interfaces.get(name) else { continue };
        if has_function(&resolve, *id, function) {
            continue;
        }
        count += 1;
        if missing.len() < LISTED {
            let similar = similar_function(&resolve, *id, function);
            let remedy = match similar {
                Some(similar) => {
                    format!(
                        "did you mean {similar:?}? If it was built for a later version of the contract, update the host"
                    )
                }
                None => import_check::later_version(),
            };
            missing.push((name_text(&format!("{interface}#{function}")), remedy));
        }
    }
    if count == 0 {
        return Ok(());
    }
    let offered = format!("the functions of {PACKAGE}@{VERSION}");
    Err(import_check::unsupported(&missing, count, offered))
}

/// Returns the function of the interface that was probably meant, by the name that a core module imports it by.
fn similar_function(resolve: &Resolve, interface: InterfaceId, function: &str) -> Option<String> {
    let interface = &resolve.interfaces[interface];
    let is_resource = |id: &wit_parser::TypeId| matches!(resolve.types[*id].kind, TypeDefKind::Resource);
    let resources = interface.types.iter().filter(|(_, id)| is_resource(id));
    let drops: Vec<_> = resources.map(|(name, _)| format!("[resource-drop]{name}")).collect();
    let names = interface.functions.keys().chain(&drops).map(String::as_str);
    most_similar(function, names).map(str::to_owned)
}

fn has_function(resolve: &Resolve, interface: InterfaceId, function: &str) -> bool {
    let interface = &resolve.interfaces[interface];
    if interface.functions.contains_key(function) {
        return true;
    }
    // An instance that a component imports also lists its types. A core module drops resources by a function of this name.
    let function = function.strip_suffix("_drop").unwrap_or(function);
    let name = function.strip_prefix("[resource-drop]").unwrap_or(function);
    interface
        .types
        .get(name)
        .is_some_and(|id| name == function || matches!(resolve.types[*id].kind, TypeDefKind::Resource))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::interface_name;

    fn refused(interface: &str, functions: &[&str]) -> String {
        let interface = interface_name(interface);
        let imports = functions.iter().map(|function| (interface.as_str(), *function));
        check_functions(imports).expect_err("refused").to_string()
    }

    #[test]
    fn the_function_that_was_meant_is_named() {
        for (interface, function, meant) in [
            ("objects", "[method]object.txt", "[method]object.text"),
            ("objects", "object_text", "[method]object.text"),
            ("objects", "[resource-drop]objet", "[resource-drop]object"),
            ("cache", "gett", "get"),
            ("cache", "list_fields", "list-fields"),
            ("queue", "addAfter", "add-after"),
        ] {
            let text = refused(interface, &[function]);
            assert!(text.contains(&format!("#{function}, which this host")), "{text}");
            assert!(text.contains(&format!("did you mean {meant:?}?")), "{text}");
        }
    }

    #[test]
    fn a_function_that_resembles_none_is_probably_of_a_later_version() {
        let text = refused("cache", &["set-all"]);
        assert!(text.contains("later version of the contract: update the host"), "{text}");
        assert!(!text.contains("did you mean"), "{text}");
    }

    #[test]
    fn many_missing_functions_make_a_short_error() {
        let names: Vec<_> = (0..1000).map(|number| format!("{number}-{}", "x".repeat(1000))).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let text = refused("cache", &names);
        assert!(text.contains(" and 995 more, which"), "{text}");
        assert!(text.len() < 2000, "{text}");
    }
}
