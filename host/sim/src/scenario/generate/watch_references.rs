//! Generated objects name each other where the plugin looks for names: in the labels, annotations and fields by which its watches trigger.
//!
//! Without that, an object of one watch would have nothing to do with one of another, and most of a plugin's work would never be done.

use serde_json::{Map, Value};

/// Where the objects of a watch name those of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchReference {
    /// The place of the text.
    pub place: Place,
    /// What the text says of the other object.
    pub form: NameForm,
    /// The name of the other watch.
    pub watch: String,
}

/// The place of a text in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The label of this key.
    Label(String),
    /// The annotation of this key.
    Annotation(String),
    /// The field, or fields, of this JSONPath, such as `{.spec.nodes[*]}`.
    Field(String),
}

/// What a text says of another object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameForm {
    /// Its name.
    Name,
    /// Its namespace.
    Namespace,
    /// Its key: `namespace/name`, or the name of a cluster-scoped object.
    Key,
}

impl NameForm {
    /// Returns the text for an object.
    pub(super) fn text(self, namespace: &str, name: &str) -> String {
        match self {
            Self::Name => name.to_owned(),
            Self::Namespace => namespace.to_owned(),
            Self::Key if namespace.is_empty() => name.to_owned(),
            Self::Key => format!("{namespace}/{name}"),
        }
    }
}

/// A step of a path.
#[derive(Debug, PartialEq, Eq)]
enum Segment {
    Member(String),
    /// The first item of a list.
    Item,
}

impl Segment {
    fn is(&self, member: &str) -> bool {
        matches!(self, Self::Member(name) if name == member)
    }
}

/// Returns the object with the text at this place; `None` if there is no room for it. Members that are missing are created only if
/// `may_create`; labels, annotations and the last member of a path always.
pub(super) fn with_text(object: &Value, place: &Place, text: &str, may_create: bool) -> Option<Value> {
    let mut changed = object.clone();
    let metadata = |member: &str, key: &str| {
        ["metadata", member, key].map(|name| Segment::Member(name.to_owned())).into_iter().collect()
    };
    let path: Vec<Segment> = match place {
        Place::Label(key) => metadata("labels", key),
        Place::Annotation(key) => metadata("annotations", key),
        Place::Field(path) => segments(path)?,
    };
    let is_metadata = path.first().is_some_and(|first| first.is("metadata"));
    // Other metadata says which object it is, or is the server's.
    let is_map = path.len() == 3 && path.get(1).is_some_and(|map| map.is("labels") || map.is("annotations"));
    if is_metadata && !is_map {
        return None;
    }
    set(&mut changed, &path, text, may_create || is_metadata).then_some(changed)
}

/// Parses the simple form of a JSONPath: members, and lists with `[*]` or `[0]`. `None` for any other.
fn segments(path: &str) -> Option<Vec<Segment>> {
    let path = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    let mut segments = Vec::new();
    for part in path.strip_prefix('.')?.split('.') {
        let (name, items) = part.split_once('[').map_or((part, ""), |(name, _)| (name, &part[name.len()..]));
        let is_plain = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_/".contains(&byte))
        };
        if !is_plain(name) {
            return None;
        }
        segments.push(Segment::Member(name.to_owned()));
        match items {
            "" => {}
            "[*]" | "[0]" => segments.push(Segment::Item),
            _ => return None,
        }
    }
    Some(segments)
}

/// Sets a text. Replaces another text, and nothing else.
fn set(value: &mut Value, path: &[Segment], text: &str, may_create: bool) -> bool {
    let Some((segment, rest)) = path.split_first() else {
        if !(value.is_null() || value.is_string()) {
            return false;
        }
        *value = Value::from(text);
        return true;
    };
    let may_fill = may_create || rest.is_empty();
    match segment {
        Segment::Member(name) => {
            if value.is_null() && may_create {
                *value = Value::Object(Map::new());
            }
            let Value::Object(members) = value else { return false };
            if !members.contains_key(name) && !may_fill {
                return false;
            }
            set(members.entry(name.clone()).or_insert(Value::Null), rest, text, may_create)
        }
        Segment::Item => {
            if value.is_null() && may_create {
                *value = Value::Array(Vec::new());
            }
            let Value::Array(items) = value else { return false };
            if items.is_empty() {
                if !may_fill {
                    return false;
                }
                items.push(Value::Null);
            }
            items.first_mut().is_some_and(|item| set(item, rest, text, may_create))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(object: &Value, path: &str, may_create: bool) -> Option<Value> {
        with_text(object, &Place::Field(path.to_owned()), "x", may_create)
    }

    #[test]
    fn a_text_is_set_where_the_path_leads() {
        let object = json!({"spec": {"nodes": ["a", "b"], "size": 1}});
        assert_eq!(
            field(&object, "{.spec.nodes[*]}", false),
            Some(json!({"spec": {"nodes": ["x", "b"], "size": 1}}))
        );
        assert_eq!(
            field(&object, "{.spec.nodeName}", false),
            Some(json!({"spec": {"nodes": ["a", "b"], "size": 1, "nodeName": "x"}}))
        );
        assert_eq!(field(&object, "{.spec.size}", true), None, "a number is no name");
        assert_eq!(field(&object, "{.spec.volumes[*].configMap.name}", false), None);
        let created = field(&object, "{.spec.volumes[*].configMap.name}", true).expect("created");
        assert_eq!(created["spec"]["volumes"], json!([{"configMap": {"name": "x"}}]));
        for path in ["{..name}", "{.spec['a.b']}", "{.spec.nodes[1]}", "spec", "{.a\\.b}", ""] {
            assert_eq!(field(&object, path, true), None, "{path}");
        }
    }

    #[test]
    fn metadata_is_created() {
        let label = with_text(&json!({}), &Place::Label("app.io/name".to_owned()), "x", false);
        assert_eq!(label, Some(json!({"metadata": {"labels": {"app.io/name": "x"}}})));
        let path = field(&json!({"metadata": {"name": "a"}}), "{.metadata.annotations.owner}", false);
        assert_eq!(path, Some(json!({"metadata": {"name": "a", "annotations": {"owner": "x"}}})));
    }

    #[test]
    fn metadata_beside_labels_and_annotations_stays_as_it_is() {
        let object = json!({"metadata": {"name": "a"}});
        for path in ["labels", "name", "namespace", "ownerReferences[*].name", "labels.a.b", "finalizers[*]"]
        {
            assert_eq!(field(&object, &format!("{{.metadata.{path}}}"), true), None, "{path}");
        }
    }

    #[test]
    fn a_reference_is_a_name_a_namespace_or_a_key() {
        let text = |form: NameForm| (form.text("shop", "web"), form.text("", "node"));
        assert_eq!(text(NameForm::Name), ("web".to_owned(), "node".to_owned()));
        assert_eq!(text(NameForm::Namespace), ("shop".to_owned(), String::new()));
        assert_eq!(text(NameForm::Key), ("shop/web".to_owned(), "node".to_owned()));
    }
}
