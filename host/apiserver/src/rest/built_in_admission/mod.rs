//! The built-in admission plugins of kube-apiserver, in its order (`AllOrderedPlugins` of `k8s.io/kubernetes/pkg/kubeapiserver/options`). Their mutating
//! parts act before policies and webhooks, their validating parts after the object was validated.

mod claims;
mod default_classes;
pub(crate) mod defaults;
mod limit_ranges;
mod pod_resize;
mod pod_security;
pub(crate) mod quota;
mod runtime_class;
pub(super) mod service_accounts;
pub(crate) mod topology_labels;

use serde_json::Value;

use super::verbs::create;
use super::verbs::update::UpdateTarget;
use super::write_steps::admit;
use crate::admission::{BuiltIn, Notes, WriteRequest};
use crate::admission_plugins::AdmissionPlugin;
use crate::meta;
use crate::registry::Endpoint;
use crate::schema::field;
use crate::state::State;
use crate::status::{Cause, Status};

/// The mutating plugins for the creation of an object.
pub(super) struct OfCreation<'a> {
    pub state: &'a State,
    pub endpoint: &'a Endpoint,
    /// The namespace of the path.
    pub namespace: Option<&'a str>,
}

impl BuiltIn for OfCreation<'_> {
    fn admit(&self, object: &mut Value) -> Result<(), Status> {
        defaults::on_create(self.state, self.endpoint, object)
    }

    fn complete(&self, object: &mut Value) -> Result<(), Status> {
        admit::decode_mutated(self.endpoint, object)?;
        create::check_scope(self.endpoint, self.namespace, object)
    }
}

/// The mutating plugins for an update of an object or of a subresource that has the object.
pub(super) struct OfUpdate<'a> {
    pub state: &'a State,
    pub endpoint: &'a Endpoint,
    pub target: UpdateTarget,
    pub old: &'a Value,
}

impl BuiltIn for OfUpdate<'_> {
    fn admit(&self, object: &mut Value) -> Result<(), Status> {
        if self.target == UpdateTarget::Object && self.endpoint.is_core("pods") {
            defaults::on_pod_update(self.state, self.old, object);
        }
        Ok(())
    }

    fn complete(&self, object: &mut Value) -> Result<(), Status> {
        admit::decode_mutated(self.endpoint, object)?;
        let (namespace, before) = (meta::text(object, "namespace"), meta::text(self.old, "namespace"));
        if self.endpoint.resource.namespaced && !namespace.is_empty() && namespace != before {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let is_changed = |name: &&str| {
            let value = meta::text(object, name);
            !value.is_empty() && value != meta::text(self.old, name)
        };
        let causes = ["name", "uid"].iter().filter(|name| is_changed(name)).map(|name| {
            let path = field::child("metadata", name);
            field::invalid(&path, &object["metadata"][*name], "field is immutable")
        });
        let causes: Vec<Cause> = causes.collect();
        if causes.is_empty() {
            return Ok(());
        }
        // kube-apiserver finds them twice.
        let causes = causes.iter().chain(&causes).cloned().collect();
        Err(Status::invalid(self.endpoint.resource_ref(), meta::text(object, "name"), causes))
    }
}

/// Whether a plugin may change an object of this kind when it is created.
pub(super) fn may_change_creation(endpoint: &Endpoint) -> bool {
    let core = ["pods", "nodes", "persistentvolumeclaims", "persistentvolumes"];
    core.iter().any(|plural| endpoint.is_core(plural))
        || default_classes::is_ingress(endpoint)
        || defaults::is_attributes_class(endpoint)
}

/// Asks the validating plugins about a new object. Records warnings and audit annotations.
///
/// # Errors
/// 403 by the first plugin that refuses the object.
pub(super) fn validate_creation(
    state: &State,
    write: &WriteRequest<'_>,
    object: &Value,
    notes: &Notes,
) -> Result<(), Status> {
    let endpoint = write.endpoint;
    limit_ranges::check(state, endpoint, object)?;
    service_accounts::validate(state, endpoint, object)?;
    pod_security::validate(state, write, object, None, notes)?;
    defaults::check_priority_class(state, endpoint, object)?;
    if endpoint.is_core("pods") && state.plugins.acts(AdmissionPlugin::RuntimeClass) {
        runtime_class::check(state, &object["spec"]).map_err(|problem| {
            Status::forbidden(endpoint.resource_ref(), meta::text(object, "name"), &problem)
        })?;
    }
    Ok(())
}

/// Asks the validating plugins about an update. Records warnings and audit annotations.
///
/// # Errors
/// 403 by the first plugin that refuses the update.
pub(super) fn validate_update(
    state: &State,
    write: &WriteRequest<'_>,
    target: UpdateTarget,
    (old, new): (&Value, &Value),
    notes: &Notes,
) -> Result<(), Status> {
    let endpoint = write.endpoint;
    let is_deleted = !meta::text(old, "deletionTimestamp").is_empty();
    if target == UpdateTarget::Resize && !is_deleted {
        limit_ranges::check(state, endpoint, new)?;
    }
    service_accounts::validate_update(state, endpoint, target, new)?;
    pod_security::validate(state, write, new, Some(old), notes)?;
    if target == UpdateTarget::Object {
        defaults::check_priority_class(state, endpoint, new)?;
    }
    claims::check_update(state, endpoint, target, (old, new))?;
    if target == UpdateTarget::Resize && state.plugins.acts(AdmissionPlugin::PodResizeValidator) {
        pod_resize::check(state, endpoint, old, new)?;
    }
    Ok(())
}
