//! Aliases: names of the contract's functions that are identifiers in every language.
//!
//! The names of the component model, such as `[method]object.text`, cannot be written in languages whose compiler takes the names of
//! imports and exports from identifiers. The loader replaces aliases by these names.

/// The module that aliases of functions are imported from.
pub(crate) const ALIAS_MODULE: &str = "pilothouse";
/// The module that compilers import undefined functions from. Aliases have the prefix [`IDENTIFIER_PREFIX`] in it.
pub(crate) const DEFAULT_MODULE: &str = "env";
/// Begins the alias of each export, and the C name of each function and type.
pub(crate) const IDENTIFIER_PREFIX: &str = "ph_";
/// Begins the name of a post-return function. The name of the export follows, or its alias.
pub(crate) const POST_RETURN_PREFIX: &str = "cabi_post_";

/// Returns the name with `_` in place of every character that is not an ASCII letter or digit.
pub(super) fn identifier(name: &str) -> String {
    name.chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '_' }).collect()
}

/// Returns the alias of an import: the interface, `_` and the function, such as `cache_get` and `objects_object_text`. The function that
/// closes handles of the resource `R` of the interface `I` is `I_R_drop`.
pub(super) fn import_alias(interface: &str, name: &str) -> String {
    let function = if let Some(resource) = name.strip_prefix("[resource-drop]") {
        format!("{resource}_drop")
    } else if let Some(resource) = name.strip_prefix("[constructor]") {
        format!("{resource}_new")
    } else {
        let method = name.strip_prefix("[method]").or_else(|| name.strip_prefix("[static]"));
        method.unwrap_or(name).to_owned()
    };
    identifier(&format!("{interface}_{function}"))
}

/// Returns the alias of an exported function, such as `ph_describe`.
pub(super) fn export_alias(function: &str) -> String {
    format!("{IDENTIFIER_PREFIX}{}", identifier(function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_is_an_identifier() {
        for (interface, name, alias) in [
            ("cache", "get", "cache_get"),
            ("cache", "list-fields", "cache_list_fields"),
            ("objects", "[method]object.api-version", "objects_object_api_version"),
            ("objects", "[resource-drop]object", "objects_object_drop"),
            ("objects", "[static]object.parse", "objects_object_parse"),
            ("objects", "[constructor]object", "objects_object_new"),
        ] {
            assert_eq!(import_alias(interface, name), alias);
        }
        assert_eq!(export_alias("describe"), "ph_describe");
    }
}
