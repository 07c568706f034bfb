//! Maps a change of a watched object to the keys that it queues, as controller-runtime's `handler.MapFunc` does. Pure, but for look-ups in
//! the cache of the target watch, which the caller passes in.

use pilothouse_model::hash::HashSet;
use pilothouse_model::{JsonPath, JsonPathError, Notification, Object, ObjectKey};

/// A trigger, with its paths parsed.
#[derive(Clone, Debug)]
pub(crate) enum Targets {
    /// The object itself.
    Itself,
    /// The owners of this group and kind, in any version; all of them, or only the controller.
    Owners { group: String, kind: String, namespaced: bool, only_controller: bool },
    /// The object that a label names.
    Label { key: String, namespaced: bool },
    /// The objects that a field names.
    Field { path: JsonPath, namespace_path: Option<JsonPath>, namespaced: bool },
    /// The target watch's objects that have this object's key as a value of this index.
    Index { index: String },
    /// The target watch's objects in this object's namespace, or in the namespace that the object is.
    Namespace,
}

/// Looks up keys in the cache of the target watch.
pub(crate) trait TargetKeys {
    /// Returns the keys of the objects that have a value in an index.
    fn by_index(&self, index: &str, value: &str) -> Vec<ObjectKey>;

    /// Returns the keys of the objects in a namespace.
    fn in_namespace(&self, namespace: &str) -> Vec<ObjectKey>;
}

impl Targets {
    /// Creates an owner trigger for the kind of the target watch.
    pub(crate) fn owners(api_version: &str, kind: &str, namespaced: bool, only_controller: bool) -> Self {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Self::Owners { group: group.to_owned(), kind: kind.to_owned(), namespaced, only_controller }
    }

    /// Creates a trigger for a field that names the target. Errors if a path is malformed.
    pub(crate) fn field(
        path: &str,
        namespace_path: Option<&str>,
        namespaced: bool,
    ) -> Result<Self, JsonPathError> {
        let namespace_path = namespace_path.map(JsonPath::parse).transpose()?;
        Ok(Self::Field { path: JsonPath::parse(path)?, namespace_path, namespaced })
    }

    /// Returns the keys that the change queues: those of the old and the new state on an update, those of the last state on a deletion.
    pub(crate) fn keys_for(&self, notification: &Notification, target: &dyn TargetKeys) -> Vec<ObjectKey> {
        let mut keys = self.keys_for_object(notification.object(), target);
        if let Notification::Updated { old, .. } = notification
            && !matches!(self, Self::Itself)
            && !self.searches_cache()
        {
            let old_keys = self.keys_for_object(old, target);
            // A field may name as many objects as its list has elements, so a long list is looked up in a set.
            let new_keys: Option<HashSet<ObjectKey>> =
                (keys.len() > 16).then(|| keys.iter().cloned().collect());
            let is_in_new =
                |key: &ObjectKey| new_keys.as_ref().map_or(keys.contains(key), |set| set.contains(key));
            let only_old: Vec<_> = old_keys.into_iter().filter(|key| !is_in_new(key)).collect();
            keys.extend(only_old);
        }
        keys
    }

    fn keys_for_object(&self, object: &Object, target: &dyn TargetKeys) -> Vec<ObjectKey> {
        let own_namespace = |namespaced: bool| if namespaced { object.namespace() } else { "" };
        match self {
            Self::Itself => vec![object.key().clone()],
            Self::Owners { group, kind, namespaced, only_controller } => object
                .owner_references()
                .iter()
                .filter(|owner| owner.controller || !only_controller)
                .filter(|owner| owner.group() == group && owner.kind == *kind)
                .map(|owner| ObjectKey::new(own_namespace(*namespaced), &owner.name))
                .collect(),
            Self::Label { key, namespaced } => object
                .label(key)
                .filter(|name| !name.is_empty())
                .map(|name| ObjectKey::new(own_namespace(*namespaced), &name))
                .into_iter()
                .collect(),
            Self::Field { path, namespace_path, namespaced } => {
                let namespaces = match namespace_path {
                    Some(path) if *namespaced => path.values(object),
                    _ => vec![own_namespace(*namespaced).to_owned()],
                };
                path.values(object)
                    .iter()
                    .enumerate()
                    .filter(|(_, name)| !name.is_empty())
                    .filter_map(|(position, name)| {
                        // A list of names is paired with a list of namespaces of the same length, or with one namespace.
                        let namespace = namespaces.get(position).or(namespaces.first())?;
                        Some(ObjectKey::new(namespace, name))
                    })
                    .collect()
            }
            Self::Index { index } => target.by_index(index, object.key().as_str()),
            Self::Namespace => target.in_namespace(Self::namespace_of(object)),
        }
    }

    /// Whether one change triggers as many keys as a search of the target watch's cache finds.
    pub(crate) fn searches_cache(&self) -> bool {
        matches!(self, Self::Index { .. } | Self::Namespace)
    }

    /// Returns the object's namespace, or the namespace that the object is.
    pub(crate) fn namespace_of(object: &Object) -> &str {
        match object.namespace() {
            // Only Namespaces are cluster-scoped: a load refuses other kinds.
            "" => object.name(),
            namespace => namespace,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(body: &str) -> Object {
        Object::from_json(format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","namespace":"shop"{body}}},
            "spec":{{"ref":"one","refs":[{{"n":"a","s":"x"}},{{"n":"b","s":"y"}}]}}}}"#
        ))
        .expect("an object")
    }

    fn added(body: &str) -> Notification {
        Notification::Added { object: object(body), initial: false }
    }

    struct TestKeys;

    impl TargetKeys for TestKeys {
        fn by_index(&self, index: &str, value: &str) -> Vec<ObjectKey> {
            vec![ObjectKey::new(index, &value.replace('/', "-"))]
        }

        fn in_namespace(&self, namespace: &str) -> Vec<ObjectKey> {
            vec![ObjectKey::new(namespace, "a"), ObjectKey::new(namespace, "b")]
        }
    }

    fn keys(targets: &Targets, notification: &Notification) -> Vec<String> {
        targets.keys_for(notification, &TestKeys).iter().map(ToString::to_string).collect()
    }

    const OWNERS: &str = r#","ownerReferences":[
        {"apiVersion":"example.com/v2","kind":"Foo","name":"f","uid":"1","controller":true},
        {"apiVersion":"example.com/v1","kind":"Foo","name":"g","uid":"2"},
        {"apiVersion":"other.com/v1","kind":"Foo","name":"h","uid":"3"},
        {"apiVersion":"example.com/v1","kind":"Bar","name":"i","uid":"4"}]"#;

    #[test]
    fn owners_are_matched_by_group_and_kind_in_any_version() {
        let controller = Targets::owners("example.com/v1", "Foo", true, true);
        assert_eq!(keys(&controller, &added(OWNERS)), ["shop/f"]);
        let any = Targets::owners("example.com/v1", "Foo", true, false);
        assert_eq!(keys(&any, &added(OWNERS)), ["shop/f", "shop/g"]);
        let cluster_scoped = Targets::owners("example.com/v1", "Foo", false, true);
        assert_eq!(keys(&cluster_scoped, &added(OWNERS)), ["f"]);
        assert!(keys(&controller, &added("")).is_empty());
    }

    #[test]
    fn labels_and_fields_name_objects() {
        let label = Targets::Label { key: "for".into(), namespaced: true };
        assert_eq!(keys(&label, &added(r#","labels":{"for":"web"}"#)), ["shop/web"]);
        assert!(keys(&label, &added(r#","labels":{"for":""}"#)).is_empty());
        let field = |path, namespace, namespaced| Targets::field(path, namespace, namespaced).expect("paths");
        assert_eq!(keys(&field("{.spec.ref}", None, true), &added("")), ["shop/one"]);
        assert_eq!(keys(&field("{.spec.ref}", Some("{.spec.refs[0].s}"), false), &added("")), ["one"]);
        let many = field("{.spec.refs[*].n}", Some("{.spec.refs[*].s}"), true);
        assert_eq!(keys(&many, &added("")), ["x/a", "y/b"]);
        assert!(keys(&field("{.spec.none}", None, true), &added("")).is_empty());
    }

    #[test]
    fn an_index_is_queried_with_the_objects_key() {
        assert_eq!(keys(&Targets::Index { index: "secret".into() }, &added("")), ["secret/shop-p"]);
    }

    #[test]
    fn an_object_and_its_namespace_queue_the_targets_in_the_namespace() {
        assert_eq!(keys(&Targets::Namespace, &added("")), ["shop/a", "shop/b"]);
        let updated = Notification::Updated { old: object(""), new: object("") };
        assert_eq!(keys(&Targets::Namespace, &updated), ["shop/a", "shop/b"], "each once");
        let text = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"bank"}}"#;
        let namespace = Object::from_json(text).expect("an object");
        let gone = Notification::Deleted { last: namespace, final_state_unknown: false };
        assert_eq!(keys(&Targets::Namespace, &gone), ["bank/a", "bank/b"]);
    }

    #[test]
    fn an_update_queues_each_target_of_the_old_and_new_state_once() {
        let label = Targets::Label { key: "for".into(), namespaced: true };
        let with = |name: &str| object(&format!(r#","labels":{{"for":"{name}"}}"#));
        let moved = Notification::Updated { old: with("a"), new: with("b") };
        assert_eq!(keys(&label, &moved), ["shop/b", "shop/a"]);
        let stayed = Notification::Updated { old: with("a"), new: with("a") };
        assert_eq!(keys(&label, &stayed), ["shop/a"]);
        let gone = Notification::Deleted { last: with("a"), final_state_unknown: false };
        assert_eq!(keys(&label, &gone), ["shop/a"]);
        assert_eq!(keys(&Targets::Itself, &moved), ["shop/p"]);
    }
}
