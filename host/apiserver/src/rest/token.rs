//! `serviceaccounts/NAME/token`: tokens for service accounts.
//!
//! A token is a JWT without a signature (RFC 7519, section 6): clients find in it whose it is and when it ends, and no
//! other server takes it. This one takes only those that it remembers; each has a random identity,
//! so that none can be guessed.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::meta;
use crate::access::{AUDIENCE, Token};
use crate::clock;
use crate::registry::Endpoint;
use crate::request::{Request, body};
use crate::schema::field;
use crate::server::State;
use crate::status::Status;

const API_VERSION: &str = "authentication.k8s.io/v1";
const KIND: &str = "TokenRequest";
/// In seconds; the shortest and the longest life of a token are kube-apiserver's.
const DEFAULT_LIFE: i64 = 3600;
const SHORTEST_LIFE: i64 = 600;
const LONGEST_LIFE: i64 = 1 << 32;

/// Answers a TokenRequest.
pub(crate) fn create(
    state: &State,
    accounts: &Endpoint,
    (namespace, name): (&str, &str),
    request: &Request,
) -> Result<Value, Status> {
    let account = accounts
        .resource
        .table
        .get(namespace, name)
        .ok_or_else(|| Status::not_found(accounts.about(), name))?;
    let mut asked = body::decode(request)?;
    body::check_type(&mut asked, accounts, API_VERSION, KIND)?;
    let life = life(&asked["spec"]["expirationSeconds"]).map_err(|cause| {
        let about =
            crate::status::About { group: "authentication.k8s.io", plural: "tokenrequests", kind: KIND };
        Status::invalid(about, name, vec![cause])
    })?;
    let audiences = match asked["spec"]["audiences"].as_array().filter(|audiences| !audiences.is_empty()) {
        Some(audiences) => Value::from(audiences.clone()),
        None => json!([AUDIENCE]),
    };
    let now = state.clock.now();
    let end = now.checked_add(jiff::SignedDuration::from_secs(life)).unwrap_or(jiff::Timestamp::MAX);
    let id = meta::new_uid();
    let claims = json!({
        "iss": AUDIENCE, "sub": format!("system:serviceaccount:{namespace}:{name}"), "aud": audiences,
        "iat": now.as_second(), "nbf": now.as_second(), "exp": end.as_second(), "jti": id,
        "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": &*account.uid}},
    });
    let token = format!("{}.{}.", base64(&json!({"alg": "none", "typ": "JWT"})), base64(&claims));
    let listed = audiences.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let issued = Token {
        namespace: namespace.to_owned(),
        account: name.to_owned(),
        uid: account.uid.to_string(),
        id,
        audiences: listed.collect(),
        end,
    };
    state.access.tokens.issue(token.clone(), issued, now);
    let mut spec = json!({"audiences": audiences, "expirationSeconds": life});
    spec["boundObjectRef"] = asked["spec"]["boundObjectRef"].clone();
    Ok(json!({
        "kind": KIND, "apiVersion": API_VERSION,
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": clock::seconds(now)},
        "spec": spec,
        "status": {
            "token": token,
            "expirationTimestamp": clock::seconds(end),
        },
    }))
}

fn life(asked: &Value) -> Result<i64, crate::status::Cause> {
    let invalid = |detail: &str| Err(field::invalid("spec.expirationSeconds", asked, detail));
    match asked {
        Value::Null => Ok(DEFAULT_LIFE),
        seconds => match seconds.as_i64() {
            None => invalid("must be a whole number of seconds"),
            Some(seconds) if seconds < SHORTEST_LIFE => {
                invalid("may not specify a duration less than 10 minutes")
            }
            Some(seconds) if seconds > LONGEST_LIFE => {
                invalid("may not specify a duration larger than 2^32 seconds")
            }
            Some(seconds) => Ok(seconds),
        },
    }
}

/// JSON in base64url without padding.
fn base64(value: &Value) -> String {
    let text = serde_json::to_value(ByteString(value.to_string().into_bytes())).unwrap_or_default();
    text.as_str().unwrap_or_default().trim_end_matches('=').replace('+', "-").replace('/', "_")
}
