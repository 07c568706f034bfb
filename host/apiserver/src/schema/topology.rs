//! The merge topology of the built-in types (list types, map types, merge keys), which the generated schemas lack.

use serde_json::{Map, Value, json};

/// Adds the topology in `topology.txt` to the definitions of the built-in types, as the extensions that Kubernetes
/// publishes (`x-kubernetes-list-type` and others). Lists that are not in the file become atomic.
pub(super) fn annotate(definitions: &mut Map<String, Value>) {
    for line in lines() {
        let target = match line.property {
            "." => definitions.get_mut(line.definition),
            name => definitions
                .get_mut(line.definition)
                .and_then(|definition| definition.get_mut("properties")?.get_mut(name)),
        };
        let Some(schema) = target.and_then(Value::as_object_mut) else { continue };
        match line.topology {
            Topology::Default => {}
            Topology::Set => drop(schema.insert("x-kubernetes-list-type".into(), "set".into())),
            Topology::Map(keys) => {
                schema.insert("x-kubernetes-list-type".into(), "map".into());
                schema.insert("x-kubernetes-list-map-keys".into(), json!(keys));
            }
            Topology::AtomicMap => drop(schema.insert("x-kubernetes-map-type".into(), "atomic".into())),
            Topology::GranularMap => drop(schema.insert("x-kubernetes-map-type".into(), "granular".into())),
        }
        if let Some(patch) = line.patch {
            let (strategy, key) =
                patch.split_once(':').map_or((patch, None), |(strategy, key)| (strategy, Some(key)));
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

/// The topology of a field: how it merges in a server-side apply.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Topology {
    /// The default: lists are atomic, objects and maps granular.
    Default,
    /// A list whose items are identified by their value.
    Set,
    /// A list of objects with these keys.
    Map(Vec<&'static str>),
    /// An atomic object or map.
    AtomicMap,
    /// A granular object whose definition is atomic.
    GranularMap,
}

/// A line of `topology.txt`.
struct Line {
    definition: &'static str,
    /// The property, or "." for the definition itself.
    property: &'static str,
    topology: Topology,
    /// The patch strategy, followed by a colon and the merge key if there is one.
    patch: Option<&'static str>,
}

fn lines() -> impl Iterator<Item = Line> {
    include_str!("topology.txt").lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let (definition, property, topology) = (columns.next()?, columns.next()?, columns.next()?);
        let topology = match topology {
            "set" => Topology::Set,
            "atomic" => Topology::AtomicMap,
            "granular" => Topology::GranularMap,
            other => match other.strip_prefix("map=") {
                Some(keys) => Topology::Map(keys.split(',').collect()),
                None => Topology::Default,
            },
        };
        let patch = columns.next().and_then(|word| word.strip_prefix("patch="));
        Some(Line { definition, property, topology, patch })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_keys_and_list_map_keys_are_separate() {
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
    fn every_line_names_an_existing_field_and_has_an_effect() {
        let definitions = &crate::schema::definitions().schemas;
        for line in lines() {
            assert!(
                line.topology != Topology::Default || line.patch.is_some(),
                "{} {}",
                line.definition,
                line.property
            );
            if let Some(definition) = definitions.get(line.definition) {
                let exists = line.property == "." || definition["properties"].get(line.property).is_some();
                assert!(exists, "{} has no {}", line.definition, line.property);
            }
        }
    }
}
