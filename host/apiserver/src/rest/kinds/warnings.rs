//! The warnings of single kinds, as in the registry strategies of kube-apiserver.

use std::collections::BTreeSet;

use k8s_openapi::ByteString;
use serde_json::Value;

use super::{pods, services};
use crate::go;
use crate::meta;
use crate::registry::Endpoint;
use crate::rest::verbs::delete::DeleteOptions;
use crate::schema::label_errors;

/// The finalizers of Kubernetes itself without a domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

/// Returns the warnings about a new or changed object.
pub(in crate::rest) fn on_write(endpoint: &Endpoint, value: &Value) -> Vec<String> {
    if endpoint.is_core("services") {
        return services::warnings::of_service(value);
    }
    let is_certificate = endpoint.is_core("secrets") && value["type"] == "kubernetes.io/tls";
    is_certificate.then(|| certificate_warning(&value["data"])).flatten().into_iter().collect()
}

/// Returns the warning about a certificate and its key that are no PEM texts, with the messages of Go's `crypto/tls`.
fn certificate_warning(data: &Value) -> Option<String> {
    let tags = |name: &str| -> Vec<String> {
        let bytes: ByteString = serde_json::from_value(data[name].clone()).unwrap_or_default();
        let blocks = pem::parse_many(&bytes.0).unwrap_or_default();
        blocks.iter().map(|block| block.tag().to_owned()).collect()
    };
    let is_key = |tag: &String| tag == "PRIVATE KEY" || tag.ends_with(" PRIVATE KEY");
    let skipped =
        |tags: &[String]| format!("after skipping PEM blocks of the following types: [{}]", tags.join(" "));
    let certificates = tags("tls.crt");
    if !certificates.iter().any(|tag| tag == "CERTIFICATE") {
        return Some(match certificates.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [tag] if is_key(tag) => {
                "tls: failed to find certificate PEM data in certificate input, but did find a \
                                     private key; PEM inputs may have been switched"
                    .to_owned()
            }
            tags => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input {}",
                skipped(tags)
            ),
        });
    }
    let keys = tags("tls.key");
    if keys.iter().any(is_key) {
        return None;
    }
    Some(match keys.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [tag] if tag == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        tags => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input {}",
            skipped(tags)
        ),
    })
}

/// Returns the warnings about the Pods of a new object.
pub(in crate::rest) fn on_new_pods(endpoint: &Endpoint, value: &Value) -> Vec<String> {
    match template_path(endpoint) {
        Some(path) => of_pods(value, path),
        None if endpoint.is_core("pods") => pods::warnings::of_pod(value, ""),
        None => Vec::new(),
    }
}

/// Returns the warnings about the template of an object whose specification changed. Those of Pods are given once.
pub(in crate::rest) fn on_changed_pods(endpoint: &Endpoint, old: &Value, new: &Value) -> Vec<String> {
    let is_changed = meta::generation(old) != meta::generation(new);
    template_path(endpoint).filter(|_| is_changed).map(|path| of_pods(new, path)).unwrap_or_default()
}

fn of_pods(value: &Value, path: &str) -> Vec<String> {
    let template = path.split('.').fold(value, |value, name| &value[name]);
    pods::warnings::of_pod(template, path)
}

/// Returns the path of the template of Pods.
fn template_path(endpoint: &Endpoint) -> Option<&'static str> {
    match (endpoint.resource.group.as_str(), endpoint.resource.names.plural.as_str()) {
        ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("batch", "jobs")
        | ("", "replicationcontrollers") => Some("spec.template"),
        ("batch", "cronjobs") => Some("spec.jobTemplate.spec.template"),
        ("", "podtemplates") => Some("template"),
        _ => None,
    }
}

/// Returns the warning about a new object.
pub(in crate::rest) fn on_create(endpoint: &Endpoint, value: &Value) -> Option<String> {
    let names_pods = match endpoint.resource.group.as_str() {
        "" => endpoint.resource.names.plural == "replicationcontrollers",
        "apps" => matches!(endpoint.resource.names.plural.as_str(), "deployments" | "replicasets"),
        "batch" => matches!(endpoint.resource.names.plural.as_str(), "jobs" | "cronjobs"),
        _ => false,
    };
    if names_pods {
        return name_warning(meta::text(value, "name"));
    }
    let is_ingress =
        endpoint.resource.group == "networking.k8s.io" && endpoint.resource.names.plural == "ingresses";
    let has_annotation = || !value["metadata"]["annotations"][INGRESS_CLASS].is_null();
    (is_ingress && has_annotation() && value["spec"]["ingressClassName"].is_null()).then(|| {
        format!("annotation \"{INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead")
    })
}

/// Returns the warning about the name of an object whose Pods have it as a part of theirs.
fn name_warning(name: &str) -> Option<String> {
    let errors = label_errors(name);
    (!errors.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            errors.join(" ")
        )
    })
}

/// Returns the warnings about finalizers of a custom resource that it did not have before, whose names could be those of somebody else.
pub(in crate::rest) fn on_new_finalizers(
    endpoint: &Endpoint,
    new: &Value,
    old: Option<&Value>,
) -> Vec<String> {
    if endpoint.resource.custom.is_none() {
        return Vec::new();
    }
    let before: BTreeSet<String> = old.map(meta::finalizers).unwrap_or_default().into_iter().collect();
    let added: BTreeSet<String> = meta::finalizers(new).into_iter().collect();
    added.difference(&before).filter_map(|name| finalizer_warning(name)).collect()
}

fn finalizer_warning(name: &str) -> Option<String> {
    if name.contains('/') || STANDARD_FINALIZERS.contains(&name) {
        return None;
    }
    let path = if name.contains('.') { " including a path (/)" } else { "" };
    let shown = go::quoted(name);
    Some(format!(
        "metadata.finalizers: {shown}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other \
         finalizer writers"
    ))
}

/// Returns the warning about the deletion of an object, or of a collection.
pub(in crate::rest) fn on_delete(endpoint: &Endpoint, options: &DeleteOptions) -> Option<String> {
    let is_orphaned = endpoint.resource.group == "batch"
        && endpoint.resource.strategy.orphans_by_default
        && options.propagation.is_none();
    is_orphaned.then(|| {
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
         propagationPolicy=Orphan to suppress this warning"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn data(certificate: &str, key: &str) -> Value {
        let encoded =
            |text: &str| serde_json::to_value(ByteString(text.as_bytes().to_vec())).expect("base64");
        json!({"tls.crt": encoded(certificate), "tls.key": encoded(key)})
    }

    #[test]
    fn names_of_pods_are_labels() {
        assert_eq!(name_warning("a-b"), None);
        assert!(
            name_warning("a.b")
                .is_some_and(|warning| warning.ends_with("is recommended: [must not contain dots]"))
        );
    }

    #[test]
    fn certificates_and_keys_are_pem_texts() {
        let block = |tag: &str| format!("-----BEGIN {tag}-----\nAAAA\n-----END {tag}-----\n");
        let (certificate, key) = (block("CERTIFICATE"), block("RSA PRIVATE KEY"));
        let warning =
            |certificate: &str, key: &str| certificate_warning(&data(certificate, key)).unwrap_or_default();
        assert_eq!(warning(&certificate, &key), "");
        assert_eq!(warning("x", "y"), "tls: failed to find any PEM data in certificate input");
        assert_eq!(
            certificate_warning(&Value::Null).as_deref(),
            Some("tls: failed to find any PEM data in certificate input")
        );
        assert!(warning(&key, &certificate).ends_with("PEM inputs may have been switched"));
        assert_eq!(warning(&certificate, ""), "tls: failed to find any PEM data in key input");
        assert!(
            warning(&certificate, &certificate).starts_with("tls: found a certificate rather than a key")
        );
        assert!(warning(&block("X"), "").ends_with("of the following types: [X]"));
    }
}
