//! What may change in a version that was released: new functions and methods of imported interfaces, and new interfaces.
//!
//! wasmtime refuses a component whose types are not the host's, for exported records only when it is instantiated; a plugin that
//! was built last year must go on loading.

use std::collections::{BTreeMap, BTreeSet};

use wit_bindgen_core::wit_parser::{InterfaceId, PackageId, Resolve, WorldItem, WorldKey};

use super::signature;

type Package<'a> = (&'a Resolve, PackageId);

/// Every change that is not allowed, a phrase each.
pub(super) fn broken(old: Package<'_>, new: Package<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let present = interfaces(new);
    let exported = exports(new);
    for (name, interface) in interfaces(old) {
        match present.get(&name) {
            None => found.push(format!("the interface {name} is gone")),
            Some(now) => {
                let (was, is) = (items(old.0, interface), items(new.0, *now));
                found.extend(compare(&name, &was, &is, exported.contains(&name)));
            }
        }
    }
    let worlds = worlds(new);
    for (name, items) in self::worlds(old) {
        let Some(present) = worlds.get(&name) else {
            found.push(format!("the world {name} is gone"));
            continue;
        };
        let missing = items.difference(present).map(|item| format!("the world {name} lacks {item}"));
        // A world that exports more makes every plugin of it incomplete.
        let added = present.difference(&items).filter(|item| item.starts_with("export"));
        found.extend(missing.chain(added.map(|item| format!("the world {name} has a new {item}"))));
    }
    found
}

fn compare(
    interface: &str,
    was: &BTreeMap<String, String>,
    is: &BTreeMap<String, String>,
    exported: bool,
) -> Vec<String> {
    let mut found = Vec::new();
    for (item, old) in was {
        match is.get(item) {
            None => found.push(format!("{interface}.{item} is gone")),
            Some(new) if new != old => found.push(format!("{interface}.{item} was `{old}` and is `{new}`")),
            Some(_) => {}
        }
    }
    if exported {
        let added = is.keys().filter(|item| !was.contains_key(*item));
        found.extend(
            added.map(|item| format!("{interface}.{item} is new in an interface that plugins export")),
        );
    }
    found
}

fn interfaces((resolve, package): Package<'_>) -> BTreeMap<String, InterfaceId> {
    resolve.packages[package].interfaces.iter().map(|(name, id)| (name.clone(), *id)).collect()
}

fn items(resolve: &Resolve, interface: InterfaceId) -> BTreeMap<String, String> {
    let interface = &resolve.interfaces[interface];
    let types = interface.types.iter().map(|(name, id)| (name.clone(), signature::definition(resolve, *id)));
    let functions = interface
        .functions
        .iter()
        .map(|(name, function)| (name.clone(), signature::function(resolve, function)));
    types.chain(functions).collect()
}

/// What each world imports and exports: `export reconcile`.
fn worlds((resolve, package): Package<'_>) -> BTreeMap<String, BTreeSet<String>> {
    let described = |direction: &str, key: &WorldKey, item: &WorldItem| match item {
        WorldItem::Interface { id, .. } => {
            format!("{direction} {}", resolve.interfaces[*id].name.clone().unwrap_or_default())
        }
        _ => format!("{direction} {}", resolve.name_world_key(key)),
    };
    let of_world = |world: &wit_bindgen_core::wit_parser::World| {
        let imports = world.imports.iter().map(|(key, item)| described("import", key, item));
        let exports = world.exports.iter().map(|(key, item)| described("export", key, item));
        imports.chain(exports).collect()
    };
    let worlds = &resolve.packages[package].worlds;
    worlds.iter().map(|(name, id)| (name.clone(), of_world(&resolve.worlds[*id]))).collect()
}

fn exports(package: Package<'_>) -> BTreeSet<String> {
    let items = worlds(package).into_values().flatten();
    items.filter_map(|item| item.strip_prefix("export ").map(ToOwned::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASED: &str = "
        package test:contract@0.1.0;
        interface types { record key { namespace: string, name: string } enum why { created, deleted } }
        interface cache { use types.{key}; get: func(watch: string, key: key) -> option<string>; }
        interface reconcile { use types.{key}; reconcile: func(key: key) -> result<_, string>; }
        world plugin { import types; import cache; export reconcile; }
    ";

    fn changed(from: &str, to: &str) -> Vec<String> {
        let parse = |text: &str| {
            let mut resolve = Resolve::default();
            let package = resolve.push_str("test.wit", text).expect("WIT");
            (resolve, package)
        };
        let (old, new) = (parse(RELEASED), parse(&RELEASED.replacen(from, to, 1)));
        assert!(from.is_empty() || RELEASED.contains(from), "{from}");
        broken((&old.0, old.1), (&new.0, new.1))
    }

    #[test]
    fn the_same_is_compatible() {
        assert_eq!(changed("", ""), Vec::<String>::new());
    }

    #[test]
    fn a_new_function_of_an_import_and_a_new_interface_are_compatible() {
        let none = Vec::<String>::new();
        assert_eq!(changed("interface cache {", "interface cache { size: func() -> u32;"), none);
        let config = "interface config { get: func() -> string; } world plugin { import config;";
        assert_eq!(changed("world plugin {", config), none);
    }

    #[test]
    fn what_would_refuse_an_old_plugin_is_found() {
        for (from, to, complaint) in [
            ("name: string }", "name: string, uid: string }", "types.key was"),
            ("created, deleted", "created, deleted, other", "types.why was"),
            ("watch: string, key: key", "key: key", "cache.get was"),
            ("get: func", "read: func", "cache.get is gone"),
            (
                "interface reconcile {",
                "interface reconcile { stop: func();",
                "an interface that plugins export",
            ),
            ("export reconcile;", "export reconcile; export cache;", "has a new export cache"),
            ("import cache;", "", "lacks import cache"),
        ] {
            let found = changed(from, to);
            assert!(found.iter().any(|what| what.contains(complaint)), "{from} → {to}: {found:?}");
        }
    }
}
