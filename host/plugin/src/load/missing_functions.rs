//! Detection of imported functions that this host's version of the contract does not have.
//!
//! A plugin that was built for a later compatible version may import a function that this host lacks. The engine and the encoder refuse it
//! too, but their messages do not say what to do.

use wit_parser::{Resolve, TypeDefKind};

use super::inspect::contract_name;
use super::{LoadError, encode, one_line};
use crate::contract::{PACKAGE, VERSION};

/// Errors if one of these imports, given as (interface, function), is a function that this host's version of the contract does not have.
pub(super) fn check_functions<'a>(
    imports: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<(), LoadError> {
    let (resolve, package) =
        encode::parse_contract().map_err(|error| LoadError::Internal(one_line(&error)))?;
    let mut missing = Vec::new();
    for (interface, function) in imports {
        let Some((name, _)) = contract_name(interface) else { continue };
        let Some(id) = resolve.packages[package].interfaces.get(name) else { continue };
        if !has_function(&resolve, *id, function) {
            missing.push(one_line(&format!("{interface}#{function}")));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(LoadError::UnsupportedImports {
        imports: missing.join(", "),
        offered: format!("the functions of {PACKAGE}@{VERSION}"),
        remedy: format!(
            "the plugin was built for a later version of the contract: update the host, or build for {VERSION}"
        ),
    })
}

fn has_function(resolve: &Resolve, interface: wit_parser::InterfaceId, function: &str) -> bool {
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
