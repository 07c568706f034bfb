//! What a client expects of the object that it updates: its resource version and its UID.

use serde_json::{Value, json};

use super::UpdateTarget;
use crate::go;
use crate::meta;
use crate::registry::Endpoint;
use crate::schema::field;
use crate::status::{ResourceRef, Status};

/// Errors if the object does not have the resource version or the UID that the client expects.
pub(super) fn check_preconditions(
    endpoint: &Endpoint,
    name: &str,
    target: UpdateTarget,
    old: &Value,
    new: &Value,
) -> Result<(), Status> {
    let about = endpoint.resource_ref();
    let (before, after) = (meta::text(old, "resourceVersion"), meta::text(new, "resourceVersion"));
    // As in Kubernetes, resourceVersion 0 is not a precondition.
    if matches!(after, "" | "0") {
        let conditional = endpoint.resource.strategy.conditional_update || endpoint.resource.custom.is_some();
        if conditional && target != UpdateTarget::Scale {
            let detail = "must be specified for an update";
            let cause = field::invalid("metadata.resourceVersion", &json!(0), detail);
            // kube-apiserver has the resource in the place of the kind here.
            let about = ResourceRef { kind: about.plural, ..about };
            return Err(Status::invalid(about, name, vec![cause]));
        }
    } else if after.parse::<u64>().is_err() {
        let shown = go::quoted(after);
        return Err(Status::unclassified(format!("strconv.ParseUint: parsing {shown}: invalid syntax")));
    } else if before != after {
        return Err(Status::modified(about, name));
    }
    check_uid(endpoint, (meta::text(old, "namespace"), name), meta::text(old, "uid"), new)
}

/// Errors if the client expects another UID than `uid`, which is "" if the object does not exist.
pub(in crate::rest) fn check_uid(
    endpoint: &Endpoint,
    (namespace, name): (&str, &str),
    uid: &str,
    new: &Value,
) -> Result<(), Status> {
    let expected = meta::text(new, "uid");
    if expected.is_empty() || expected == uid {
        return Ok(());
    }
    let problem = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
         UID in precondition: {expected}, UID in object meta: {uid}",
        storage_key(endpoint, namespace, name)
    );
    Err(Status::conflict(endpoint.resource_ref(), name, &problem))
}

/// Returns the key under which kube-apiserver stores an object in etcd.
fn storage_key(endpoint: &Endpoint, namespace: &str, name: &str) -> String {
    let plural = &endpoint.resource.names.plural;
    let prefix = match (&*endpoint.group, plural.as_str()) {
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        (group @ ("apiextensions.k8s.io" | "apiregistration.k8s.io"), plural) => format!("{group}/{plural}"),
        (group, plural) if endpoint.resource.custom.is_some() => format!("{group}/{plural}"),
        (_, plural) => plural.to_owned(),
    };
    let parts = [prefix.as_str(), namespace, name];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.fold("/registry".to_owned(), |key, part| key + "/" + part)
}
