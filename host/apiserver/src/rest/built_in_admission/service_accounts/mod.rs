//! The admission plugin `ServiceAccount`: the service account of a Pod, its token and its secrets, after
//! `k8s.io/kubernetes/plugin/pkg/admission/serviceaccount`.

mod secrets;
mod token;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::admission_plugins::AdmissionPlugin::ServiceAccount;
use crate::meta;
use crate::registry::Endpoint;
use crate::rest::verbs::update::UpdateTarget;
use crate::state::State;
use crate::status::Status;
use crate::storage::StoredObject;

/// The account of a Pod that names none.
const DEFAULT: &str = "default";
/// The annotation of Pods that a kubelet created from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The annotation of an account whose Pods may only use the secrets that it lists.
const ENFORCES: &str = "kubernetes.io/enforce-mountable-secrets";
/// How often the account `default` of a new namespace is looked up, and how long the server waits in between.
const ATTEMPTS: u32 = 10;
const INTERVAL: Duration = Duration::from_millis(150);

/// Waits for the account `default` if a new Pod of a client needs it, because a controller creates it a moment after the namespace.
pub(in crate::rest) async fn await_default(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    pod: &Value,
) {
    if !endpoint.is_core("pods") || !state.plugins.acts(ServiceAccount) || is_mirror(pod) {
        return;
    }
    let Some(namespace) = namespace.filter(|_| matches!(account_name(pod), "" | DEFAULT)) else { return };
    for _ in 1..ATTEMPTS {
        if account(state, namespace, DEFAULT).is_some() {
            return;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Sets the account of a new Pod and what follows from it.
///
/// # Errors
/// 403 if the account does not exist or forbids the Pod.
pub(super) fn admit(state: &State, endpoint: &Endpoint, pod: &mut Value) -> Result<(), Status> {
    let acts = state.plugins.acts(ServiceAccount);
    if acts && is_mirror(pod) {
        return validate(state, endpoint, pod);
    }
    if state.plugins.names_service_account() && account_name(pod).is_empty() {
        pod["spec"]["serviceAccountName"] = json!(DEFAULT);
        pod["spec"]["serviceAccount"] = json!(DEFAULT);
    }
    if !acts {
        return Ok(());
    }
    let account = find(state, endpoint, pod)?;
    let automounts = [&pod["spec"], &account].map(|object| object["automountServiceAccountToken"].as_bool());
    if automounts.into_iter().flatten().next().unwrap_or(true) {
        token::mount(&state.identifiers, &mut pod["spec"]);
    }
    if items(&pod["spec"]["imagePullSecrets"]).is_empty() && !items(&account["imagePullSecrets"]).is_empty() {
        let names = items(&account["imagePullSecrets"]).iter();
        pod["spec"]["imagePullSecrets"] = names.map(|secret| json!({"name": secret["name"]})).collect();
    }
    validate(state, endpoint, pod)
}

/// Checks the account of a new Pod, and the secrets that the Pod uses. Other objects pass.
///
/// # Errors
/// 403 if the account does not exist or forbids the Pod.
pub(super) fn validate(state: &State, endpoint: &Endpoint, pod: &Value) -> Result<(), Status> {
    if !endpoint.is_core("pods") || !state.plugins.acts(ServiceAccount) {
        return Ok(());
    }
    if is_mirror(pod) {
        return check_mirror(pod).map_err(|problem| refused(endpoint, pod, problem));
    }
    let account = find(state, endpoint, pod)?;
    if !enforces(&account) {
        return Ok(());
    }
    secrets::check_pod(&account, pod).map_err(|problem| refused(endpoint, pod, &problem))
}

/// Checks the secrets that the ephemeral containers of an updated Pod use. Other updates pass.
///
/// # Errors
/// 403 if the account does not exist or forbids them.
pub(super) fn validate_update(
    state: &State,
    endpoint: &Endpoint,
    target: UpdateTarget,
    pod: &Value,
) -> Result<(), Status> {
    if target != UpdateTarget::EphemeralContainers || !state.plugins.acts(ServiceAccount) {
        return Ok(());
    }
    let account = find(state, endpoint, pod)?;
    if !enforces(&account) {
        return Ok(());
    }
    secrets::check_ephemeral(&account, pod).map_err(|problem| refused(endpoint, pod, &problem))
}

/// Returns the account of a Pod.
///
/// # Errors
/// 403 if the Pod names none or one that does not exist.
fn find(state: &State, endpoint: &Endpoint, pod: &Value) -> Result<Value, Status> {
    let (namespace, name) = (meta::text(pod, "namespace"), account_name(pod));
    if name.is_empty() {
        let pod_name = meta::text(pod, "name");
        let problem = format!("no service account specified for pod {namespace}/{pod_name}");
        return Err(refused(endpoint, pod, &problem));
    }
    account(state, namespace, name).map(|account| account.value()).ok_or_else(|| {
        let missing = format!("serviceaccount {name:?} not found");
        refused(endpoint, pod, &format!("error looking up service account {namespace}/{name}: {missing}"))
    })
}

/// Returns an account by its name.
fn account(state: &State, namespace: &str, name: &str) -> Option<Arc<StoredObject>> {
    let registry = state.registry();
    registry.endpoint("", "v1", "serviceaccounts")?.resource.table.get(namespace, name)
}

/// Checks what a mirror Pod refers to: neither an account nor a secret.
fn check_mirror(pod: &Value) -> Result<(), &'static str> {
    if !account_name(pod).is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    if secrets::is_any_used(&pod["spec"]) {
        return Err("a mirror pod may not reference secrets");
    }
    let projections =
        items(&pod["spec"]["volumes"]).iter().flat_map(|volume| items(&volume["projected"]["sources"]));
    if projections.into_iter().any(|source| !source["serviceAccountToken"].is_null()) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

fn account_name(pod: &Value) -> &str {
    pod["spec"]["serviceAccountName"].as_str().unwrap_or_default()
}

fn is_mirror(pod: &Value) -> bool {
    pod["metadata"]["annotations"].get(MIRROR).is_some()
}

/// Whether the Pods of an account may only use the secrets that it lists. The texts are those that Go parses as true.
fn enforces(account: &Value) -> bool {
    let text = account["metadata"]["annotations"][ENFORCES].as_str().unwrap_or_default();
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn refused(endpoint: &Endpoint, pod: &Value, problem: &str) -> Status {
    Status::forbidden(endpoint.resource_ref(), meta::shown_name(pod), problem)
}
