//! Asks a server whether the permissions that a plugin needs are granted.

use super::{Availability, RequiredPermission};
use crate::access::{ResourceAttributes, is_allowed};
use crate::client::{ApiClient, RequestError};

/// Asks a cluster whether these permissions are granted, and stores the result in each. Returns a problem for each that is denied, and one
/// for a review that fails, after which no other is made.
pub async fn review_permissions(client: kube::Client, permissions: &mut [RequiredPermission]) -> Vec<String> {
    let mut problems = Vec::new();
    review(&ApiClient::new(client), permissions, &mut problems).await;
    problems
}

/// Reviews each permission. A denied permission is a problem, and so is a review that fails.
pub(super) async fn review(
    server: &ApiClient,
    permissions: &mut [RequiredPermission],
    problems: &mut Vec<String>,
) {
    for permission in permissions {
        match is_permission_granted(server, permission).await {
            Ok(true) => permission.allowed = Availability::Yes,
            Ok(false) => {
                permission.allowed = Availability::No;
                problems.push(denied(permission));
            }
            Err(error) => {
                problems.push(format!("permissions cannot be checked: {error}"));
                return;
            }
        }
    }
}

fn denied(permission: &RequiredPermission) -> String {
    let place = match permission.namespace.as_str() {
        "" => "in all namespaces".to_owned(),
        namespace => format!("in namespace {namespace}"),
    };
    let who = match &permission.service_account {
        None => "the kubeconfig's user".to_owned(),
        Some(account) => format!("the service account {account}"),
    };
    format!(
        "{}: {who} may not {} {} of group {:?} {place}; grant it (`pilothouse rbac` prints the roles)",
        permission.needed_for, permission.verb, permission.resource, permission.group
    )
}

async fn is_permission_granted(
    server: &ApiClient,
    permission: &RequiredPermission,
) -> Result<bool, RequestError> {
    let any = [String::new()];
    let names = if permission.names.is_empty() { &any[..] } else { &permission.names };
    for name in names {
        let RequiredPermission { group, resource, verb, namespace, .. } = permission;
        let asked = ResourceAttributes { group, resource, verb, namespace, name };
        if !is_allowed(server, permission.service_account.as_ref(), asked).await? {
            return Ok(false);
        }
    }
    Ok(true)
}
