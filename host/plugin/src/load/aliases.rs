//! Replacement of aliases in core modules.
//!
//! Some compilers take the names of imports and exports from identifiers, which cannot spell `pilothouse:controller/cache@0.1.1` or
//! `[method]object.text`. A module without a component type may use the aliases of the contract's functions instead: it exports
//! `ph_describe`, and imports `cache_get` from the module `pilothouse` or `ph_cache_get` from the module `env`. This pass writes the
//! import and export sections again with the names of the contract; everything after it sees only these.

use std::collections::{BTreeMap, BTreeSet};

use wasmparser::{BinaryReader, BinaryReaderError, Export, ExternalKind, Parser, Payload, TypeRef};

use super::inspect::{BinarySummary, contract_name};
use super::{LoadError, one_line};
use crate::abi::{
    ALIAS_MODULE, CoreContract, CoreFunction, DEFAULT_MODULE, IDENTIFIER_PREFIX, POST_RETURN_PREFIX,
};
use crate::contract::{PACKAGE, VERSION};

/// Returns a core module with the contract's names in place of aliases, or `None` if it has no aliases.
pub(super) fn resolve(module: &[u8], summary: &BinarySummary) -> Result<Option<Vec<u8>>, LoadError> {
    // A module with a component type was made by a toolchain that knows the contract's names. An object file is refused later.
    if summary.has_component_type || summary.is_object_file || !has_aliases(summary) {
        return Ok(None);
    }
    let contract = CoreContract::read().map_err(|error| LoadError::Internal(one_line(&error)))?;
    let names = Names::new(contract.functions(), summary.package_version());
    let imports = names.renamed_imports(&summary.functions)?;
    let invalid = |error: BinaryReaderError| LoadError::Invalid { message: one_line(&error.to_string()) };
    let exported = exported_functions(module).map_err(invalid)?;
    let exports = names.renamed_exports(&exported)?;
    if imports.is_empty() && exports.is_empty() {
        return Ok(None);
    }
    rename(module, &imports, &exports).map(Some).map_err(invalid)
}

fn has_aliases(summary: &BinarySummary) -> bool {
    let is_import = |(module, name): &(String, String)| is_import_alias(module, name);
    summary.functions.iter().any(is_import) || summary.exports.iter().any(|name| is_export_alias(name))
}

fn is_import_alias(module: &str, name: &str) -> bool {
    module == ALIAS_MODULE || (module == DEFAULT_MODULE && name.starts_with(IDENTIFIER_PREFIX))
}

fn is_export_alias(name: &str) -> bool {
    name.strip_prefix(POST_RETURN_PREFIX).unwrap_or(name).starts_with(IDENTIFIER_PREFIX)
}

/// Module and name of an import.
type ImportName = (String, String);

/// The names in the contract for all aliases, in the version that the module uses.
struct Names {
    /// By the alias in the module [`ALIAS_MODULE`].
    imports: BTreeMap<String, ImportName>,
    exports: BTreeMap<String, String>,
}

impl Names {
    fn new(functions: &[CoreFunction], version: &str) -> Self {
        let own = format!("{PACKAGE}/");
        // The module's other names may be those of a compatible version.
        let in_version = |name: &str| {
            let (before, after) = (format!("@{VERSION}"), format!("@{version}"));
            if name.contains(&own) { name.replacen(&before, &after, 1) } else { name.to_owned() }
        };
        let (mut imports, mut exports) = (BTreeMap::new(), BTreeMap::new());
        for function in functions {
            if let Some(module) = &function.module {
                imports.insert(function.alias.clone(), (in_version(module), function.name.clone()));
                continue;
            }
            exports.insert(function.alias.clone(), in_version(&function.name));
            if let Some(post_return) = &function.post_return {
                exports.insert(format!("{POST_RETURN_PREFIX}{}", function.alias), in_version(post_return));
            }
        }
        Self { imports, exports }
    }

    /// Returns the names for those imports that are aliases.
    fn renamed_imports(&self, found: &[ImportName]) -> Result<BTreeMap<ImportName, ImportName>, LoadError> {
        let mut renamed = BTreeMap::new();
        let mut taken: BTreeSet<&ImportName> =
            found.iter().filter(|(module, name)| !is_import_alias(module, name)).collect();
        for import in found.iter().filter(|(module, name)| is_import_alias(module, name)) {
            let (module, name) = import;
            let alias: &str = if module == DEFAULT_MODULE {
                name.strip_prefix(IDENTIFIER_PREFIX).unwrap_or(name)
            } else {
                name
            };
            let Some(target) = self.imports.get(alias) else {
                return Err(unknown(
                    &format!("imports `{name}` from the module {module}"),
                    alias,
                    self.imports.keys(),
                ));
            };
            if !taken.insert(target) {
                return Err(LoadError::Alias {
                    message: one_line(&format!(
                        "imports `{name}` from the module {module}, but also the same function, {} of {}, under another name or twice: \
                         import it once",
                        target.1, target.0
                    )),
                });
            }
            renamed.insert(import.clone(), target.clone());
        }
        Ok(renamed)
    }

    /// Returns the names for those exports, given with their function's number, that are aliases.
    fn renamed_exports(&self, found: &BTreeMap<&str, u32>) -> Result<BTreeMap<String, String>, LoadError> {
        let mut renamed = BTreeMap::new();
        // A module that has the contract's own names may export functions of a library whose names begin like aliases.
        let has_own_names = found.keys().any(|name| contract_name(name).is_some());
        for (name, number) in found.iter().filter(|(name, _)| is_export_alias(name)) {
            let Some(target) = self.exports.get(*name) else {
                if has_own_names {
                    continue;
                }
                return Err(unknown(&format!("exports `{name}`"), name, self.exports.keys()));
            };
            match found.get(target.as_str()) {
                None => {
                    renamed.insert((*name).to_owned(), target.clone());
                }
                // The linker exported the same function under its symbol, too.
                Some(other) if other == number => {}
                Some(_) => {
                    return Err(LoadError::Alias {
                        message: one_line(&format!(
                            "exports different functions as `{name}` and as {target}, which stand for the same function: remove one"
                        )),
                    });
                }
            }
        }
        Ok(renamed)
    }
}

/// Maximum number of aliases that a message lists.
const SHOWN: usize = 8;

/// Returns the error for a name that is no alias, with the aliases that begin most like it.
fn unknown<'a>(what: &str, alias: &str, known: impl Iterator<Item = &'a String>) -> LoadError {
    let common =
        |name: &str| name.bytes().zip(alias.bytes()).take_while(|(left, right)| left == right).count();
    let mut known: Vec<&String> = known.collect();
    // The sort is stable, so that equally good names stay in alphabetical order.
    known.sort_by_key(|name| std::cmp::Reverse(common(name)));
    let known: Vec<_> = known.into_iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    LoadError::Alias {
        message: one_line(&format!(
            "{what}, but no function of {PACKAGE}@{VERSION} has the alias `{alias}`; there are {}, …",
            known.join(", ")
        )),
    }
}

/// Returns the exported functions of a module, with their numbers.
fn exported_functions(module: &[u8]) -> Result<BTreeMap<&str, u32>, BinaryReaderError> {
    let mut functions = BTreeMap::new();
    for payload in Parser::new(0).parse_all(module) {
        if let Payload::ExportSection(section) = payload? {
            for export in section {
                let Export { name, kind, index } = export?;
                if kind == ExternalKind::Func {
                    functions.insert(name, index);
                }
            }
        }
    }
    Ok(functions)
}

/// Writes a core module again with other names of imports and exports. The module is valid.
fn rename(
    module: &[u8],
    imports: &BTreeMap<ImportName, ImportName>,
    exports: &BTreeMap<String, String>,
) -> Result<Vec<u8>, BinaryReaderError> {
    let mut renamed = header(module).to_vec();
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        let Some((id, range)) = payload.as_section() else { continue };
        let content = &module[range.clone()];
        match payload {
            Payload::ImportSection(_) => {
                push_section(id, &renamed_import_section(content, range.start, imports)?, &mut renamed);
            }
            Payload::ExportSection(_) => {
                push_section(id, &renamed_export_section(content, range.start, exports)?, &mut renamed);
            }
            _ => push_section(id, content, &mut renamed),
        }
    }
    Ok(renamed)
}

/// Returns the magic number and the version.
fn header(module: &[u8]) -> &[u8] {
    module.get(..8).unwrap_or(module)
}

fn renamed_import_section(
    content: &[u8],
    offset: usize,
    names: &BTreeMap<ImportName, ImportName>,
) -> Result<Vec<u8>, BinaryReaderError> {
    let mut reader = BinaryReader::new(content, offset);
    let count = reader.read_var_u32()?;
    let mut section = Vec::with_capacity(content.len());
    push_number(count, &mut section);
    for _ in 0..count {
        let import = (reader.read_string()?.to_owned(), reader.read_string()?.to_owned());
        let (module, name) = names.get(&import).unwrap_or(&import);
        push_string(module, &mut section);
        push_string(name, &mut section);
        let start = reader.current_position();
        reader.read::<TypeRef>()?;
        section.extend_from_slice(&content[start..reader.current_position()]);
    }
    Ok(section)
}

fn renamed_export_section(
    content: &[u8],
    offset: usize,
    names: &BTreeMap<String, String>,
) -> Result<Vec<u8>, BinaryReaderError> {
    let mut reader = BinaryReader::new(content, offset);
    let count = reader.read_var_u32()?;
    let mut section = Vec::with_capacity(content.len());
    push_number(count, &mut section);
    for _ in 0..count {
        let name = reader.read_string()?;
        push_string(names.get(name).map_or(name, String::as_str), &mut section);
        let start = reader.current_position();
        reader.read::<ExternalKind>()?;
        reader.read_var_u32()?;
        section.extend_from_slice(&content[start..reader.current_position()]);
    }
    Ok(section)
}

fn push_section(id: u8, content: &[u8], module: &mut Vec<u8>) {
    module.push(id);
    push_length(content.len(), module);
    module.extend_from_slice(content);
}

fn push_string(text: &str, section: &mut Vec<u8>) {
    push_length(text.len(), section);
    section.extend_from_slice(text.as_bytes());
}

fn push_length(length: usize, bytes: &mut Vec<u8>) {
    // The size limit of a plugin's file is far below 4 GiB, and a renamed module is a few KiB larger.
    push_number(u32::try_from(length).expect("a module is smaller than 4 GiB"), bytes);
}

/// Appends a number as unsigned LEB128.
fn push_number(mut number: u32, bytes: &mut Vec<u8>) {
    while number > 0x7f {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::super::inspect::inspect;
    use super::*;

    fn module(wat: &str) -> Vec<u8> {
        wat::parse_str(wat).expect(wat)
    }

    /// Imports and exports.
    type Interface = (Vec<ImportName>, BTreeSet<String>);

    /// Returns the imports and exports after the pass; `None` if it changed nothing.
    fn resolved(wat: &str) -> Result<Option<Interface>, LoadError> {
        let module = module(wat);
        let renamed = resolve(&module, &inspect(&module).expect("valid"))?;
        Ok(renamed.map(|renamed| {
            let summary = inspect(&renamed).expect("still valid");
            (summary.functions, summary.exports)
        }))
    }

    fn error(wat: &str) -> String {
        resolved(wat).expect_err(wat).to_string()
    }

    #[test]
    fn aliases_become_the_names_of_the_contract() {
        let own = |interface: &str| format!("{PACKAGE}/{interface}@{VERSION}");
        let (imports, exports) = resolved(
            r#"(module
                (import "pilothouse" "cache_get" (func (param i32)))
                (import "env" "ph_objects_object_text" (func))
                (import "env" "ph_objects_object_drop" (func))
                (import "env" "other" (global i32))
                (memory (export "memory") 1)
                (func $f unreachable)
                (export "ph_describe" (func $f))
                (export "cabi_post_ph_describe" (func $f))
                (export "cabi_realloc" (func $f)))"#,
        )
        .expect("aliases")
        .expect("renamed");
        let import = |module: String, name: &str| (module, name.to_owned());
        assert_eq!(
            imports,
            [
                import(own("cache"), "get"),
                import(own("objects"), "[method]object.text"),
                import(own("objects"), "[resource-drop]object"),
                import("env".to_owned(), "other"),
            ]
        );
        let describe = format!("{}#describe", own("plugin"));
        let expected =
            ["memory", "cabi_realloc", describe.as_str(), format!("cabi_post_{describe}").as_str()]
                .map(str::to_owned);
        assert_eq!(exports, BTreeSet::from(expected));
    }

    #[test]
    fn aliases_take_the_version_of_the_other_exports() {
        let version = "0.1.0";
        let wat = r#"(module
            (import "pilothouse" "cache_get" (func))
            (func $f unreachable)
            (export "ph_describe" (func $f))
            (export "pilothouse:controller/reconcile@VERSION#reconcile" (func $f)))"#;
        let (imports, exports) =
            resolved(&wat.replace("VERSION", version)).expect("aliases").expect("renamed");
        assert_eq!(imports[0].0, format!("{PACKAGE}/cache@{version}"));
        assert!(exports.contains(&format!("{PACKAGE}/plugin@{version}#describe")), "{exports:?}");
    }

    #[test]
    fn a_module_without_aliases_is_not_changed() {
        for wat in [
            r#"(module (import "env" "other" (func)) (func (export "run")))"#,
            // Made by a toolchain; `ph_describe` is a function of its own.
            r#"(module (@custom "component-type:x" "") (func (export "ph_describe")))"#,
            // `ph_free` belongs to a library.
            r#"(module (func (export "pilothouse:controller/plugin@0.1.1#describe")) (func (export "ph_free")))"#,
            // One function under its symbol and under its name.
            r#"(module (func (export "pilothouse:controller/plugin@0.1.1#describe") (export "ph_describe")))"#,
        ] {
            assert_eq!(resolved(wat), Ok(None), "{wat}");
        }
    }

    #[test]
    fn an_unknown_alias_is_refused_with_the_most_similar_ones() {
        let import = error(r#"(module (import "pilothouse" "cache_gett" (func)))"#);
        assert!(import.starts_with("imports `cache_gett` from the module pilothouse"), "{import}");
        assert!(import.contains("there are `cache_get`,"), "{import}");
        let import = error(r#"(module (import "env" "ph_object_text" (func)))"#);
        assert!(import.contains("no function") && import.contains("alias `object_text`"), "{import}");
        assert!(import.contains("`objects_object_"), "{import}");
        let export = error(r#"(module (func (export "ph_reconcil")))"#);
        assert!(export.contains("exports `ph_reconcil`") && export.contains("`ph_reconcile`"), "{export}");
    }

    #[test]
    fn two_names_for_one_function_are_refused() {
        for wat in [
            r#"(module (import "pilothouse" "cache_get" (func)) (import "env" "ph_cache_get" (func)))"#,
            r#"(module (import "pilothouse" "cache_get" (func))
                (import "pilothouse:controller/cache@0.1.1" "get" (func)))"#,
        ] {
            let error = error(wat);
            assert!(
                error.contains("get of pilothouse:controller/cache") && error.contains("import it once"),
                "{error}"
            );
        }
        let error = error(
            r#"(module (func (export "ph_describe"))
                (func (export "pilothouse:controller/plugin@0.1.1#describe") unreachable))"#,
        );
        assert!(error.contains("exports different functions as `ph_describe`"), "{error}");
    }
}
