//! `serviceaccounts/NAME/token`: tokens for service accounts.
//!
//! A token is an unsigned JWT (RFC 7519, section 6): clients can read its subject and expiration from it, and no other
//! server accepts it. This server accepts only tokens that it issued; each has a random ID, so that tokens cannot be
//! guessed.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::access::{AUDIENCE, Token};
use crate::clock;
use crate::registry::Endpoint;
use crate::request::body;
use crate::schema::field;
use crate::state::State;
use crate::status::{Cause, ResourceRef, Status};

const API_VERSION: &str = "authentication.k8s.io/v1";
const KIND: &str = "TokenRequest";
/// What errors call the resource.
const TOKEN_REQUESTS: ResourceRef<'_> =
    ResourceRef { group: "authentication.k8s.io", plural: "tokenrequests", kind: KIND };
/// The default lifetime of a token in seconds. The bounds are those of kube-apiserver.
const DEFAULT_LIFETIME: i64 = 3600;
const MIN_LIFETIME: i64 = 600;
const MAX_LIFETIME: i64 = 1 << 32;

/// Issues a token for a TokenRequest and returns the TokenRequest with its status.
pub(crate) fn create(
    state: &State,
    service_accounts: &Endpoint,
    (namespace, name): (&str, &str),
    mut token_request: Value,
) -> Result<Value, Status> {
    let account = service_accounts
        .resource
        .table
        .get(namespace, name)
        .ok_or_else(|| Status::not_found(service_accounts.resource_ref(), name))?;
    body::check_type(&mut token_request, service_accounts, API_VERSION, KIND)?;
    let requested = &token_request["spec"];
    let lifetime = lifetime(&requested["expirationSeconds"])
        .map_err(|cause| Status::invalid(TOKEN_REQUESTS, "", vec![cause]))?;
    let audiences = match requested["audiences"].as_array() {
        Some(audiences) if !audiences.is_empty() => audiences.clone(),
        _ => vec![AUDIENCE.into()],
    };
    let now = state.clock.now();
    let expiration = now.checked_add(SignedDuration::from_secs(lifetime)).unwrap_or(Timestamp::MAX);
    let token = Token {
        namespace: namespace.to_owned(),
        account: name.to_owned(),
        uid: account.uid.to_string(),
        id: state.identifiers.new_uid(),
        audiences: audiences.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        expiration,
    };
    let text = unsigned_jwt(&token, &audiences, now);
    state.access.tokens.issue(text.clone(), token, now);
    Ok(json!({
        "kind": KIND, "apiVersion": API_VERSION,
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": clock::rfc3339_seconds(now)},
        "spec": {
            "audiences": audiences,
            "expirationSeconds": lifetime,
            "boundObjectRef": requested["boundObjectRef"],
        },
        "status": {
            "token": text,
            "expirationTimestamp": clock::rfc3339_seconds(expiration),
        },
    }))
}

/// Returns the text of a token, which is valid from `now` on. `audiences` are those of the request.
fn unsigned_jwt(token: &Token, audiences: &[Value], now: Timestamp) -> String {
    let Token { namespace, account, uid, id, expiration, .. } = token;
    let claims = json!({
        "iss": AUDIENCE, "sub": format!("system:serviceaccount:{namespace}:{account}"), "aud": audiences,
        "iat": now.as_second(), "nbf": now.as_second(), "exp": expiration.as_second(), "jti": id,
        "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": account, "uid": uid}},
    });
    format!("{}.{}.", base64url(&json!({"alg": "none", "typ": "JWT"})), base64url(&claims))
}

/// Returns the lifetime in seconds for `spec.expirationSeconds`.
fn lifetime(requested: &Value) -> Result<i64, Cause> {
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
fn base64url(value: &Value) -> String {
    let text = serde_json::to_value(ByteString(value.to_string().into_bytes())).unwrap_or_default();
    text.as_str().unwrap_or_default().trim_end_matches('=').replace('+', "-").replace('/', "_")
}
