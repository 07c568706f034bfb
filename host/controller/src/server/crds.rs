//! The CRDs that a plugin brings: applied server-side by one field manager, never deleted.

use http::Method;
use serde_json::Value;

use super::{APPLY_PATCH, Payload, Server, ServerError, query};

/// The field manager of every CRD that the host applies.
pub(crate) const FIELD_MANAGER: &str = "pilothouse-crds";

/// Why a CRD could not be put in place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CrdError {
    /// The manifest has no name.
    #[error("crds[{position}] has no metadata.name; name it PLURAL.GROUP")]
    NoName { position: usize },
    /// The server refused it.
    #[error("the CRD {name:?} was refused: {source}{}", remedy(.source))]
    Refused { name: String, source: ServerError },
    /// Applying it would take a version away in which objects are stored.
    #[error(
        "the CRD {name:?} has objects stored in version {version:?}, which the plugin's manifest does not have; migrate \
         them, or keep the version in the manifest"
    )]
    StoredVersion { name: String, version: String },
}

fn remedy(source: &ServerError) -> &'static str {
    match source.code() {
        Some(409) => {
            "; another manager owns these fields: make the plugin's manifest agree, or apply it by hand"
        }
        Some(403) => "; grant the host patch on customresourcedefinitions, or apply it by hand",
        _ => "",
    }
}

impl CrdError {
    /// Whether the server may take it later without anybody changing anything.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            // kube-apiserver answers 500 to a manifest with a field that its type has not.
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

/// Applies the manifests in order.
pub(crate) async fn apply_crds(server: &Server, crds: &[Value]) -> Result<(), CrdError> {
    for (position, crd) in crds.iter().enumerate() {
        let name =
            crd.pointer("/metadata/name").and_then(Value::as_str).ok_or(CrdError::NoName { position })?;
        let refused = |source| CrdError::Refused { name: name.to_owned(), source };
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        if let Some(present) = server.get(&path).await.map_err(refused)? {
            let present: Value = serde_json::from_slice(&present).unwrap_or_default();
            if let Some(version) = lost_version(&present, crd) {
                return Err(CrdError::StoredVersion { name: name.to_owned(), version });
            }
        }
        let path = path.clone() + &query(&[("fieldManager", FIELD_MANAGER)]);
        let payload = Payload { content_type: APPLY_PATCH, body: crd.to_string().into() };
        server.request(Method::PATCH, &path, Some(payload)).await.map_err(refused)?;
    }
    Ok(())
}

/// A version in which objects may be stored and that the new manifest lacks.
fn lost_version(present: &Value, manifest: &Value) -> Option<String> {
    let kept: Vec<_> = manifest
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .map(|versions| versions.iter().filter_map(|version| version["name"].as_str()).collect())
        .unwrap_or_default();
    let stored = present.pointer("/status/storedVersions")?.as_array()?;
    stored.iter().filter_map(Value::as_str).find(|version| !kept.contains(version)).map(str::to_owned)
}

/// The name of the first of the CRDs that is not Established yet, with the server's reason.
pub(crate) async fn established(server: &Server, crds: &[Value]) -> Result<Option<String>, CrdError> {
    for crd in crds {
        let name = crd.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let body =
            server.get(&path).await.map_err(|source| CrdError::Refused { name: name.to_owned(), source })?;
        let present: Value = body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
        let conditions = present.pointer("/status/conditions").and_then(Value::as_array);
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

/// The name of the first of the CRDs that is not there.
pub(crate) async fn absent(server: &Server, crds: &[Value]) -> Result<Option<String>, ServerError> {
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
    fn what_only_another_manifest_can_mend_is_not_waited_for() {
        let refused = |code: u16, message: &str| {
            let body = json!({"kind": "Status", "message": message}).to_string();
            let code = http::StatusCode::from_u16(code).expect("a code");
            CrdError::Refused { name: "c".into(), source: ServerError::answered(code, body.as_bytes(), None) }
        };
        assert!(!refused(422, "spec.names.plural: Required value").is_passing());
        assert!(
            !refused(500, "failed to create typed patch object (c): .spec.nope: field not declared")
                .is_passing()
        );
        assert!(refused(500, "etcdserver: leader changed").is_passing());
        assert!(refused(429, "too many requests").is_passing());
    }

    #[test]
    fn a_stored_version_must_not_be_lost() {
        let present = json!({"status": {"storedVersions": ["v1alpha1", "v1"]}});
        let manifest = |names: &[&str]| {
            let versions: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"versions": versions}})
        };
        assert_eq!(lost_version(&present, &manifest(&["v1", "v2"])), Some("v1alpha1".into()));
        assert_eq!(lost_version(&present, &manifest(&["v1", "v1alpha1"])), None);
        assert_eq!(lost_version(&json!({}), &manifest(&[])), None);
    }
}
