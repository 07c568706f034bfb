//! Requests of a scenario to the embedded API server.

use std::collections::HashMap;

use http::Request;
use http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::object_reference::ObjectReference;
use super::scenario::Patch;
use crate::commands::remote::percent_encoded;

/// The field manager of patches.
const FIELD_MANAGER: &str = "pilothouse-test";

/// The API server of a scenario.
pub(super) struct Cluster {
    client: kube::Client,
    /// The resources that were found, by kind and group of references.
    resources: HashMap<(String, Option<String>), Resource>,
}

/// A kind that the API server serves.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resource {
    pub(super) kind: String,
    /// `/api/v1`, or `/apis/GROUP/VERSION`.
    root: String,
    plural: String,
    pub(super) is_namespaced: bool,
}

/// An object as the API server has it.
pub(super) enum Lookup {
    Found(Value),
    Absent,
    /// The API server does not serve the kind, at least not yet.
    NotServed,
}

impl Cluster {
    /// Returns the API server of a client.
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client, resources: HashMap::new() }
    }

    /// Returns the client.
    pub(super) fn client(&self) -> &kube::Client {
        &self.client
    }

    /// Returns an object.
    ///
    /// # Errors
    /// Errors with one line if the reference is ambiguous, or the API server refuses the request.
    pub(super) async fn get(&mut self, object: &ObjectReference) -> Result<Lookup, String> {
        let Some(resource) = self.resource(object).await? else { return Ok(Lookup::NotServed) };
        let path = resource.path_of(object)?;
        Ok(self.get_if_present(&path).await?.map_or(Lookup::Absent, Lookup::Found))
    }

    /// Sends a merge patch. Returns whether the kind is served.
    ///
    /// # Errors
    /// Errors with one line if the API server refuses the patch, for example because there is no such object.
    pub(super) async fn patch(&mut self, patch: &Patch) -> Result<bool, String> {
        let Some(resource) = self.resource(&patch.object).await? else { return Ok(false) };
        let mut path = resource.path_of(&patch.object)?;
        if let Some(subresource) = &patch.subresource {
            path.push('/');
            path.push_str(subresource);
        }
        let request = Request::patch(format!("{path}?fieldManager={FIELD_MANAGER}"))
            .header(CONTENT_TYPE, "application/merge-patch+json")
            .body(Value::Object(patch.merge.clone()).to_string().into_bytes());
        self.send::<Value>(request).await?;
        Ok(true)
    }

    /// Deletes the object with this UID, and what it owns in the background.
    ///
    /// # Errors
    /// Errors with one line if the API server refuses the request.
    pub(super) async fn delete(&mut self, object: &ObjectReference, uid: &str) -> Result<(), String> {
        let Some(resource) = self.resource(object).await? else { return Ok(()) };
        let options = serde_json::json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": {"uid": uid},
        });
        let request = Request::delete(resource.path_of(object)?)
            .header(CONTENT_TYPE, "application/json")
            .body(options.to_string().into_bytes());
        self.send::<Value>(request).await?;
        Ok(())
    }

    /// Returns all Events, in the form of `events.k8s.io/v1`.
    ///
    /// # Errors
    /// Errors with one line if the API server refuses the request.
    pub(super) async fn events(&self) -> Result<Vec<Value>, String> {
        let request = Request::get("/apis/events.k8s.io/v1/events").body(Vec::new());
        let mut list: Map<String, Value> = self.send(request).await?;
        match list.remove("items") {
            Some(Value::Array(items)) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the resource of a reference; `None` if it is not served.
    ///
    /// # Errors
    /// Errors with one line if several groups serve the kind.
    pub(super) async fn resource(&mut self, object: &ObjectReference) -> Result<Option<Resource>, String> {
        let key = (object.kind.clone(), object.group.clone());
        if let Some(known) = self.resources.get(&key) {
            return Ok(Some(known.clone()));
        }
        let found = self.find_resource(object).await?;
        if let Some(found) = &found {
            self.resources.insert(key, found.clone());
        }
        Ok(found)
    }

    async fn find_resource(&self, object: &ObjectReference) -> Result<Option<Resource>, String> {
        // A built-in kind of the core group comes before a kind of the same name in another group, as for kubectl.
        if object.group.is_none()
            && let Some(found) = self.resource_in("/api/v1", object).await?
        {
            return Ok(Some(found));
        }
        let groups = self.get_if_present("/apis").await?.unwrap_or_default();
        let mut found: Vec<(&str, Resource)> = Vec::new();
        for group in groups["groups"].as_array().into_iter().flatten() {
            let name = group["name"].as_str().unwrap_or_default();
            if object.group.as_deref().is_some_and(|wanted| wanted != name) {
                continue;
            }
            // The preferred version comes first.
            for version in group["versions"].as_array().into_iter().flatten() {
                let root = format!("/apis/{}", version["groupVersion"].as_str().unwrap_or_default());
                if let Some(resource) = self.resource_in(&root, object).await? {
                    found.push((name, resource));
                    break;
                }
            }
        }
        if found.len() > 1 {
            let groups: Vec<_> = found.iter().map(|(group, _)| *group).collect();
            return Err(format!(
                "several groups serve {}: {}; write the group, as in {}.{}/{}",
                object.kind,
                groups.join(", "),
                object.kind,
                groups[0],
                object.name
            ));
        }
        Ok(found.pop().map(|(_, resource)| resource))
    }

    /// Returns the resource in the group and version of a root path.
    async fn resource_in(&self, root: &str, object: &ObjectReference) -> Result<Option<Resource>, String> {
        let Some(list) = self.get_if_present(root).await? else { return Ok(None) };
        // A name with a slash is that of a subresource.
        let is_subresource = |entry: &Value| entry["name"].as_str().is_none_or(|name| name.contains('/'));
        let mut entries = list["resources"].as_array().into_iter().flatten();
        let entry = entries.find(|entry| !is_subresource(entry) && object.is_of(entry));
        Ok(entry.map(|entry| Resource {
            kind: entry["kind"].as_str().unwrap_or_default().to_owned(),
            root: root.to_owned(),
            plural: entry["name"].as_str().unwrap_or_default().to_owned(),
            is_namespaced: entry["namespaced"] == true,
        }))
    }

    /// Returns the JSON document at a path; `None` if there is none.
    async fn get_if_present(&self, path: &str) -> Result<Option<Value>, String> {
        let request = Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
        match self.client.request(request).await {
            Ok(document) => Ok(Some(document)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(describe(&error)),
        }
    }

    async fn send<T: DeserializeOwned>(&self, request: http::Result<Request<Vec<u8>>>) -> Result<T, String> {
        let request = request.map_err(|error| error.to_string())?;
        self.client.request(request).await.map_err(|error| describe(&error))
    }
}

impl Resource {
    /// Returns the path of an object of this kind.
    fn path_of(&self, object: &ObjectReference) -> Result<String, String> {
        let Self { root, plural, .. } = self;
        let name = percent_encoded(&object.name);
        if self.is_namespaced {
            return Ok(format!("{root}/namespaces/{}/{plural}/{name}", percent_encoded(object.namespace())));
        }
        if object.has_namespace() {
            return Err(format!(
                "{object}: {} has no namespaces; write {}/{}",
                self.kind, object.kind, object.name
            ));
        }
        Ok(format!("{root}/{plural}/{name}"))
    }
}

/// Returns what the API server says, without the words of the client library.
pub(super) fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_apiserver::ApiServer;
    use serde_json::json;

    use super::*;

    fn reference(text: &str) -> ObjectReference {
        ObjectReference::parse(text).expect(text)
    }

    fn cluster() -> Cluster {
        Cluster::new(kube::Client::new(ApiServer::builder().build().service(), "default"))
    }

    async fn create(cluster: &Cluster, path: &str, object: &Value) {
        let request = Request::post(path)
            .header(CONTENT_TYPE, "application/json")
            .body(object.to_string().into_bytes());
        cluster.send::<Value>(request).await.expect("created");
    }

    fn crd(group: &str) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("deploys.{group}")},
            "spec": {"group": group, "scope": "Cluster", "names": {"plural": "deploys", "kind": "Deploy"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}
        })
    }

    #[tokio::test]
    async fn an_object_is_read_patched_and_deleted() {
        let mut cluster = cluster();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"size": "1"}});
        create(&cluster, "/api/v1/namespaces/default/configmaps", &map).await;
        let object = reference("configmap/a");
        let merge = json!({"data": {"size": "2"}}).as_object().expect("an object").clone();
        let patch = Patch { object: object.clone(), subresource: None, merge };
        assert_eq!(cluster.patch(&patch).await, Ok(true));
        let Ok(Lookup::Found(found)) = cluster.get(&object).await else { panic!("it is there") };
        assert_eq!(found["data"]["size"], "2");
        let uid = found["metadata"]["uid"].as_str().expect("a UID");
        cluster.delete(&object, "another").await.expect_err("another object");
        cluster.delete(&object, uid).await.expect("deleted");
        assert!(matches!(cluster.get(&object).await, Ok(Lookup::Absent)));
        let error = cluster.patch(&patch).await.expect_err("it is gone");
        assert!(error.contains("\"a\" not found"), "{error}");
    }

    #[tokio::test]
    async fn a_kind_of_two_groups_needs_the_group() {
        let mut cluster = cluster();
        let object = reference("Deploy/a");
        assert!(matches!(cluster.get(&object).await, Ok(Lookup::NotServed)));
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        create(&cluster, crds, &crd("one.example.com")).await;
        create(&cluster, crds, &crd("two.example.com")).await;
        let error = cluster.get(&object).await.err().expect("it is ambiguous");
        assert!(error.contains("one.example.com, two.example.com"), "{error}");
        assert!(error.contains("write the group, as in Deploy.one.example.com/a"), "{error}");
        let resource = cluster.resource(&reference("Deploy.two.example.com/a")).await.expect("no error");
        assert_eq!(resource.expect("served").root, "/apis/two.example.com/v1");
        let error = cluster.get(&reference("Deploy.two.example.com/shop/a")).await.err();
        assert!(error.is_some_and(|error| error.contains("has no namespaces; write Deploy/a")));
    }

    #[tokio::test]
    async fn the_core_group_comes_first() {
        let mut cluster = cluster();
        let events = cluster.resource(&reference("Event/a")).await.expect("no error").expect("served");
        assert_eq!(events.root, "/api/v1");
        assert_eq!(cluster.events().await, Ok(Vec::new()));
    }
}
