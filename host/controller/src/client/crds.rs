//! Applies the CRDs of a plugin: server-side, with one field manager. They are never deleted.

use http::Method;
use serde_json::Value;

use super::{APPLY_PATCH, ApiClient, Payload, RequestError, query};

/// The field manager of every CRD that the host applies.
pub const FIELD_MANAGER: &str = "pilothouse-crds";
/// The annotation of a CRD with the name of the plugin that installed it. Only that plugin changes the CRD: all plugins share a field
/// manager, so the API server would let any of them do so.
const INSTALLER: &str = "pilothouse.dev/installed-by";

/// Why a CRD could not be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CrdError {
    /// The manifest has no name.
    #[error("crds[{position}] has no metadata.name; name it PLURAL.GROUP")]
    NoName { position: usize },
    /// The server refused the CRD.
    #[error("the CRD {name:?} was refused: {source}{}", remedy(.source))]
    Refused { name: String, source: RequestError },
    /// The new manifest lacks a version in which objects are stored.
    #[error(
        "the CRD {name:?} has objects stored in version {version:?}, which the plugin's manifest does not have; migrate \
         them, or keep the version in the manifest"
    )]
    StoredVersion { name: String, version: String },
    /// Another manager applied the CRD, and the plugin's manifest differs from it.
    #[error(
        "the CRD {name:?} is managed by {manager:?} and differs from the plugin's manifest; make the manifest agree, or apply it \
         by hand"
    )]
    Managed { name: String, manager: String },
    /// Another plugin installed the CRD, and the plugin's manifest differs from it.
    #[error(
        "the CRD {name:?} was installed by the plugin {installer:?} and differs from this plugin's manifest; make the manifests agree, or, \
         if {installer:?} no longer needs it, hand it over: kubectl annotate --overwrite crd {name} {INSTALLER}={plugin}"
    )]
    OfOtherPlugin { name: String, installer: String, plugin: String },
}

fn remedy(source: &RequestError) -> &'static str {
    match source.code() {
        Some(409) => {
            "; another manager owns these fields: make the plugin's manifest agree, or apply it by hand"
        }
        Some(403) => "; grant the host patch on customresourcedefinitions, or apply it by hand",
        _ => "",
    }
}

impl CrdError {
    /// Whether the server may accept the same manifest later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            // kube-apiserver answers 500 to a manifest with an unknown field.
            Self::Refused { source, .. }
                if source.to_string().contains("failed to create typed patch object") =>
            {
                false
            }
            Self::Refused { source, .. } => !matches!(source.code(), Some(400..=428 | 430..=499)),
            _ => false,
        }
    }
}

/// Applies the manifests in order, up to the first that fails. Adds the names of those that were created or
/// changed to `changed`. `plugin` is recorded as their installer. Callers that may run at the same time share a lock.
pub(crate) async fn apply_crds(
    server: &ApiClient,
    plugin: Option<&str>,
    crds: &[Value],
    changed: &mut Vec<String>,
) -> Result<(), CrdError> {
    for (position, crd) in crds.iter().enumerate() {
        let name =
            crd.pointer("/metadata/name").and_then(Value::as_str).ok_or(CrdError::NoName { position })?;
        let name = || name.to_owned();
        let refused = |source| CrdError::Refused { name: name(), source };
        let existing = server.get(&path(&name())).await.map_err(refused)?;
        let existing: Value =
            existing.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
        if let Some(version) = removed_stored_version(&existing, crd) {
            return Err(CrdError::StoredVersion { name: name(), version });
        }
        if let Some(owner) = other_owner(&existing, plugin) {
            // A real apply would make the host a manager, too, even of fields that it does not change.
            let dry_run_result = apply(server, &name(), crd, DryRun::Yes).await.map_err(refused)?;
            if dry_run_result["spec"] == existing["spec"] {
                continue;
            }
            return Err(match owner {
                Owner::Manager(manager) => CrdError::Managed { name: name(), manager: manager.to_owned() },
                Owner::Plugin(installer) => CrdError::OfOtherPlugin {
                    name: name(),
                    installer: installer.to_owned(),
                    plugin: plugin.unwrap_or_default().to_owned(),
                },
            });
        }
        let crd = with_installer(crd, plugin);
        let applied = apply(server, &name(), &crd, DryRun::No).await.map_err(refused)?;
        if applied["spec"] != existing["spec"] {
            changed.push(name());
        }
    }
    Ok(())
}

fn path(name: &str) -> String {
    format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DryRun {
    Yes,
    No,
}

/// Server-side apply without force: fields that another manager owns are left to it.
async fn apply(server: &ApiClient, name: &str, crd: &Value, dry_run: DryRun) -> Result<Value, RequestError> {
    let dry_run = if dry_run == DryRun::Yes { "All" } else { "" };
    let path = path(name) + &query(&[("fieldManager", FIELD_MANAGER), ("dryRun", dry_run)]);
    let payload = Payload { content_type: APPLY_PATCH, body: crd.to_string().into() };
    let response = server.request(Method::PATCH, &path, Some(payload)).await?;
    Ok(serde_json::from_slice(&response).unwrap_or_default())
}

/// Returns the manifest with the annotation of its installer.
fn with_installer(crd: &Value, plugin: Option<&str>) -> Value {
    let mut crd = crd.clone();
    let Some(plugin) = plugin else { return crd };
    let annotations = &mut crd["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = Value::Object(Default::default());
    }
    annotations[INSTALLER] = plugin.into();
    crd
}

/// Who may change a CRD in place of the plugin.
#[derive(Debug, PartialEq)]
enum Owner<'a> {
    Manager(&'a str),
    Plugin(&'a str),
}

/// Returns the owner of an existing CRD, unless that is the plugin, or nobody yet.
fn other_owner<'a>(existing: &'a Value, plugin: Option<&str>) -> Option<Owner<'a>> {
    if let Some(manager) = other_manager(existing) {
        return Some(Owner::Manager(manager));
    }
    let installer = existing["metadata"]["annotations"][INSTALLER].as_str()?;
    (Some(installer) != plugin).then_some(Owner::Plugin(installer))
}

/// Returns the manager of the CRD's spec, unless the host is one of them.
fn other_manager(existing: &Value) -> Option<&str> {
    let managers = existing.pointer("/metadata/managedFields")?.as_array()?;
    if managers.iter().any(|entry| entry["manager"] == FIELD_MANAGER && entry["operation"] == "Apply") {
        return None;
    }
    let of_spec = managers.iter().find(|entry| entry.pointer("/fieldsV1/f:spec").is_some())?;
    of_spec["manager"].as_str()
}

/// Returns a version in which objects may be stored and which the new manifest lacks.
fn removed_stored_version(existing: &Value, manifest: &Value) -> Option<String> {
    let kept: Vec<_> = manifest
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .map(|versions| versions.iter().filter_map(|version| version["name"].as_str()).collect())
        .unwrap_or_default();
    let stored = existing.pointer("/status/storedVersions")?.as_array()?;
    stored.iter().filter_map(Value::as_str).find(|version| !kept.contains(version)).map(str::to_owned)
}

/// Returns the name of the first CRD that is not yet Established, with the server's reason; `None` if all
/// are.
pub(crate) async fn unestablished_crd(
    server: &ApiClient,
    crds: &[Value],
) -> Result<Option<String>, CrdError> {
    for crd in crds {
        let name = crd.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let body = server
            .get(&path(name))
            .await
            .map_err(|source| CrdError::Refused { name: name.to_owned(), source })?;
        let existing: Value = body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
        let conditions = existing.pointer("/status/conditions").and_then(Value::as_array);
        let condition = |wanted: &str| {
            conditions.and_then(|all| all.iter().find(|condition| condition["type"] == wanted))
        };
        if condition("Established").is_some_and(|condition| condition["status"] == "True") {
            continue;
        }
        let reason = condition("NamesAccepted")
            .filter(|condition| condition["status"] != "True")
            .and_then(|condition| condition["message"].as_str())
            .unwrap_or("the API server has not established it yet");
        return Ok(Some(format!("{name}: {reason}")));
    }
    Ok(None)
}

/// Returns the name of the first CRD that does not exist; `None` if all do.
pub(crate) async fn missing_crd(server: &ApiClient, crds: &[Value]) -> Result<Option<String>, RequestError> {
    for crd in crds {
        let name = crd.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        if server.get(&path).await?.is_none() {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_that_needs_another_manifest_is_not_transient() {
        let refused = |code: u16, message: &str| {
            let body = json!({"kind": "Status", "message": message}).to_string();
            let code = http::StatusCode::from_u16(code).expect("a code");
            CrdError::Refused {
                name: "c".into(),
                source: RequestError::answered(code, body.as_bytes(), None),
            }
        };
        assert!(!refused(422, "spec.names.plural: Required value").is_transient());
        assert!(
            !refused(500, "failed to create typed patch object (c): .spec.nope: field not declared")
                .is_transient()
        );
        assert!(refused(500, "etcdserver: leader changed").is_transient());
        assert!(refused(429, "too many requests").is_transient());
    }

    #[test]
    fn a_manager_of_the_status_is_not_a_manager_of_the_spec() {
        let of = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "fieldsV1": fields});
        let existing = |managers: &[Value]| json!({"metadata": {"managedFields": managers}});
        let status = of("kube-apiserver", "Update", json!({"f:status": {}}));
        let theirs = of("helm", "Update", json!({"f:spec": {"f:group": {}}}));
        let ours = of(FIELD_MANAGER, "Apply", json!({"f:spec": {"f:group": {}}}));
        assert_eq!(other_manager(&existing(&[status.clone(), theirs.clone()])), Some("helm"));
        assert_eq!(other_manager(&existing(&[status.clone(), theirs, ours])), None);
        assert_eq!(other_manager(&existing(&[status])), None);
        assert_eq!(other_manager(&Value::Null), None);
    }

    #[tokio::test]
    async fn a_plugin_does_not_change_the_crd_of_another_plugin() {
        let crd = |field: &str| {
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "foos.example.com"},
                "spec": {
                    "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
                    "versions": [{
                        "name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": {"type": "object", "properties": {field: {"type": "string"}}}}
                    }]
                }
            })
        };
        let api = pilothouse_apiserver::ApiServer::builder().build();
        let server = ApiClient::new(kube::Client::new(api.service(), "default"));
        let apply = async |plugin: Option<&str>, field: &str| {
            let mut changed = Vec::new();
            apply_crds(&server, plugin, &[crd(field)], &mut changed).await.map(|()| changed)
        };
        let installer = async || {
            let body = server.get(&path("foos.example.com")).await.expect("an answer").expect("the CRD");
            let existing: Value = serde_json::from_slice(&body).expect("JSON");
            existing["metadata"]["annotations"][INSTALLER].as_str().map(str::to_owned)
        };
        // A CRD that an older host installed belongs to the first plugin that applies it.
        assert_eq!(apply(None, "a").await.expect("created").len(), 1);
        assert_eq!(apply(Some("first"), "a").await.expect("unchanged").len(), 0);
        assert_eq!(installer().await.as_deref(), Some("first"));
        assert_eq!(apply(Some("first"), "b").await.expect("its own").len(), 1);
        // Another plugin may bring the same CRD.
        assert_eq!(apply(Some("second"), "b").await.expect("the same").len(), 0);
        assert_eq!(installer().await.as_deref(), Some("first"));
        let refused = apply(Some("second"), "c").await.expect_err("another plugin's");
        assert!(!refused.is_transient());
        assert_eq!(
            refused.to_string(),
            "the CRD \"foos.example.com\" was installed by the plugin \"first\" and differs from this plugin's manifest; make the \
             manifests agree, or, if \"first\" no longer needs it, hand it over: kubectl annotate --overwrite crd foos.example.com \
             pilothouse.dev/installed-by=second"
        );
        // The handover that the error describes.
        let annotation = json!({"metadata": {"annotations": {INSTALLER: "second"}}}).to_string();
        let patch = Payload { content_type: "application/merge-patch+json", body: annotation.into() };
        let path = path("foos.example.com") + "?fieldManager=kubectl-annotate";
        server.request(Method::PATCH, &path, Some(patch)).await.expect("annotated");
        assert_eq!(apply(Some("second"), "c").await.expect("its own").len(), 1);
        assert!(apply(Some("first"), "b").await.is_err());
    }

    #[test]
    fn a_version_in_which_objects_are_stored_must_not_be_removed() {
        let existing = json!({"status": {"storedVersions": ["v1alpha1", "v1"]}});
        let manifest = |names: &[&str]| {
            let versions: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"versions": versions}})
        };
        assert_eq!(removed_stored_version(&existing, &manifest(&["v1", "v2"])), Some("v1alpha1".into()));
        assert_eq!(removed_stored_version(&existing, &manifest(&["v1", "v1alpha1"])), None);
        assert_eq!(removed_stored_version(&json!({}), &manifest(&[])), None);
    }
}
