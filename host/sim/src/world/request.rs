//! Reads what a request is about from its method and its URL. Pure.

use http::{Method, Uri};

/// What a request for objects is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectRequest {
    /// The verb, in the notation of RBAC.
    pub(super) verb: &'static str,
    pub(super) group: String,
    pub(super) plural: String,
    /// "" for the object itself.
    pub(super) subresource: String,
    /// "" for none.
    pub(super) namespace: String,
    /// "" for collections.
    pub(super) name: String,
}

impl ObjectRequest {
    /// Reads a request; `None` if it is not about objects.
    pub(super) fn parse(method: &Method, uri: &Uri) -> Option<Self> {
        let mut parts = uri.path().split('/').skip(1).filter(|part| !part.is_empty());
        let group = match parts.next()? {
            "api" => String::new(),
            "apis" => parts.next()?.to_owned(),
            _ => return None,
        };
        let _version = parts.next()?;
        let rest: Vec<_> = parts.collect();
        let mut request = Self { group, ..Self::default() };
        let object = match rest.as_slice() {
            [] => return None,
            ["namespaces", name, "status" | "finalize"] => {
                (request.plural, request.name) = ("namespaces".to_owned(), (*name).to_owned());
                request.subresource = rest[2].to_owned();
                &[][..]
            }
            ["namespaces", namespace, object @ ..] if !object.is_empty() => {
                request.namespace = (*namespace).to_owned();
                object
            }
            object => object,
        };
        if let [plural, object @ ..] = object {
            request.plural = (*plural).to_owned();
            request.name = object.first().map(|name| (*name).to_owned()).unwrap_or_default();
            request.subresource = object.get(1).map(|name| (*name).to_owned()).unwrap_or_default();
        }
        request.verb = verb(method, uri, !request.name.is_empty())?;
        Some(request)
    }

    /// Returns the resource as `plural.group`.
    pub(super) fn resource(&self) -> String {
        resource(&self.group, &self.plural)
    }

    /// Returns the resource as `plural.group`, with `/subresource`.
    pub(super) fn resource_with_subresource(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource(),
            subresource => format!("{}/{subresource}", self.resource()),
        }
    }

    /// Whether the request may change objects.
    pub(super) fn is_write(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch")
    }
}

/// Returns a resource as `plural.group`.
pub(super) fn resource(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// Returns the value of a parameter of the query, without decoding it.
pub(super) fn parameter<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    let mut parameters = uri.query()?.split('&').filter_map(|parameter| parameter.split_once('='));
    parameters.find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn verb(method: &Method, uri: &Uri, has_name: bool) -> Option<&'static str> {
    let is_watch = matches!(parameter(uri, "watch"), Some("true" | "1"));
    Some(match (method, has_name) {
        (&Method::GET, false) if is_watch => "watch",
        (&Method::GET, true) => "get",
        (&Method::GET, false) => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, true) => "delete",
        (&Method::DELETE, false) => "deletecollection",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &Method, uri: &str) -> Option<(String, String, String)> {
        let request = ObjectRequest::parse(method, &uri.parse().expect("a URI"))?;
        let key = format!("{}/{}", request.namespace, request.name);
        Some((request.verb.to_owned(), request.resource_with_subresource(), key))
    }

    fn of(verb: &str, resource: &str, key: &str) -> Option<(String, String, String)> {
        Some((verb.to_owned(), resource.to_owned(), key.to_owned()))
    }

    #[test]
    fn requests_for_objects_are_read_and_others_are_not() {
        let cases = [
            (Method::GET, "/api/v1/pods?watch=true&x=y", of("watch", "pods", "/")),
            (Method::GET, "/api/v1/namespaces/a/pods?limit=5", of("list", "pods", "a/")),
            (Method::POST, "/apis/apps/v1/namespaces/a/deployments", of("create", "deployments.apps", "a/")),
            (
                Method::PUT,
                "/apis/apps/v1/namespaces/a/deployments/d/status",
                of("update", "deployments.apps/status", "a/d"),
            ),
            (Method::DELETE, "/api/v1/namespaces/a", of("delete", "namespaces", "/a")),
            (Method::PUT, "/api/v1/namespaces/a/finalize", of("update", "namespaces/finalize", "/a")),
            (Method::DELETE, "/api/v1/namespaces/a/pods", of("deletecollection", "pods", "a/")),
            (Method::GET, "/version", None),
            (Method::GET, "/apis/apps/v1", None),
        ];
        for (method, uri, expected) in cases {
            assert_eq!(read(&method, uri), expected, "{uri}");
        }
    }
}
