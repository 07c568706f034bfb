//! Asks a server whether the rights that a plugin needs are granted.

use super::{Right, Verdict};
use crate::access::{ResourceAttributes, is_allowed};
use crate::client::{ApiClient, RequestError};

/// Reviews each right. A denied right is a problem, and so is a review that fails.
pub(super) async fn review(server: &ApiClient, rights: &mut [Right], problems: &mut Vec<String>) {
    for right in rights {
        match is_right_allowed(server, right).await {
            Ok(true) => right.allowed = Verdict::Yes,
            Ok(false) => {
                right.allowed = Verdict::No;
                problems.push(denied(right));
            }
            Err(error) => {
                problems.push(format!("rights cannot be checked: {error}"));
                return;
            }
        }
    }
}

fn denied(right: &Right) -> String {
    let place = match right.namespace.as_str() {
        "" => "in all namespaces".to_owned(),
        namespace => format!("in namespace {namespace}"),
    };
    let who = match &right.service_account {
        None => "the kubeconfig's user".to_owned(),
        Some(account) => format!("the service account {account}"),
    };
    format!(
        "{}: {who} may not {} {} of group {:?} {place}; grant it (`pilothouse rbac` prints the roles)",
        right.needed_for, right.verb, right.resource, right.group
    )
}

async fn is_right_allowed(server: &ApiClient, right: &Right) -> Result<bool, RequestError> {
    let any = [String::new()];
    let names = if right.names.is_empty() { &any[..] } else { &right.names };
    for name in names {
        let Right { group, resource, verb, namespace, .. } = right;
        let asked = ResourceAttributes { group, resource, verb, namespace, name };
        if !is_allowed(server, right.service_account.as_ref(), asked).await? {
            return Ok(false);
        }
    }
    Ok(true)
}
