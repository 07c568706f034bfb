//! Compares versions of the contract. A compatible version may add functions and methods to imported interfaces, and interfaces.
//!
//! wasmtime rejects a component whose types differ from the host's; for exported records it does so only on instantiation. A plugin
//! built against a released version must keep loading.

use std::collections::{BTreeMap, BTreeSet};

use wit_bindgen_core::wit_parser::{InterfaceId, PackageId, Resolve, WorldItem, WorldKey};

use super::signature;

/// A package and what resolves its names.
pub(super) type Package<'a> = (&'a Resolve, PackageId);

/// Returns a phrase for each breaking change from `old` to `new`.
pub(super) fn breaking_changes(old: Package<'_>, new: Package<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let present = interfaces(new);
    let exported = exports(new);
    for (name, interface) in interfaces(old) {
        match present.get(&name) {
            None => found.push(format!("the interface {name} was removed")),
            Some(new_interface) => {
                let (old_items, new_items) = (items(old.0, interface), items(new.0, *new_interface));
                found.extend(compare(&name, &old_items, &new_items, exported.contains(&name)));
            }
        }
    }
    let worlds = worlds(new);
    for (name, items) in self::worlds(old) {
        let Some(present) = worlds.get(&name) else {
            found.push(format!("the world {name} was removed"));
            continue;
        };
        let missing = items.difference(present).map(|item| format!("the world {name} lacks {item}"));
        // Existing plugins do not implement a new export.
        let added = present.difference(&items).filter(|item| item.starts_with("export"));
        found.extend(missing.chain(added.map(|item| format!("the world {name} has a new {item}"))));
    }
    found
}

/// Returns the name of everything that `new` has and `old` lacks.
pub(super) fn additions(old: Package<'_>, new: Package<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let old_interfaces = interfaces(old);
    for (name, interface) in interfaces(new) {
        let Some(old_interface) = old_interfaces.get(&name) else {
            found.push(format!("the interface {name}"));
            continue;
        };
        let (old_items, new_items) = (items(old.0, *old_interface), items(new.0, interface));
        let added = new_items.keys().filter(|item| !old_items.contains_key(*item));
        found.extend(added.map(|item| format!("{name}.{item}")));
    }
    let old_worlds = worlds(old);
    for (name, items) in worlds(new) {
        match old_worlds.get(&name) {
            None => found.push(format!("the world {name}")),
            Some(old_items) => {
                let added = items.difference(old_items);
                found.extend(added.map(|item| format!("the world {name}'s {item}")));
            }
        }
    }
    found
}

fn compare(
    interface: &str,
    old_items: &BTreeMap<String, String>,
    new_items: &BTreeMap<String, String>,
    is_exported: bool,
) -> Vec<String> {
    let mut found = Vec::new();
    for (item, old) in old_items {
        match new_items.get(item) {
            None => found.push(format!("{interface}.{item} was removed")),
            Some(new) if new != old => {
                found.push(format!("{interface}.{item} changed from `{old}` to `{new}`"));
            }
            Some(_) => {}
        }
    }
    if is_exported {
        let added = new_items.keys().filter(|item| !old_items.contains_key(*item));
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

/// Returns the imports and exports of each world, such as `export reconcile`.
fn worlds((resolve, package): Package<'_>) -> BTreeMap<String, BTreeSet<String>> {
    let describe = |direction: &str, key: &WorldKey, item: &WorldItem| match item {
        WorldItem::Interface { id, .. } => {
            format!("{direction} {}", resolve.interfaces[*id].name.clone().unwrap_or_default())
        }
        _ => format!("{direction} {}", resolve.name_world_key(key)),
    };
    let of_world = |world: &wit_bindgen_core::wit_parser::World| {
        let imports = world.imports.iter().map(|(key, item)| describe("import", key, item));
        let exports = world.exports.iter().map(|(key, item)| describe("export", key, item));
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

    /// The released contract, and one that was made from it by a replacement.
    fn packages(from: &str, to: &str) -> [(Resolve, PackageId); 2] {
        assert!(from.is_empty() || RELEASED.contains(from), "{from}");
        [RELEASED.to_owned(), RELEASED.replacen(from, to, 1)].map(|text| {
            let mut resolve = Resolve::default();
            let package = resolve.push_str("test.wit", &text).expect("WIT");
            (resolve, package)
        })
    }

    fn changed(from: &str, to: &str) -> Vec<String> {
        let [old, new] = packages(from, to);
        breaking_changes((&old.0, old.1), (&new.0, new.1))
    }

    fn added(from: &str, to: &str) -> Vec<String> {
        let [old, new] = packages(from, to);
        additions((&old.0, old.1), (&new.0, new.1))
    }

    #[test]
    fn an_unchanged_contract_is_compatible() {
        assert_eq!(changed("", ""), Vec::<String>::new());
    }

    #[test]
    fn new_imported_functions_and_new_interfaces_are_compatible() {
        let none = Vec::<String>::new();
        assert_eq!(changed("interface cache {", "interface cache { size: func() -> u32;"), none);
        let config = "interface config { get: func() -> string; } world plugin { import config;";
        assert_eq!(changed("world plugin {", config), none);
    }

    #[test]
    fn changes_that_break_existing_plugins_are_found() {
        for (from, to, expected) in [
            ("name: string }", "name: string, uid: string }", "types.key changed"),
            ("created, deleted", "created, deleted, other", "types.why changed"),
            ("watch: string, key: key", "key: key", "cache.get changed"),
            ("get: func", "read: func", "cache.get was removed"),
            (
                "interface reconcile {",
                "interface reconcile { stop: func();",
                "an interface that plugins export",
            ),
            ("export reconcile;", "export reconcile; export cache;", "has a new export cache"),
            ("import cache;", "", "lacks import cache"),
        ] {
            let found = changed(from, to);
            assert!(found.iter().any(|change| change.contains(expected)), "{from} → {to}: {found:?}");
        }
    }

    #[test]
    fn additions_are_named() {
        assert_eq!(added("", ""), Vec::<String>::new());
        assert_eq!(added("interface cache {", "interface cache { size: func() -> u32;"), ["cache.size"]);
        assert_eq!(added("record key", "record pair { key: string } record key"), ["types.pair"]);
        let config = "interface config { get: func() -> string; } world plugin { import config;";
        let expected = ["the interface config", "the world plugin's import config"];
        assert_eq!(added("world plugin {", config), expected);
        assert_eq!(added("world plugin {", "world all { import cache; } world plugin {"), ["the world all"]);
    }
}
