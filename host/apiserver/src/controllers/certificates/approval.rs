//! Decides whether the request of a kubelet is approved, after `k8s.io/kubernetes/pkg/controller/certificates/approver`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::action::{Action, Plan};
use super::super::object::items;
use super::{KUBELET_CLIENT_SIGNER, RequestedCertificate, has_condition, is_issued, signing, usages};
use crate::access::Attributes;
use crate::rest::kinds::certificates::GROUP;
use crate::user::User;

/// Approves a request for a kubelet's client certificate if its requester may create one: for itself (`selfnodeclient`), or for any node
/// (`nodeclient`).
pub(super) fn plan(request: &Value, is_allowed: impl Fn(&User, &Attributes<'_>) -> bool) -> Plan {
    let mut plan = Plan::default();
    let is_decided = has_condition(request, "Approved") || has_condition(request, "Denied");
    if is_decided || is_issued(request) || request["spec"]["signerName"] != KUBELET_CLIENT_SIGNER {
        return plan;
    }
    let Some(requested) = RequestedCertificate::of(request) else { return plan };
    if signing::refusal(KUBELET_CLIENT_SIGNER, &requested, &usages(request)).is_some() {
        return plan;
    }
    let user = requester(&request["spec"]);
    let may_create = |subresource: &str| {
        let attributes = Attributes::resource("create", GROUP, "certificatesigningrequests");
        is_allowed(&user, &attributes.subresource(subresource.to_owned()))
    };
    let message = if user.name == requested.common_name && may_create("selfnodeclient") {
        "Auto approving self kubelet client certificate after SubjectAccessReview."
    } else if may_create("nodeclient") {
        "Auto approving kubelet client certificate after SubjectAccessReview."
    } else {
        return plan;
    };
    let mut status = request["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    let mut conditions = items(&status["conditions"]).to_vec();
    conditions
        .push(json!({"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message}));
    status["conditions"] = conditions.into();
    plan.actions.push(Action::SetApproval(status));
    plan
}

/// Returns the user who created a request.
fn requester(spec: &Value) -> User {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |list: &Value| items(list).iter().map(text).collect::<Vec<_>>();
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: text(&spec["username"]),
        uid: text(&spec["uid"]),
        groups: texts(&spec["groups"]),
        extra: extra.map(|(name, values)| (name.clone(), texts(values))).collect::<BTreeMap<_, _>>(),
    }
}
