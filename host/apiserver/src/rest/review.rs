//! Access and token reviews.

use serde_json::{Value, json};

use crate::access::{AUDIENCE, Attributes, PolicyRule};
use crate::go;
use crate::meta;
use crate::registry::Endpoint;
use crate::schema::field;
use crate::state::State;
use crate::status::{Cause, ResourceRef, Status};
use crate::user::User;

/// Returns the review, requested by `user`, with its status.
pub(crate) fn answer(
    state: &State,
    endpoint: &Endpoint,
    namespace: Option<&str>,
    user: &User,
    mut review: Value,
) -> Result<Value, Status> {
    let spec = &review["spec"];
    if endpoint.kind() == "TokenReview" && spec["token"].as_str().is_none_or(str::is_empty) {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    review["status"] = match endpoint.kind() {
        "SelfSubjectReview" => json!({"userInfo": user.to_value()}),
        "TokenReview" => token(state, spec),
        "SelfSubjectRulesReview" => rules(state, user, spec)?,
        "SelfSubjectAccessReview" => access(state, endpoint, user, spec)?,
        kind => {
            let mut causes: Vec<Cause> = check_subject(spec).into_iter().collect();
            if kind == "LocalSubjectAccessReview" {
                causes.extend(check_local_review(spec, namespace.unwrap_or_default()));
            }
            if !causes.is_empty() {
                return Err(Status::invalid(endpoint.resource_ref(), meta::text(&review, "name"), causes));
            }
            access(state, endpoint, &subject(spec), spec)?
        }
    };
    if let Some(namespace) = namespace {
        meta::metadata_mut(&mut review).insert("namespace".into(), namespace.into());
    }
    let metadata = meta::metadata_mut(&mut review);
    if metadata.get("creationTimestamp").is_some_and(Value::is_null) {
        metadata.remove("creationTimestamp");
    }
    Ok(review)
}

/// Returns the status of an access review: whether a user may make the request in `spec`.
fn access(state: &State, endpoint: &Endpoint, user: &User, spec: &Value) -> Result<Value, Status> {
    let review = state.access.review(user, &attributes(endpoint, spec)?);
    let mut status = json!({"allowed": review.allowed});
    if !review.reason.is_empty() {
        status["reason"] = review.reason.into();
    }
    Ok(status)
}

/// Returns the request that a review asks about.
fn attributes<'a>(endpoint: &Endpoint, spec: &'a Value) -> Result<Attributes<'a>, Status> {
    // kube-apiserver does not know the kind at this point.
    let about = ResourceRef { kind: "", ..endpoint.resource_ref() };
    let invalid = |cause: Cause| Status::invalid(about, "", vec![cause]);
    let text = |part: &'a Value, name: &str| part[name].as_str().unwrap_or_default();
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    match (resource.is_object(), path.is_object()) {
        (true, true) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            let [path, verb] = ["path", "verb"].map(|name| go::encoded_json(&text(path, name).into()));
            let shown = format!(r#"{{"Path":{},"Verb":{}}}"#, path.trim_end(), verb.trim_end());
            Err(invalid(field::invalid_shown("spec.nonResourceAttributes", &shown, detail)))
        }
        (false, false) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            Err(invalid(field::invalid("spec.resourceAttributes", &Value::Null, detail)))
        }
        (false, true) => Ok(Attributes::non_resource(text(path, "verb"), text(path, "path"))),
        (true, false) => {
            let attributes = Attributes::resource(
                text(resource, "verb"),
                text(resource, "group"),
                text(resource, "resource"),
            );
            let attributes =
                attributes.subresource(text(resource, "subresource")).named(text(resource, "name"));
            Ok(attributes.in_namespace(text(resource, "namespace")))
        }
    }
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

/// Requires a user or a group in a SubjectAccessReview.
fn check_subject(spec: &Value) -> Option<Cause> {
    let named = spec["user"].as_str().is_some_and(|user| !user.is_empty());
    let grouped = spec["groups"].as_array().is_some_and(|groups| !groups.is_empty());
    let detail = "at least one of user or group must be specified";
    (!named && !grouped).then(|| field::invalid("spec.user", &Value::from(""), detail))
}

/// Rejects a LocalSubjectAccessReview about another namespace or a non-resource path.
fn check_local_review(spec: &Value, namespace: &str) -> Option<Cause> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if path.is_object() {
        let detail = "disallowed on this kind of request";
        return Some(field::invalid("spec.nonResourceAttributes", path, detail));
    }
    let requested = resource["namespace"].as_str().unwrap_or_default();
    (resource.is_object() && requested != namespace).then(|| {
        let detail = "must match metadata.namespace";
        field::invalid("spec.resourceAttributes.namespace", &Value::from(requested), detail)
    })
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
