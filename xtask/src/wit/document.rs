//! `docs/wit.md`: the comments of `wit/` with the signatures that they explain.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use wit_bindgen_core::wit_parser::{
    Docs, Function, InterfaceId, PackageId, Resolve, TypeDefKind, TypeId, WorldItem,
};

use super::signature;

/// Where a reader begins: what a plugin is, then what it may use.
const FIRST: [&str; 5] = ["plugin", "reconcile", "observe", "index", "types"];

/// The whole document.
///
/// # Errors
/// Names what has no comment.
pub(super) fn render(resolve: &Resolve, package: PackageId) -> Result<String> {
    let package = &resolve.packages[package];
    let mut out = format!(
        "<!-- Made by `cargo xtask wit-doc` from the comments in wit/. -->\n\n# {}\n\n",
        package.name
    );
    out.push_str(&text(&package.docs, "the package")?);
    let mut interfaces: Vec<(&String, InterfaceId)> =
        package.interfaces.iter().map(|(name, id)| (name, *id)).collect();
    let rank = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
    interfaces.sort_by(|(a, _), (b, _)| (rank(a), a).cmp(&(rank(b), b)));
    out.push_str("\n## Worlds\n");
    for (name, id) in &package.worlds {
        let world = &resolve.worlds[*id];
        let _ = write!(out, "\n### world {name}\n\n{}\n", text(&world.docs, name)?);
        let names = |items: &mut dyn Iterator<Item = &WorldItem>| {
            let names = items.filter_map(|item| match item {
                WorldItem::Interface { id, .. } => resolve.interfaces[*id].name.clone(),
                _ => None,
            });
            names.map(|name| format!("[{name}](#{name})")).collect::<Vec<_>>().join(", ")
        };
        let exports = names(&mut world.exports.values());
        if !exports.is_empty() {
            let _ = writeln!(out, "Exports: {exports}.  ");
        }
        let _ = writeln!(out, "Imports: {}.", names(&mut world.imports.values()));
    }
    for (name, id) in interfaces {
        let interface = &resolve.interfaces[id];
        let _ = write!(out, "\n## {name}\n\n{}", text(&interface.docs, name)?);
        for (type_name, id) in &interface.types {
            if is_defined_here(resolve, *id) {
                one_type(&mut out, resolve, *id, &format!("{name}.{type_name}"))?;
            }
        }
        for function in interface.functions.values().filter(|function| function.kind.resource().is_none()) {
            one_function(&mut out, resolve, function, name)?;
        }
    }
    Ok(out)
}

/// A `use` of another interface's type is no type of its own.
fn is_defined_here(resolve: &Resolve, id: TypeId) -> bool {
    !matches!(resolve.types[id].kind, TypeDefKind::Type(_))
}

fn one_type(out: &mut String, resolve: &Resolve, id: TypeId, path: &str) -> Result<()> {
    let definition = &resolve.types[id];
    let name = definition.name.as_deref().unwrap_or_default();
    let _ = write!(out, "\n### {} {name}\n\n", definition.kind.as_str());
    // A type that says everything by its members needs no sentence more.
    if let Some(docs) = &definition.docs.contents {
        let _ = writeln!(out, "{}\n", docs.trim_end());
    }
    let mut member = |name: &str, ty: String, docs: &Docs| {
        let docs = docs.contents.as_deref().unwrap_or_default().trim().replace('\n', " ");
        let _ = writeln!(out, "- `{name}{ty}`{}{docs}", if docs.is_empty() { "" } else { ": " });
    };
    match &definition.kind {
        TypeDefKind::Record(record) => {
            for field in &record.fields {
                member(&field.name, format!(": {}", signature::of(resolve, &field.ty)), &field.docs);
            }
        }
        TypeDefKind::Variant(variant) => {
            for case in &variant.cases {
                let payload = case.ty.as_ref().map(|ty| format!("({})", signature::of(resolve, ty)));
                member(&case.name, payload.unwrap_or_default(), &case.docs);
            }
        }
        TypeDefKind::Enum(cases) => {
            for case in &cases.cases {
                member(&case.name, String::new(), &case.docs);
            }
        }
        TypeDefKind::Resource => {
            let owner = definition.owner;
            let wit_bindgen_core::wit_parser::TypeOwner::Interface(interface) = owner else { return Ok(()) };
            let functions = resolve.interfaces[interface].functions.values();
            for function in functions.filter(|function| function.kind.resource() == Some(id)) {
                let docs = text(&function.docs, &format!("{path}.{}", function.item_name()))?;
                let docs = docs.trim().replace('\n', " ");
                let _ = writeln!(out, "- `{}`: {docs}", signature::function(resolve, function));
            }
        }
        _ => {}
    }
    Ok(())
}

fn one_function(out: &mut String, resolve: &Resolve, function: &Function, interface: &str) -> Result<()> {
    let docs = text(&function.docs, &format!("{interface}.{}", function.name))?;
    let _ = write!(
        out,
        "\n### {interface}.{}\n\n```wit\n{}\n```\n\n{docs}",
        function.name,
        signature::function(resolve, function)
    );
    Ok(())
}

fn text(docs: &Docs, of: &str) -> Result<String> {
    let text = docs
        .contents
        .as_deref()
        .with_context(|| format!("wit/: {of} has no comment; it is the reference"))?;
    Ok(format!("{}\n", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> Result<String> {
        let mut resolve = Resolve::default();
        let package = resolve.push_str("test.wit", text).expect("WIT");
        render(&resolve, package)
    }

    #[test]
    fn functions_types_and_worlds_are_told_with_their_comments() {
        let document = rendered(
            "/// A test.
             package test:contract@0.1.0;
             /// Plain data.
             interface types {
               /// A name.
               record key { /// Where.
                 namespace: string, name: string }
             }
             /// Reads.
             interface cache {
               use types.{key};
               /// Something.
               resource object { /// Its name.
                 name: func() -> string; }
               /// The object.
               get: func(key: key) -> option<object>;
             }
             /// All.
             world plugin { import cache; }",
        )
        .expect("a document");
        for part in [
            "# test:contract@0.1.0\n\nA test.\n",
            "### world plugin\n\nAll.\n",
            "### record key\n\nA name.\n\n- `namespace: string`: Where.\n- `name: string`\n",
            "- `name: func() -> string`: Its name.\n",
            "### cache.get\n\n```wit\nget: func(key: key) -> option<object>\n```\n\nThe object.\n",
        ] {
            assert!(document.contains(part), "{part}\n---\n{document}");
        }
        assert_eq!(document.matches("### record key").count(), 1, "a `use` is told once:\n{document}");
    }

    #[test]
    fn what_has_no_comment_is_named() {
        let text =
            "/// A test.\npackage test:contract@0.1.0;\n/// Reads.\ninterface cache { size: func() -> u32; }";
        let error = rendered(text).unwrap_err().to_string();
        assert!(error.contains("cache.size has no comment"), "{error}");
    }
}
