//! Merge keys and list types of the built-in kinds, which their generated schemas lack.

use serde_json::{Map, Value, json};

/// Adds to the definitions of built-in types what `topology.txt` says of them, as the extensions with which Kubernetes
/// publishes it (`x-kubernetes-list-type` and the like). Lists that it does not name are atomic.
pub(super) fn annotate(definitions: &mut Map<String, Value>) {
    for line in lines() {
        let target = match line.property {
            "." => definitions.get_mut(line.definition),
            name => {
                definitions.get_mut(line.definition).and_then(|all| all.get_mut("properties")?.get_mut(name))
            }
        };
        let Some(schema) = target.and_then(Value::as_object_mut) else { continue };
        match line.merging {
            Merging::Default => {}
            Merging::Set => drop(schema.insert("x-kubernetes-list-type".into(), "set".into())),
            Merging::Map(keys) => {
                schema.insert("x-kubernetes-list-type".into(), "map".into());
                schema.insert("x-kubernetes-list-map-keys".into(), json!(keys));
            }
            Merging::AtomicMap => drop(schema.insert("x-kubernetes-map-type".into(), "atomic".into())),
            Merging::GranularMap => drop(schema.insert("x-kubernetes-map-type".into(), "granular".into())),
        }
        if let Some(patch) = line.patch {
            let (strategy, key) =
                patch.split_once(':').map_or((patch, None), |(left, right)| (left, Some(right)));
            schema.insert("x-kubernetes-patch-strategy".into(), strategy.into());
            if let Some(key) = key {
                schema.insert("x-kubernetes-patch-merge-key".into(), key.into());
            }
        }
    }
    for definition in definitions.values_mut() {
        let properties = definition.get_mut("properties").and_then(Value::as_object_mut);
        for schema in properties.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
            if schema.get("type").is_some_and(|ty| ty == "array") {
                schema.entry("x-kubernetes-list-type").or_insert("atomic".into());
            }
        }
    }
}

/// How a field merges under server-side apply.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Merging {
    /// Lists are atomic, objects and maps granular.
    Default,
    /// A list of scalars that are their own keys.
    Set,
    /// A list of objects with these keys.
    Map(Vec<&'static str>),
    /// An object or map that is one value.
    AtomicMap,
    /// An object whose definition is atomic elsewhere, but not here.
    GranularMap,
}

struct Line {
    definition: &'static str,
    property: &'static str,
    merging: Merging,
    patch: Option<&'static str>,
}

fn lines() -> impl Iterator<Item = Line> {
    include_str!("topology.txt").lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (definition, property, merging) = (words.next()?, words.next()?, words.next()?);
        let merging = match merging {
            "set" => Merging::Set,
            "atomic" => Merging::AtomicMap,
            "granular" => Merging::GranularMap,
            other => match other.strip_prefix("map=") {
                Some(keys) => Merging::Map(keys.split(',').collect()),
                None => Merging::Default,
            },
        };
        let patch = words.next().and_then(|word| word.strip_prefix("patch="));
        Some(Line { definition, property, merging, patch })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_knows_merge_keys_and_list_keys_apart() {
        let mut definitions = json!({
            "io.k8s.api.core.v1.Container": {"properties": {"ports": {"type": "array"}, "args": {"type": "array"}}},
            "io.k8s.api.core.v1.PodSpec": {"properties": {"volumes": {"type": "array"}}},
            "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector": {}
        });
        annotate(definitions.as_object_mut().expect("an object"));
        let of = |definition: &str, property: &str| definitions[definition]["properties"][property].clone();
        assert_eq!(
            of("io.k8s.api.core.v1.Container", "ports"),
            json!({
                "type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
                "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "containerPort"
            })
        );
        assert_eq!(
            of("io.k8s.api.core.v1.Container", "args"),
            json!({"type": "array", "x-kubernetes-list-type": "atomic"})
        );
        let volumes = of("io.k8s.api.core.v1.PodSpec", "volumes");
        assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
        let selector = &definitions["io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"];
        assert_eq!(*selector, json!({"x-kubernetes-map-type": "atomic"}));
    }

    #[test]
    fn every_line_of_the_table_names_a_field_and_says_something() {
        let definitions = &crate::schema::definitions().schemas;
        for line in lines() {
            assert!(
                line.merging != Merging::Default || line.patch.is_some(),
                "{} {}",
                line.definition,
                line.property
            );
            if let Some(definition) = definitions.get(line.definition) {
                let known = line.property == "." || definition["properties"].get(line.property).is_some();
                assert!(known, "{} has no {}", line.definition, line.property);
            }
        }
    }
}
