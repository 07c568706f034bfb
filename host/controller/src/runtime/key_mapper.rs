//! Maps a change of a watched object to the keys that it queues, as controller-runtime's `handler.MapFunc` does. Pure, but for look-ups in
//! the cache of the target watch, which the caller passes in.
//!
//! One change may queue any number of keys, so they are found in pages of bounded work.

use pilothouse_model::hash::HashSet;
use pilothouse_model::{JsonPath, JsonPathError, Notification, Object, ObjectKey};
use pilothouse_plugin::{IndexCursor, IndexPage};

/// Maps a change to keys: a trigger, with its paths parsed.
#[derive(Clone, Debug)]
pub(crate) enum KeyMapper {
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

/// The maximum number of keys in a page, and of objects that a search looks at for one.
const MAX_PAGE_KEYS: usize = 512;

/// Looks up keys in the cache of the target watch.
pub(crate) trait TargetCache {
    /// Returns the keys of objects that have a value in an index, from a cursor on. Looks at no more than `step` objects.
    fn by_index(&self, index: &str, value: &str, from: &IndexCursor, step: usize) -> IndexPage<ObjectKey>;

    /// Returns the keys of objects in a namespace, from a cursor on. Looks at no more than `step` objects.
    fn in_namespace(&self, namespace: &str, from: &IndexCursor, step: usize) -> IndexPage<ObjectKey>;
}

/// The keys that a change queues, except those that [`next_page`](Self::next_page) has returned.
#[derive(Debug)]
pub(crate) enum TriggeredKeys {
    /// Keys that the object names.
    Named(std::vec::IntoIter<ObjectKey>),
    /// A search in the cache of the target watch, and where it continues; `None` at its end.
    Search(Search, Option<IndexCursor>),
}

/// What is searched in the cache of the target watch.
#[derive(Debug)]
pub(crate) enum Search {
    /// The objects that have a value in an index.
    Index { index: String, value: String },
    /// The objects in a namespace.
    Namespace(String),
}

impl TriggeredKeys {
    /// Returns the next keys, possibly none.
    pub(crate) fn next_page(&mut self, target: &dyn TargetCache) -> Vec<ObjectKey> {
        match self {
            Self::Named(keys) => keys.by_ref().take(MAX_PAGE_KEYS).collect(),
            Self::Search(search, next) => {
                let Some(from) = next.take() else { return Vec::new() };
                let page = match search {
                    Search::Index { index, value } => target.by_index(index, value, &from, MAX_PAGE_KEYS),
                    Search::Namespace(namespace) => target.in_namespace(namespace, &from, MAX_PAGE_KEYS),
                };
                *next = page.next;
                page.found
            }
        }
    }

    /// Whether there may be further keys.
    pub(crate) fn has_more(&self) -> bool {
        match self {
            Self::Named(keys) => !keys.as_slice().is_empty(),
            Self::Search(_, next) => next.is_some(),
        }
    }
}

impl KeyMapper {
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
    /// No key is named twice; a search may find one twice.
    pub(crate) fn keys_for(&self, notification: &Notification) -> TriggeredKeys {
        let object = notification.object();
        match self {
            Self::Index { index } => {
                let (index, value) = (index.clone(), object.key().as_str().to_owned());
                TriggeredKeys::Search(Search::Index { index, value }, Some(IndexCursor::default()))
            }
            Self::Namespace => {
                let search = Search::Namespace(Self::namespace_of(object).to_owned());
                TriggeredKeys::Search(search, Some(IndexCursor::default()))
            }
            _ => {
                let mut keys = self.named_by(object);
                if let Notification::Updated { old, .. } = notification
                    && !matches!(self, Self::Itself)
                {
                    keys.append(&mut self.named_by(old));
                }
                remove_repeated(&mut keys);
                TriggeredKeys::Named(keys.into_iter())
            }
        }
    }

    /// Returns the keys that an object names; none if they are searched for.
    fn named_by(&self, object: &Object) -> Vec<ObjectKey> {
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
            Self::Index { .. } | Self::Namespace => Vec::new(),
        }
    }

    /// Whether an object names its keys, which then need not be in the cache of the target watch.
    pub(crate) fn names_keys(&self) -> bool {
        matches!(self, Self::Owners { .. } | Self::Label { .. } | Self::Field { .. })
    }

    /// Whether one change may queue many keys.
    pub(crate) fn may_name_many(&self) -> bool {
        !matches!(self, Self::Itself | Self::Label { .. })
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

/// Keeps the first of equal keys.
fn remove_repeated(keys: &mut Vec<ObjectKey>) {
    match keys.len() {
        0 | 1 => {}
        // The common case: the old and the new state name the same object.
        2 => {
            if keys[0] == keys[1] {
                keys.truncate(1);
            }
        }
        _ => {
            let mut known = HashSet::default();
            keys.retain(|key| known.insert(key.clone()));
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

    struct TestCache;

    impl TargetCache for TestCache {
        fn by_index(&self, index: &str, value: &str, _: &IndexCursor, _: usize) -> IndexPage<ObjectKey> {
            IndexPage { found: vec![ObjectKey::new(index, &value.replace('/', "-"))], next: None }
        }

        /// Finds a key in each page.
        fn in_namespace(&self, namespace: &str, from: &IndexCursor, _: usize) -> IndexPage<ObjectKey> {
            let (name, next) = if from.reader == 0 { ("a", Some(1)) } else { ("b", None) };
            let next = next.map(|reader| IndexCursor { reader, ..IndexCursor::default() });
            IndexPage { found: vec![ObjectKey::new(namespace, name)], next }
        }
    }

    fn keys(mapper: &KeyMapper, notification: &Notification) -> Vec<String> {
        let mut triggered = mapper.keys_for(notification);
        let mut keys = Vec::new();
        while triggered.has_more() {
            let page = triggered.next_page(&TestCache);
            assert!(page.len() <= MAX_PAGE_KEYS);
            keys.extend(page.iter().map(ToString::to_string));
        }
        assert!(triggered.next_page(&TestCache).is_empty());
        keys
    }

    const OWNERS: &str = r#","ownerReferences":[
        {"apiVersion":"example.com/v2","kind":"Foo","name":"f","uid":"1","controller":true},
        {"apiVersion":"example.com/v1","kind":"Foo","name":"g","uid":"2"},
        {"apiVersion":"other.com/v1","kind":"Foo","name":"h","uid":"3"},
        {"apiVersion":"example.com/v1","kind":"Bar","name":"i","uid":"4"}]"#;

    #[test]
    fn owners_are_matched_by_group_and_kind_in_any_version() {
        let controller = KeyMapper::owners("example.com/v1", "Foo", true, true);
        assert_eq!(keys(&controller, &added(OWNERS)), ["shop/f"]);
        let any = KeyMapper::owners("example.com/v1", "Foo", true, false);
        assert_eq!(keys(&any, &added(OWNERS)), ["shop/f", "shop/g"]);
        let cluster_scoped = KeyMapper::owners("example.com/v1", "Foo", false, true);
        assert_eq!(keys(&cluster_scoped, &added(OWNERS)), ["f"]);
        assert!(keys(&controller, &added("")).is_empty());
    }

    #[test]
    fn labels_and_fields_name_objects() {
        let label = KeyMapper::Label { key: "for".into(), namespaced: true };
        assert_eq!(keys(&label, &added(r#","labels":{"for":"web"}"#)), ["shop/web"]);
        assert!(keys(&label, &added(r#","labels":{"for":""}"#)).is_empty());
        let field =
            |path, namespace, namespaced| KeyMapper::field(path, namespace, namespaced).expect("paths");
        assert_eq!(keys(&field("{.spec.ref}", None, true), &added("")), ["shop/one"]);
        assert_eq!(keys(&field("{.spec.ref}", Some("{.spec.refs[0].s}"), false), &added("")), ["one"]);
        let many = field("{.spec.refs[*].n}", Some("{.spec.refs[*].s}"), true);
        assert_eq!(keys(&many, &added("")), ["x/a", "y/b"]);
        assert!(keys(&field("{.spec.none}", None, true), &added("")).is_empty());
    }

    #[test]
    fn an_index_is_queried_with_the_objects_key() {
        assert_eq!(keys(&KeyMapper::Index { index: "secret".into() }, &added("")), ["secret/shop-p"]);
    }

    #[test]
    fn an_object_and_its_namespace_queue_the_targets_in_the_namespace() {
        assert_eq!(keys(&KeyMapper::Namespace, &added("")), ["shop/a", "shop/b"]);
        let updated = Notification::Updated { old: object(""), new: object("") };
        assert_eq!(keys(&KeyMapper::Namespace, &updated), ["shop/a", "shop/b"], "each once");
        let text = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"bank"}}"#;
        let namespace = Object::from_json(text).expect("an object");
        let gone = Notification::Deleted { last: namespace, final_state_unknown: false };
        assert_eq!(keys(&KeyMapper::Namespace, &gone), ["bank/a", "bank/b"]);
    }

    #[test]
    fn an_update_queues_each_target_of_the_old_and_new_state_once() {
        let label = KeyMapper::Label { key: "for".into(), namespaced: true };
        let with = |name: &str| object(&format!(r#","labels":{{"for":"{name}"}}"#));
        let moved = Notification::Updated { old: with("a"), new: with("b") };
        assert_eq!(keys(&label, &moved), ["shop/b", "shop/a"]);
        let stayed = Notification::Updated { old: with("a"), new: with("a") };
        assert_eq!(keys(&label, &stayed), ["shop/a"]);
        let gone = Notification::Deleted { last: with("a"), final_state_unknown: false };
        assert_eq!(keys(&label, &gone), ["shop/a"]);
        assert_eq!(keys(&KeyMapper::Itself, &moved), ["shop/p"]);
    }

    #[test]
    fn a_long_list_is_named_in_pages_without_repeated_names() {
        let refs: Vec<String> =
            (0..3 * MAX_PAGE_KEYS).map(|number| format!(r#""n-{}""#, number % (2 * MAX_PAGE_KEYS))).collect();
        let list = |refs: &[String]| {
            let text = format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","namespace":"shop"}},"spec":{{"refs":[{}]}}}}"#,
                refs.join(",")
            );
            Object::from_json(text).expect("an object")
        };
        let mapper = KeyMapper::field("{.spec.refs[*]}", None, true).expect("paths");
        let updated = Notification::Updated { old: list(&refs), new: list(&refs[1..]) };
        let found = keys(&mapper, &updated);
        let distinct: HashSet<&String> = found.iter().collect();
        assert_eq!((found.len(), distinct.len()), (2 * MAX_PAGE_KEYS, 2 * MAX_PAGE_KEYS));
    }
}
