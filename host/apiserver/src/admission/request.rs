//! A write as admission sees it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::rules::RuleTarget;
use crate::registry::{Endpoint, Registry};
use crate::schema::Schema;
use crate::user::User;

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    /// Returns the name that rules and reviews use.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }

    fn options_kind(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Delete => "DeleteOptions",
        }
    }
}

/// A write, without its objects.
#[derive(Clone, Copy)]
pub(crate) struct WriteRequest<'a> {
    pub operation: Operation,
    pub endpoint: &'a Endpoint,
    /// "" for the object itself.
    pub subresource: &'a str,
    /// The namespace of the path; "" for cluster-scoped objects.
    pub namespace: &'a str,
    /// "" if the server generates the name.
    pub name: &'a str,
    pub dry_run: bool,
}

/// The objects of a write. A creation has no old one, a deletion no new one.
#[derive(Clone, Copy)]
pub(crate) struct Objects<'a> {
    pub new: Option<&'a Value>,
    pub old: Option<&'a Value>,
}

impl<'a> WriteRequest<'a> {
    /// Returns the namespace as Kubernetes sees it: for a namespace, its own name.
    pub(crate) fn request_namespace(&self) -> &'a str {
        if self.endpoint.is_core("namespaces") { self.name } else { self.namespace }
    }

    /// Whether the objects of the subresource are of another kind than the resource, whatever its version.
    pub(crate) fn has_own_kind(&self) -> bool {
        own_kind(self.subresource).is_some()
    }

    /// Returns the schema of the objects of the write in the version of `endpoint`.
    pub(crate) fn schema_of(&self, endpoint: &Endpoint) -> Option<Arc<Schema>> {
        match own_kind(self.subresource) {
            Some((group, version, kind)) => Schema::builtin(group, version, kind),
            None => endpoint.schema.clone(),
        }
    }

    /// Returns what rules see of the write, as if it was sent to `endpoint`.
    pub(crate) fn rule_target(&self, endpoint: &'a Endpoint) -> RuleTarget<'a> {
        RuleTarget {
            operation: self.operation.as_str(),
            group: &endpoint.group,
            version: &endpoint.version,
            resource: &endpoint.resource.names.plural,
            subresource: self.subresource,
            namespace: self.request_namespace(),
            name: self.name,
        }
    }

    /// Returns the other endpoints of the same stored objects.
    pub(crate) fn equivalents<'r>(&self, registry: &'r Registry) -> impl Iterator<Item = &'r Arc<Endpoint>> {
        let (table, id) = (Arc::clone(&self.endpoint.resource.table), self.endpoint.id);
        registry
            .endpoints()
            .filter(move |endpoint| endpoint.id != id && Arc::ptr_eq(&endpoint.resource.table, &table))
    }

    /// Returns an `AdmissionRequest` without its objects and UID. `endpoint` is the one whose version a rule named.
    pub(crate) fn to_value(self, endpoint: &Endpoint, user: &User, options: &Value) -> Value {
        let mut request = json!({
            "kind": self.kind_of(endpoint),
            "resource": resource_of(endpoint),
            "requestKind": self.kind_of(self.endpoint),
            "requestResource": resource_of(self.endpoint),
            "operation": self.operation.as_str(),
            "userInfo": user.to_value(),
            "dryRun": self.dry_run,
            "options": self.options(options),
        });
        let namespace = self.request_namespace();
        for (field, text) in [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", namespace),
        ] {
            if !text.is_empty() {
                request[field] = text.into();
            }
        }
        request
    }

    /// Returns the options of the write with their type.
    fn options(&self, options: &Value) -> Value {
        let mut options = if options.is_object() { options.clone() } else { json!({}) };
        options["kind"] = self.operation.options_kind().into();
        options["apiVersion"] = "meta.k8s.io/v1".into();
        options
    }

    fn kind_of(&self, endpoint: &Endpoint) -> Value {
        let (group, version, kind) =
            own_kind(self.subresource).unwrap_or((&*endpoint.group, &*endpoint.version, endpoint.kind()));
        json!({"group": group, "version": version, "kind": kind})
    }
}

/// Returns group, version and kind of the objects of a subresource, if they are not those of the resource.
fn own_kind<'a>(subresource: &str) -> Option<(&'a str, &'a str, &'a str)> {
    match subresource {
        "scale" => Some(("autoscaling", "v1", "Scale")),
        "token" => Some(("authentication.k8s.io", "v1", "TokenRequest")),
        "eviction" => Some(("policy", "v1", "Eviction")),
        "binding" => Some(("", "v1", "Binding")),
        _ => None,
    }
}

fn resource_of(endpoint: &Endpoint) -> Value {
    json!({
        "group": endpoint.group, "version": endpoint.version, "resource": endpoint.resource.names.plural,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{HistoryLimits, Storage};

    #[test]
    fn namespace_of_a_new_namespace_is_its_name() {
        let storage = Storage::new(HistoryLimits { events: 10, bytes: 1 << 20 }, 1);
        let registry = Registry::built_in(&storage);
        let user = User::service_account("a", "b");
        let request = |plural: &str, namespace: &str| {
            let write = WriteRequest {
                operation: Operation::Create,
                endpoint: registry.endpoint("", "v1", plural).expect("built in"),
                subresource: "",
                namespace,
                name: "new",
                dry_run: false,
            };
            write.to_value(write.endpoint, &user, &Value::Null)
        };
        assert_eq!(request("namespaces", "")["namespace"], "new");
        assert_eq!(request("configmaps", "n")["namespace"], "n");
        assert_eq!(request("nodes", "").get("namespace"), None);
    }
}
