//! URL paths of the Kubernetes API.

/// What a path refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`
    GroupVersion(String, String),
    /// A collection, an object or a subresource.
    Object(ObjectPath),
    /// Anything else, such as `/version` or `/openapi/v3`.
    Other(String),
}

/// The path of a collection, an object or a subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectPath {
    pub group: String,
    pub version: String,
    pub namespace: Option<String>,
    pub plural: String,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// Whether this is a path of the deprecated form `/api/v1/watch/...`, which watches.
    pub is_watch: bool,
}

/// Parses a path.
pub(crate) fn parse(path: &str) -> Target {
    let segments: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decode).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["api"] => Target::CoreVersions,
        ["apis"] => Target::Groups,
        ["apis", group] => Target::Group((*group).into()),
        ["api", version] => Target::GroupVersion(String::new(), (*version).into()),
        ["apis", group, version] => Target::GroupVersion((*group).into(), (*version).into()),
        ["api", version, rest @ ..] => parse_object_path("", version, rest, path),
        ["apis", group, version, rest @ ..] => parse_object_path(group, version, rest, path),
        _ => Target::Other(path.trim_end_matches('/').to_owned()),
    }
}

/// Parses the segments `rest` after the group and version of `path`.
fn parse_object_path(group: &str, version: &str, rest: &[&str], path: &str) -> Target {
    let (is_watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        _ => (false, rest),
    };
    let mut object =
        ObjectPath { group: group.into(), version: version.into(), is_watch, ..ObjectPath::default() };
    let rest = match rest {
        // Subresources of a Namespace look like resources in the namespace.
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => rest,
        ["namespaces", namespace, inner @ ..] => {
            object.namespace = Some((*namespace).into());
            inner
        }
        _ => rest,
    };
    let text = |segment: &&str| Some((*segment).to_owned());
    match rest {
        [plural] => object.plural = (*plural).into(),
        [plural, name] => (object.plural, object.name) = ((*plural).into(), text(name)),
        [plural, name, sub] => {
            (object.plural, object.name, object.subresource) = ((*plural).into(), text(name), text(sub));
        }
        _ => return Target::Other(path.to_owned()),
    }
    Target::Object(object)
}

/// Decodes percent-encoding; malformed sequences stay as they are.
pub(crate) fn decode(segment: &str) -> String {
    let bytes = segment.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let hex = segment.get(index + 1..index + 3).filter(|_| bytes[index] == b'%');
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            out.push(byte);
            index += 3;
        } else {
            out.push(bytes[index]);
            index += 1;
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| segment.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(path: &str) -> ObjectPath {
        match parse(path) {
            Target::Object(found) => found,
            other => panic!("{path} is {other:?}"),
        }
    }

    #[test]
    fn objects_collections_and_subresources_are_distinguished() {
        let pods = object("/api/v1/pods");
        assert_eq!((pods.plural.as_str(), pods.namespace, pods.name), ("pods", None, None));
        let scale = object("/apis/apps/v1/namespaces/a/deployments/b/scale");
        assert_eq!((scale.group.as_str(), scale.namespace.as_deref()), ("apps", Some("a")));
        assert_eq!((scale.name.as_deref(), scale.subresource.as_deref()), (Some("b"), Some("scale")));
    }

    #[test]
    fn namespace_is_an_object_and_a_scope() {
        let namespace = object("/api/v1/namespaces/a");
        assert_eq!((namespace.plural.as_str(), namespace.name.as_deref()), ("namespaces", Some("a")));
        assert_eq!(object("/api/v1/namespaces/a/finalize").subresource.as_deref(), Some("finalize"));
        assert_eq!(object("/api/v1/namespaces/a/pods").plural, "pods");
        assert_eq!(object("/api/v1/namespaces").name, None);
    }

    #[test]
    fn names_are_percent_decoded() {
        let role = object("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode");
        assert_eq!(role.name.as_deref(), Some("system:node"));
        assert_eq!(object("/api/v1/nodes/a%").name.as_deref(), Some("a%"));
    }
}
