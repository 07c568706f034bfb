//! What the descriptor of a plugin says about the kinds that it reads: their roles, what may be done to them, and how they name each other.

use pilothouse_controller::descriptor::{Descriptor, Trigger, Watch};
use pilothouse_sim::scenario::generate::{NameForm, Place, Role, WatchReference, WatchedKind};
use pilothouse_sim::scenario::{KindInfo, Kinds};
use serde_json::json;

use super::super::inputs::PluginInput;

/// Returns the resources that the plugins watch. The simulation refuses a kind that it does not know.
pub(super) fn watched_resources(inputs: &[PluginInput], kinds: &Kinds) -> Vec<String> {
    let watches = inputs.iter().flat_map(|input| &input.descriptor.watches);
    let kinds = watches.filter_map(|watch| watched_kind(watch, kinds).ok());
    let mut names: Vec<String> = kinds
        .map(|watched| match watched.kind.resource.group.as_str() {
            "" => watched.kind.resource.plural.clone(),
            group => format!("{}.{group}", watched.kind.resource.plural),
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the kinds of a plugin's watches, and those that it reads from the server only. Adds what is wrong with a watch to `problems`.
pub(super) fn watched_kinds(
    plugin: &str,
    descriptor: &Descriptor,
    kinds: &Kinds,
    problems: &mut Vec<String>,
) -> Vec<WatchedKind> {
    let mut watched = Vec::new();
    for watch in &descriptor.watches {
        match watched_kind(watch, kinds) {
            Ok(kind) => watched.push(WatchedKind {
                name: name_of(plugin, &watch.name),
                references: references_of(plugin, descriptor, watch),
                writes_status: may(descriptor, &kind.kind, "status", &["update", "patch"]),
                may_delete: may_delete(descriptor),
                ..kind
            }),
            Err(problem) => problems.push(format!("watch {}: {problem}", watch.name)),
        }
    }
    watched.extend(read_live(descriptor, kinds));
    watched
}

/// Returns the kind of a watch, without what depends on the rest of the descriptor.
fn watched_kind(watch: &Watch, kinds: &Kinds) -> Result<WatchedKind, String> {
    let manifest = json!({"apiVersion": watch.api_version, "kind": watch.kind});
    let role = match watch.trigger {
        Some(Trigger::Itself) => Role::Reconciled,
        Some(Trigger::Owner { .. } | Trigger::OwnerAny { .. }) => Role::Owned,
        _ if watch.notify => Role::Reconciled,
        _ => Role::Read,
    };
    Ok(WatchedKind {
        name: watch.name.clone(),
        references: Vec::new(),
        kind: kinds.of_manifest(&manifest)?.clone(),
        role,
        label_selector: watch.label_selector.clone(),
        namespaces: watch.namespaces.clone(),
        writes_status: false,
        may_delete: false,
    })
}

/// Returns the kinds that a plugin reads from the server, and neither watches nor creates.
fn read_live(descriptor: &Descriptor, kinds: &Kinds) -> Vec<WatchedKind> {
    let is_watched = |kind: &KindInfo| {
        let (name, version) = (&kind.resource.kind, kind.resource.api_version());
        descriptor.watches.iter().any(|watch| watch.kind == *name && watch.api_version == version)
    };
    let is_read = |kind: &&KindInfo| {
        may(descriptor, kind, "", &["get", "list"])
            && !may(descriptor, kind, "", &["create"])
            && !is_watched(kind)
    };
    let watched = |kind: &KindInfo| WatchedKind {
        name: String::new(),
        kind: kind.clone(),
        role: Role::ReadLive,
        label_selector: String::new(),
        namespaces: Vec::new(),
        references: Vec::new(),
        writes_status: false,
        may_delete: false,
    };
    kinds.iter().filter(is_read).map(watched).collect()
}

/// Whether a plugin asks for the right to delete objects of any kind.
fn may_delete(descriptor: &Descriptor) -> bool {
    let is_delete = |verb: &String| ["delete", "deletecollection", "*"].contains(&verb.as_str());
    descriptor.writes.iter().any(|rule| rule.verbs.iter().any(is_delete))
}

/// Whether a plugin asks for one of these verbs on a kind, or on its subresource.
fn may(descriptor: &Descriptor, kind: &KindInfo, subresource: &str, verbs: &[&str]) -> bool {
    let names = |list: &[String], name: &str| list.iter().any(|known| known == name || known == "*");
    let plural = &kind.resource.plural;
    let resource = if subresource.is_empty() { plural.clone() } else { format!("{plural}/{subresource}") };
    descriptor.writes.iter().any(|rule| {
        names(&rule.api_groups, &kind.resource.group)
            && names(&rule.resources, &resource)
            && verbs.iter().any(|verb| names(&rule.verbs, verb))
    })
}

/// Returns the name of a watch among those of all plugins.
fn name_of(plugin: &str, watch: &str) -> String {
    format!("{plugin} {watch}")
}

/// Returns where the objects of a watch name those of other watches: in what triggers the others, and in the indexes by which others trigger
/// them.
fn references_of(plugin: &str, descriptor: &Descriptor, watch: &Watch) -> Vec<WatchReference> {
    let reference = |place: Place, form: NameForm, other: &str| WatchReference {
        place,
        form,
        watch: name_of(plugin, other),
    };
    let mut references = Vec::new();
    match &watch.trigger {
        Some(Trigger::Label { key, watch: target }) => {
            references.push(reference(Place::Label(key.clone()), NameForm::Name, target));
        }
        Some(Trigger::Field { path, namespace_path, watch: target }) => {
            references.push(reference(Place::Field(path.clone()), NameForm::Name, target));
            let namespace = namespace_path.iter();
            references.extend(
                namespace.map(|path| reference(Place::Field(path.clone()), NameForm::Namespace, target)),
            );
        }
        _ => {}
    }
    for other in &descriptor.watches {
        let Some(Trigger::Index { watch: target, index }) = &other.trigger else { continue };
        let index = watch.indexes.iter().find(|known| known.name == *index && *target == watch.name);
        let place = index.and_then(|index| {
            let label = index.label.clone().map(Place::Label);
            let annotation = index.annotation.clone().map(Place::Annotation);
            label.or(annotation).or_else(|| index.field.clone().map(Place::Field))
        });
        references.extend(place.map(|place| reference(place, NameForm::Key, &other.name)));
    }
    references
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_are_only_read_from_the_server_are_found() {
        let descriptor = Descriptor::parse(
            r#"{"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "name": "p", "version": "1.0.0",
            "watches": [{"name": "pods", "apiVersion": "v1", "kind": "Pod", "trigger": "self"}],
            "writes": [
                {"apiGroups": [""], "resources": ["pods", "secrets", "configmaps"], "verbs": ["get", "patch"]},
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}, {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]}]}"#,
        )
        .expect("a descriptor");
        let found = read_live(&descriptor, &Kinds::built_in());
        let kinds: Vec<_> = found.iter().map(|watched| watched.kind.resource.kind.as_str()).collect();
        assert_eq!(kinds, ["Secret"]);
    }

    #[test]
    fn objects_name_those_of_the_watches_that_they_trigger() {
        let descriptor = Descriptor::parse(
            r#"{"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "name": "p", "version": "1.0.0", "watches": [
            {"name": "sets", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self",
             "indexes": [{"name": "byNode", "field": "{.data.node}"}, {"name": "byOwner", "label": "owner"}]},
            {"name": "nodes", "apiVersion": "v1", "kind": "Node", "trigger": {"index": {"watch": "sets", "index": "byNode"}}},
            {"name": "secrets", "apiVersion": "v1", "kind": "Secret", "trigger": {"label": {"key": "set", "watch": "sets"}}},
            {"name": "copies", "apiVersion": "v1", "kind": "Secret", "trigger": {"field":
             {"path": "{.metadata.annotations.set}", "namespacePath": "{.metadata.annotations.in}", "watch": "sets"}}}]}"#,
        )
        .expect("a descriptor");
        let of = |name: &str| {
            let watch = descriptor.watches.iter().find(|watch| watch.name == name).expect(name);
            references_of("p", &descriptor, watch)
                .into_iter()
                .map(|WatchReference { place, form, watch }| (place, form, watch))
                .collect::<Vec<_>>()
        };
        let field = |path: &str| Place::Field(path.to_owned());
        let sets = || "p sets".to_owned();
        assert_eq!(of("sets"), [(field("{.data.node}"), NameForm::Key, "p nodes".to_owned())]);
        assert_eq!(of("nodes"), []);
        assert_eq!(of("secrets"), [(Place::Label("set".to_owned()), NameForm::Name, sets())]);
        assert_eq!(
            of("copies"),
            [
                (field("{.metadata.annotations.set}"), NameForm::Name, sets()),
                (field("{.metadata.annotations.in}"), NameForm::Namespace, sets()),
            ]
        );
    }
}
