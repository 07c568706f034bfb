//! The parameters of a policy for one binding, after `CollectParams` in `k8s.io/apiserver/pkg/admission/plugin/policy/generic`.

use std::sync::Arc;

use pilothouse_model::LabelSelector;
use serde_json::Value;

use super::policy::{Binding, PolicyRules};
use crate::registry::{Endpoint, Registry};
use crate::storage::StoredObject;

/// The most objects that a selector of parameters may select.
const MAX_PARAMS: usize = 1000;

/// An object that is a parameter.
pub(super) struct Param<'r> {
    endpoint: &'r Endpoint,
    object: Arc<StoredObject>,
}

impl Param<'_> {
    /// Returns the namespace and the name of the object.
    pub(super) fn key(&self) -> (String, String) {
        (self.object.namespace.to_string(), self.object.name.to_string())
    }

    /// Returns the value for the variable `params`. Many large objects may be selected, so each one is decoded only when it is used.
    pub(super) fn value(&self) -> Value {
        self.endpoint.served_value(&self.object)
    }
}

/// Errors if the kind of the parameters is not served.
pub(super) fn check_kind(rules: &PolicyRules, registry: &Registry) -> Result<(), String> {
    match &rules.param_kind {
        Some((api_version, kind)) if registry.by_kind(api_version, kind).is_none() => {
            Err(unknown_kind(api_version, kind))
        }
        _ => Ok(()),
    }
}

fn unknown_kind(api_version: &str, kind: &str) -> String {
    let core = if api_version.contains('/') { "" } else { "/" };
    format!("failed to find resource referenced by paramKind: '{core}{api_version}, Kind={kind}'")
}

/// Returns the parameters to evaluate the policy with, one after the other. `None` stands for a policy without parameters.
///
/// # Errors
/// The parameters cannot be found, and the policy or the binding does not allow that.
pub(super) fn collect<'r>(
    rules: &PolicyRules,
    binding: &Binding,
    namespace: &str,
    registry: &'r Registry,
) -> Result<Vec<Option<Param<'r>>>, String> {
    let reference = &binding.param_ref;
    let Some((api_version, kind)) = &rules.param_kind else { return Ok(vec![None]) };
    if reference.is_null() {
        return Ok(vec![None]);
    }
    let endpoint = registry.by_kind(api_version, kind).ok_or_else(|| unknown_kind(api_version, kind))?;
    let text = |name: &str| reference[name].as_str().unwrap_or_default();
    let namespace = match (endpoint.resource.namespaced, text("namespace")) {
        (true, "") if namespace.is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .to_owned(),
            );
        }
        (true, "") => namespace,
        (false, "") => "",
        (true, given) => given,
        (false, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
    };
    let found = find(endpoint, namespace, text("name"), &reference["selector"])?;
    if found.is_empty() && text("parameterNotFoundAction") == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found.into_iter().map(|object| Some(Param { endpoint, object })).collect())
}

fn find(
    endpoint: &Endpoint,
    namespace: &str,
    name: &str,
    selector: &Value,
) -> Result<Vec<Arc<StoredObject>>, String> {
    let table = &endpoint.resource.table;
    if !name.is_empty() {
        return Ok(table.get(namespace, name).into_iter().collect());
    }
    if selector.is_null() {
        return Err("one of name or selector must be provided".to_owned());
    }
    let selector = LabelSelector::from_json(selector).map_err(|error| error.to_string())?;
    let (mut objects, _) = table.list(endpoint.resource.namespaced.then_some(namespace));
    objects.retain(|object| selector.matches(|key| object.labels.get(key).cloned()));
    if objects.len() > MAX_PARAMS {
        return Err(format!("the selector of paramRef selects more than {MAX_PARAMS} objects"));
    }
    Ok(objects)
}
