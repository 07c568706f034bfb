//! Access and token reviews.

mod validation;

use serde_json::{Value, json};

use crate::access::{AUDIENCE, Attributes, PolicyRule};
use crate::meta;
use crate::registry::Endpoint;
use crate::state::State;
use crate::status::{ResourceRef, Status};
use crate::user::User;

/// Returns the review, requested by `user`, with its status.
pub(crate) fn answer(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    user: &User,
    mut review: Value,
) -> Result<Value, Status> {
    if let Some(namespace) = namespace {
        meta::metadata_mut(&mut review).insert("namespace".into(), namespace.into());
    }
    let spec = &review["spec"];
    if endpoint.kind() == "SelfSubjectReview" {
        // As in Kubernetes, nothing of the request remains.
        return Ok(json!({
            "apiVersion": endpoint.api_version, "kind": endpoint.kind(),
            "metadata": {"creationTimestamp": state.now()}, "status": {"userInfo": user.to_value()},
        }));
    }
    if endpoint.kind() == "TokenReview" && spec["token"].as_str().is_none_or(str::is_empty) {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    review["status"] = match endpoint.kind() {
        "TokenReview" => token(state, spec),
        "SelfSubjectRulesReview" => rules(state, user, spec)?,
        kind => {
            let causes = validation::causes(kind, namespace.unwrap_or_default(), &review);
            if !causes.is_empty() {
                // kube-apiserver does not know the kind at this point.
                let about = ResourceRef { kind: "", ..endpoint.resource_ref() };
                return Err(Status::invalid(about, "", causes));
            }
            match kind {
                "SelfSubjectAccessReview" => access(state, user, spec),
                _ => access(state, &subject(spec), spec),
            }
        }
    };
    let metadata = meta::metadata_mut(&mut review);
    if metadata.get("creationTimestamp").is_some_and(Value::is_null) {
        metadata.remove("creationTimestamp");
    }
    Ok(review)
}

/// Returns the status of an access review: whether a user may make the request in `spec`.
fn access(state: &State, user: &User, spec: &Value) -> Value {
    let review = state.access.review(user, &attributes(spec));
    let mut status = json!({"allowed": review.allowed});
    if !review.reason.is_empty() {
        status["reason"] = review.reason.into();
    }
    status
}

/// Returns the request that a valid review asks about.
fn attributes(spec: &Value) -> Attributes<'_> {
    let text = |part: &'_ Value, name: &str| part[name].as_str().unwrap_or_default().to_owned();
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if !resource.is_object() {
        return Attributes::non_resource(text(path, "verb"), text(path, "path"));
    }
    Attributes::resource(text(resource, "verb"), text(resource, "group"), text(resource, "resource"))
        .subresource(text(resource, "subresource"))
        .named(text(resource, "name"))
        .in_namespace(text(resource, "namespace"))
}

/// Returns the user that a SubjectAccessReview is about. No groups are added to those in the review.
fn subject(spec: &Value) -> User {
    let texts = |list: &Value| -> Vec<String> {
        let items = list.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let text = |name: &str| spec[name].as_str().unwrap_or_default().to_owned();
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: text("user"),
        uid: text("uid"),
        groups: texts(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
    }
}

/// Returns the status of a SelfSubjectRulesReview: what a user may do in a namespace.
fn rules(state: &State, user: &User, spec: &Value) -> Result<Value, Status> {
    let namespace = spec["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let (rules, problem) = state.access.rules(user, namespace);
    let (paths, resources): (Vec<&PolicyRule>, Vec<&PolicyRule>) =
        rules.iter().partition(|rule| !rule.paths.is_empty());
    let values =
        |rules: Vec<&PolicyRule>| -> Vec<Value> { rules.into_iter().map(PolicyRule::to_value).collect() };
    let mut status = json!({
        "incomplete": !problem.is_empty(), "resourceRules": values(resources), "nonResourceRules": values(paths),
    });
    if !problem.is_empty() {
        status["evaluationError"] = problem.into();
    }
    Ok(status)
}

/// Returns the status of a TokenReview: the user of a token.
fn token(state: &State, spec: &Value) -> Value {
    let requested = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut audiences: Vec<&str> = requested.collect();
    if audiences.is_empty() {
        audiences.push(AUDIENCE);
    }
    let text = spec["token"].as_str().unwrap_or_default();
    if let Some(token) = state.access.tokens.find(text, state.clock.now()) {
        audiences.retain(|audience| token.is_for(audience));
        if !audiences.is_empty() {
            return json!({"authenticated": true, "user": token.user().to_value(), "audiences": audiences});
        }
    }
    if !state.access.is_enforced() || state.access.is_admin_token(text) {
        return json!({"authenticated": true, "user": state.access.admin().to_value()});
    }
    json!({"user": {}, "error": "[invalid bearer token]"})
}
