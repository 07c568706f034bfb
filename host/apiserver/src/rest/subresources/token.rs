//! `serviceaccounts/NAME/token`: tokens for service accounts.
//!
//! A token is an unsigned JWT (RFC 7519, section 6): clients can read its subject and expiration from it, and no other
//! server accepts it. This server accepts only tokens that it issued; each has a random ID, so that tokens cannot be
//! guessed.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::access::{AUDIENCE, Token};
use crate::clock;
use crate::registry::Endpoint;
use crate::request::body;
use crate::schema::field;
use crate::state::State;
use crate::status::Status;

const API_VERSION: &str = "authentication.k8s.io/v1";
const KIND: &str = "TokenRequest";
/// The default lifetime of a token in seconds. The bounds are those of kube-apiserver.
const DEFAULT_LIFETIME: i64 = 3600;
const MIN_LIFETIME: i64 = 600;
const MAX_LIFETIME: i64 = 1 << 32;

/// Issues a token for a TokenRequest and returns the TokenRequest with its status.
pub(crate) fn create(
    state: &State,
    accounts: &Endpoint,
    (namespace, name): (&str, &str),
    mut token_request: Value,
) -> Result<Value, Status> {
    let account = accounts
        .resource
        .table
        .get(namespace, name)
        .ok_or_else(|| Status::not_found(accounts.resource_ref(), name))?;
    body::check_type(&mut token_request, accounts, API_VERSION, KIND)?;
    let lifetime = lifetime(&token_request["spec"]["expirationSeconds"]).map_err(|cause| {
        let about = crate::status::ResourceRef {
            group: "authentication.k8s.io",
            plural: "tokenrequests",
            kind: KIND,
        };
        Status::invalid(about, "", vec![cause])
    })?;
    let audiences =
        match token_request["spec"]["audiences"].as_array().filter(|audiences| !audiences.is_empty()) {
            Some(audiences) => Value::from(audiences.clone()),
            None => json!([AUDIENCE]),
        };
    let now = state.clock.now();
    let expiration =
        now.checked_add(jiff::SignedDuration::from_secs(lifetime)).unwrap_or(jiff::Timestamp::MAX);
    let id = state.identifiers.new_uid();
    let claims = json!({
        "iss": AUDIENCE, "sub": format!("system:serviceaccount:{namespace}:{name}"), "aud": audiences,
        "iat": now.as_second(), "nbf": now.as_second(), "exp": expiration.as_second(), "jti": id,
        "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": &*account.uid}},
    });
    let token = format!("{}.{}.", base64(&json!({"alg": "none", "typ": "JWT"})), base64(&claims));
    let audience_list =
        audiences.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let issued = Token {
        namespace: namespace.to_owned(),
        account: name.to_owned(),
        uid: account.uid.to_string(),
        id,
        audiences: audience_list.collect(),
        expiration,
    };
    state.access.tokens.issue(token.clone(), issued, now);
    let mut spec = json!({"audiences": audiences, "expirationSeconds": lifetime});
    spec["boundObjectRef"] = token_request["spec"]["boundObjectRef"].clone();
    Ok(json!({
        "kind": KIND, "apiVersion": API_VERSION,
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": clock::rfc3339_seconds(now)},
        "spec": spec,
        "status": {
            "token": token,
            "expirationTimestamp": clock::rfc3339_seconds(expiration),
        },
    }))
}

/// Returns the lifetime in seconds for `spec.expirationSeconds`.
fn lifetime(requested: &Value) -> Result<i64, crate::status::Cause> {
    let invalid = |detail: &str| Err(field::invalid("spec.expirationSeconds", requested, detail));
    match requested {
        Value::Null => Ok(DEFAULT_LIFETIME),
        seconds => match seconds.as_i64() {
            None => invalid("must be a whole number of seconds"),
            Some(seconds) if seconds < MIN_LIFETIME => {
                invalid("may not specify a duration less than 10 minutes")
            }
            Some(seconds) if seconds > MAX_LIFETIME => {
                invalid("may not specify a duration larger than 2^32 seconds")
            }
            Some(seconds) => Ok(seconds),
        },
    }
}

/// Encodes JSON in base64url without padding.
fn base64(value: &Value) -> String {
    let text = serde_json::to_value(ByteString(value.to_string().into_bytes())).unwrap_or_default();
    text.as_str().unwrap_or_default().trim_end_matches('=').replace('+', "-").replace('/', "_")
}
