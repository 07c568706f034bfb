//! Writes that create an object although their verb is not `create`, and how the host prevents that.
//!
//! A server-side apply creates an object of any kind. A PUT creates one of the kinds whose strategy has `AllowCreateOnUpdate`
//! (`Store.Update` in `k8s.io/apiserver/pkg/registry/generic/registry/store.go`), whatever `metadata.resourceVersion` it has. The API server
//! asks whether the host, or the plugin's service account, may create the object; whether the plugin may is checked here.
//!
//! No write with a `metadata.uid` creates an object: the UID is a precondition of a PUT (`defaultUpdatedObjectInfo.Preconditions` in
//! `k8s.io/apiserver/pkg/registry/rest/update.go`), and an apply with a UID needs an object (`patcher.applyPatch` in
//! `k8s.io/apiserver/pkg/endpoints/handlers/patch.go`). Without the object, both get 409.

use std::borrow::Cow;

use pilothouse_model::{ObjectKey, ResourceType};
use pilothouse_plugin::ApiError;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::LiveClient;
use super::target::TargetRequest;

/// Group and plural name of the built-in resources that a PUT creates: those whose `AllowCreateOnUpdate` is true in
/// `k8s.io/kubernetes/pkg/registry/*/*/strategy.go` of Kubernetes 1.36.
const CREATED_BY_PUT: [(&str, &str); 12] = [
    ("", "endpoints"),
    ("", "events"),
    ("", "limitranges"),
    ("", "services"),
    ("coordination.k8s.io", "leasecandidates"),
    ("coordination.k8s.io", "leases"),
    ("events.k8s.io", "events"),
    ("node.k8s.io", "runtimeclasses"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
];

/// The groups that kube-apiserver serves itself. Another group may be that of an aggregated API server, whose strategies are not known.
const BUILT_IN_GROUPS: [&str; 23] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Whether a PUT to the resource or its subresource may create an object.
pub(super) fn put_may_create(resource: &ResourceType, subresource: &str) -> bool {
    let name = (resource.group.as_str(), resource.plural.as_str());
    match subresource {
        "" => CREATED_BY_PUT.contains(&name) || !BUILT_IN_GROUPS.contains(&name.0),
        // Services have no strategy of their own for this. The other kinds in the list have no status.
        "status" => name == ("", "services"),
        _ => false,
    }
}

impl LiveClient {
    /// Returns the body of a PUT or an apply that would create the object if it did not exist. Without the verb `create`, it has the UID of the
    /// object that the plugin knows, so that it creates nothing.
    ///
    /// # Errors
    /// [`ApiError::Denied`] if the plugin may not create the object and the body cannot have its UID.
    pub(super) fn restrict_creation(
        &self,
        resource: &ResourceType,
        key: &ObjectKey,
        body: String,
    ) -> Result<String, ApiError> {
        let request = TargetRequest { verb: "create", namespace: key.namespace(), subresource: "" };
        let Err(missing) = self.check_grant_quietly(resource, request) else { return Ok(body) };
        let known = self.writer.uid(resource, key);
        with_uid(&body, &known).map(Cow::into_owned).ok_or_else(|| self.deny_and_log(missing))
    }
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Metadata {
    /// `Some(None)` for null.
    #[serde(default, deserialize_with = "present")]
    uid: Option<Option<String>>,
}

/// Reads a member that is present, possibly with the value null.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Returns the JSON with `metadata.uid`: with its own or, if it has none, with `known`. Returns `None` if both are empty, or if the text cannot
/// be changed safely: it is no JSON, it names a member twice, or its `metadata` is no object.
fn with_uid<'a>(json: &'a str, known: &str) -> Option<Cow<'a, str>> {
    let body = json.trim_start();
    let Body { metadata } = serde_json::from_str(json).ok().filter(|_| body.starts_with('{'))?;
    let own = metadata.map(|metadata| serde_json::from_str::<Metadata>(metadata.get())).transpose().ok()?;
    match own.and_then(|own| own.uid) {
        Some(Some(own)) if !own.is_empty() => return Some(Cow::Borrowed(json)),
        // The member must not appear twice.
        Some(_) => return None,
        None if known.is_empty() => return None,
        None => {}
    }
    let uid = format!("\"uid\":{}", serde_json::to_string(known).ok()?);
    let (object, member) = match metadata {
        Some(metadata) => (metadata.get(), uid),
        None => (body, format!("\"metadata\":{{{uid}}}")),
    };
    let members = object.strip_prefix('{')?;
    let start = members.as_ptr().addr() - json.as_ptr().addr();
    let separator = if members.trim_start().starts_with('}') { "" } else { "," };
    Some(Cow::Owned([&json[..start], &member, separator, &json[start..]].concat()))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
    use serde_json::{Value, json};

    use super::*;

    fn uid_of(json: &str, known: &str) -> Option<String> {
        let body = with_uid(json, known)?;
        let value: Value = serde_json::from_str(&body).expect("still JSON");
        Some(value["metadata"]["uid"].as_str().expect("a UID").to_owned())
    }

    #[test]
    fn a_body_without_a_uid_gets_that_of_the_known_object() {
        for body in [
            r#"{"metadata":{"name":"a"}}"#,
            r#" { "kind":"Lease", "metadata" : {  } , "spec":{}}"#,
            r#"{"\u006detadata":{"labels":{"uid":"x"}}}"#,
            "{}",
            r#"  {"spec":{"metadata":{}}}"#,
        ] {
            assert_eq!(uid_of(body, "u\"1").as_deref(), Some("u\"1"), "{body}");
            assert_eq!(with_uid(body, ""), None, "{body}");
        }
        for body in [r#"{"metadata":{"uid":"own"}}"#, r#"{"metadata":{"name":"a","\u0075id":"own"}}"#] {
            assert_eq!(uid_of(body, "u").as_deref(), Some("own"));
            assert_eq!(
                uid_of(body, "").as_deref(),
                Some("own"),
                "the server knows whether that is the object"
            );
        }
    }

    #[test]
    fn a_body_that_cannot_be_changed_safely_is_refused() {
        for body in [
            "metadata: {name: a}",
            "",
            "[]",
            "null",
            r#"[{"name":"a"}]"#,
            r#"{"metadata":null}"#,
            r#"{"metadata":null,"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"name":"a"},"metadata":{"uid":""}}"#,
            r#"{"metadata":{"uid":""}}"#,
            r#"{"metadata":{"uid":null}}"#,
            r#"{"metadata":{"uid":null,"uid":"u"}}"#,
            r#"{"metadata":{"uid":7}}"#,
            r#"{"metadata":[]}"#,
            r#"{"metadata":"x"}"#,
            r#"{"metadata":{}} {}"#,
        ] {
            assert_eq!(with_uid(body, "u"), None, "{body}");
        }
    }

    #[test]
    fn kinds_that_a_put_creates_are_those_of_kubernetes_and_of_other_servers() {
        let resource = |group: &str, plural: &str| ResourceType {
            group: group.into(),
            version: "v1".into(),
            kind: "Kind".into(),
            plural: plural.into(),
            namespaced: true,
        };
        for (group, plural, subresource, may_create) in [
            ("coordination.k8s.io", "leases", "", true),
            ("", "services", "", true),
            ("", "services", "status", true),
            ("", "endpoints", "", true),
            ("", "configmaps", "", false),
            ("apps", "deployments", "", false),
            ("apps", "deployments", "scale", false),
            ("example.com", "foos", "", true),
            ("example.com", "foos", "status", false),
        ] {
            assert_eq!(put_may_create(&resource(group, plural), subresource), may_create, "{group} {plural}");
        }
        assert!(CREATED_BY_PUT.is_sorted() && BUILT_IN_GROUPS.is_sorted());
        assert!(CREATED_BY_PUT.iter().all(|(group, _)| BUILT_IN_GROUPS.contains(group)));
    }

    /// A client of the embedded API server, which serves the API of kube-apiserver.
    fn embedded_server() -> kube::Client {
        kube::Client::new(pilothouse_apiserver::ApiServer::builder().build().service(), "default")
    }

    async fn groups(server: &kube::Client) -> Vec<APIGroup> {
        server.list_api_groups().await.expect("the groups").groups
    }

    #[tokio::test]
    async fn the_built_in_groups_are_those_that_the_embedded_server_serves() {
        // Both are served by a kube-apiserver with feature gates or `--runtime-config` only.
        let not_embedded = ["internal.apiserver.k8s.io", "storagemigration.k8s.io"];
        let mut groups: Vec<String> =
            groups(&embedded_server()).await.into_iter().map(|group| group.name).collect();
        groups.extend(["".to_owned()].into_iter().chain(not_embedded.map(str::to_owned)));
        groups.sort();
        assert_eq!(groups, BUILT_IN_GROUPS);
    }

    /// The server checks whether the object exists before it validates the body, so that the kinds need no valid one.
    #[tokio::test]
    async fn the_embedded_server_creates_the_same_kinds_by_put() {
        let server = embedded_server();
        let mut lists = vec![(String::new(), "v1".to_owned(), server.list_core_api_resources("v1").await)];
        for group in groups(&server).await {
            for version in group.versions {
                let list = server.list_api_group_resources(&version.group_version).await;
                lists.push((group.name.clone(), version.version, list));
            }
        }
        let mut compared = 0;
        for (group, version, list) in lists {
            for served in list.expect("the resources of a version").resources {
                if served.name.contains('/') || !served.verbs.iter().any(|verb| verb == "update") {
                    continue;
                }
                let resource = ResourceType {
                    group: group.clone(),
                    version: version.clone(),
                    kind: served.kind,
                    plural: served.name,
                    namespaced: served.namespaced,
                };
                let namespace = served.namespaced.then_some("default");
                let body = json!({
                    "apiVersion": resource.api_version(), "kind": resource.kind,
                    "metadata": {"name": "absent", "namespace": namespace},
                });
                let request = http::Request::put(format!("{}/absent", resource.url_path(namespace)))
                    .header("content-type", "application/json")
                    .body(body.to_string().into_bytes().into());
                let answer = server.send(request.expect("a request")).await.expect("an answer");
                let is_created = answer.status() != http::StatusCode::NOT_FOUND;
                assert_eq!(is_created, put_may_create(&resource, ""), "{resource:?}: {}", answer.status());
                compared += 1;
            }
        }
        assert!(compared > 50, "{compared}");
    }
}
