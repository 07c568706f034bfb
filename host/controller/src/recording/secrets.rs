//! Replaces the values of Secrets and other credentials in recorded calls by keyed hashes.
//!
//! A hash has the form of the value that it replaces: a value of `data` is Base64 of text, one of `stringData` is that text. So a plugin that
//! copies a value from one to the other writes, in a replay, what the recording has.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::{Map, Value};

use super::format::RecordedCall;

/// The beginning of the text that replaces a value.
const PREFIX: &str = "hmac-sha256:";
/// The annotation in which `kubectl apply` keeps a copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The members of a Secret with values. Those of the first are Base64.
const VALUE_MEMBERS: [&str; 2] = ["data", "stringData"];

/// Hashes values with a random key.
pub(super) struct SecretHasher {
    key: hmac::Key,
}

impl SecretHasher {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &key) }
    }

    /// Replaces the values of Secrets in the arguments and in the answer.
    pub(super) fn hash_call(&self, call: &mut RecordedCall) {
        if call.function == "http" {
            self.hash_url(&mut call.arguments);
            return;
        }
        let is_of_secret = is_secret(&call.arguments);
        if let Some(patch) = call.arguments.get_mut("patch").filter(|_| is_of_secret) {
            self.hash_patch(patch);
        }
        match call.arguments.get_mut("manifest") {
            // It is no JSON, so it may be a Secret in another notation or with a mistake.
            Some(manifest @ Value::String(_)) => self.hash_value("stringData", manifest),
            // A manifest without a kind is refused, but may be that of a Secret.
            Some(Value::Object(members)) if !members.contains_key("kind") => self.hash_secret(members),
            _ => self.hash_objects(&mut call.arguments),
        }
        self.hash_objects(&mut call.answer);
    }

    /// Replaces the query of a URL and the user before its host, which may contain credentials.
    fn hash_url(&self, arguments: &mut Value) {
        let Some(url) = arguments.get_mut("url") else { return };
        let Some(text) = url.as_str() else { return };
        let hashed = match text.split_once('?') {
            Some((address, query)) => format!("{}?{}", self.hash_user(address), self.hash(query.as_bytes())),
            None => self.hash_user(text),
        };
        *url = Value::String(hashed);
    }

    /// Returns the address of a URL without the user before its host.
    fn hash_user(&self, address: &str) -> String {
        let parts = address.split_once("://").map(|(scheme, rest)| {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (scheme, authority.rsplit_once('@'), path)
        });
        match parts {
            Some((scheme, Some((user, host)), path)) => {
                format!("{scheme}://{}@{host}{path}", self.hash(user.as_bytes()))
            }
            _ => address.to_owned(),
        }
    }

    /// Replaces the values of all Secrets in the tree, and the tokens of service accounts.
    fn hash_objects(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.hash_objects(item)),
            Value::Object(members) => {
                let kind = members.get("kind").and_then(Value::as_str);
                if kind.is_some_and(names_secrets) || members.contains_key("stringData") {
                    self.hash_secret(members);
                } else if matches!(kind, Some("TokenRequest" | "TokenReview")) {
                    self.hash_token(members);
                } else {
                    members.values_mut().for_each(|member| self.hash_objects(member));
                }
            }
            _ => {}
        }
    }

    /// Replaces the token in the status of a TokenRequest, or in the specification of a TokenReview.
    fn hash_token(&self, request: &mut Map<String, Value>) {
        for member in ["spec", "status"] {
            if let Some(token) = request.get_mut(member).and_then(|part| part.get_mut("token")) {
                self.hash_value("stringData", token);
            }
        }
    }

    fn hash_secret(&self, secret: &mut Map<String, Value>) {
        for name in VALUE_MEMBERS {
            if let Some(values) = secret.get_mut(name) {
                self.hash_values(name, values);
            }
        }
        if let Some(metadata) = secret.get_mut("metadata") {
            self.hash_copy(metadata);
        }
    }

    /// Replaces the annotation with the copy of the object. The value is the metadata or the annotations.
    fn hash_copy(&self, value: &mut Value) {
        if let Some(annotations) = value.get_mut("annotations") {
            self.hash_copy(annotations);
        } else if let Some(copy) = value.get_mut(LAST_APPLIED) {
            self.hash_value("stringData", copy);
        }
    }

    /// Replaces a patch's values. A patch that is no JSON is replaced as a whole.
    fn hash_patch(&self, patch: &mut Value) {
        match patch {
            Value::Object(members) => self.hash_secret(members),
            Value::Array(operations) => {
                operations.iter_mut().for_each(|operation| self.hash_operation(operation));
            }
            other => self.hash_value("stringData", other),
        }
    }

    /// Replaces the value of an operation of a JSON patch.
    fn hash_operation(&self, operation: &mut Value) {
        let path = operation.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(value) = operation.get_mut("value") else { return };
        let mut segments = path.split('/').skip(1);
        match (segments.next(), segments.next()) {
            (None, _) => match value {
                Value::Object(members) => self.hash_secret(members),
                other => self.hash_value("stringData", other),
            },
            (Some(name), None) if VALUE_MEMBERS.contains(&name) => self.hash_values(name, value),
            (Some(name), Some(_)) if VALUE_MEMBERS.contains(&name) => self.hash_value(name, value),
            (Some("metadata"), _) if path.ends_with("last-applied-configuration") => {
                self.hash_value("stringData", value);
            }
            (Some("metadata"), _) => self.hash_copy(value),
            _ => {}
        }
    }

    /// Replaces all values of `data` or `stringData`.
    fn hash_values(&self, member: &str, values: &mut Value) {
        match values {
            Value::Null => {}
            Value::Object(values) => values.values_mut().for_each(|value| self.hash_value(member, value)),
            other => self.hash_value(member, other),
        }
    }

    /// Replaces one value, whatever its type. `null` deletes a value and stays.
    fn hash_value(&self, member: &str, value: &mut Value) {
        let text = match &*value {
            Value::Null => return,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let hashed = if member == "data" {
            let bytes = STANDARD.decode(&text).unwrap_or_else(|_| text.into_bytes());
            STANDARD.encode(self.hash(&bytes))
        } else {
            self.hash(text.as_bytes())
        };
        *value = Value::String(hashed);
    }

    fn hash(&self, bytes: &[u8]) -> String {
        let tag = hmac::sign(&self.key, bytes);
        let mut text = PREFIX.to_owned();
        text.extend(tag.as_ref().iter().map(|byte| format!("{byte:02x}")));
        text
    }
}

/// Whether the members name the kind Secret.
fn is_secret(value: &Value) -> bool {
    value.get("kind").and_then(Value::as_str).is_some_and(names_secrets)
}

/// Whether a kind is that of Secrets, also with a mistake, because refused calls are recorded, too.
fn names_secrets(kind: &str) -> bool {
    kind.eq_ignore_ascii_case("Secret") || kind.eq_ignore_ascii_case("Secrets")
}

/// Whether the text contains a hash, as it is or as Base64.
pub(super) fn contains_hash(text: &str) -> bool {
    text.contains(PREFIX) || STANDARD.decode(text).is_ok_and(|bytes| bytes.starts_with(PREFIX.as_bytes()))
}

/// Compares a value in a recording with one in a replay. Returns how many texts could not be compared, or `None` if the values differ. A hash
/// cannot be compared with a text that contains no hash, because the text may be the one that was hashed.
pub(super) fn compare(recorded: &Value, replayed: &Value) -> Option<u64> {
    match (recorded, replayed) {
        (Value::Object(recorded), Value::Object(replayed)) if recorded.len() == replayed.len() => {
            recorded.iter().try_fold(0, |sum, (name, value)| Some(sum + compare(value, replayed.get(name)?)?))
        }
        (Value::Array(recorded), Value::Array(replayed)) if recorded.len() == replayed.len() => recorded
            .iter()
            .zip(replayed)
            .try_fold(0, |sum, (recorded, replayed)| Some(sum + compare(recorded, replayed)?)),
        (recorded, replayed) if recorded == replayed => Some(0),
        // A patch or a URL that was hashed as a whole may have had any form.
        (Value::String(recorded), replayed) => {
            let is_known = replayed.as_str().is_some_and(contains_hash);
            (contains_hash(recorded) && !is_known).then_some(1)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hashed(function: &str, arguments: Value, answer: Value) -> RecordedCall {
        let mut call = RecordedCall { function: function.to_owned(), arguments, answer };
        SecretHasher::new([7; 32]).hash_call(&mut call);
        call
    }

    fn secret(data: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations": {LAST_APPLIED: "c3VwZXI="}},
            "data": data, "stringData": {"plain": "super"}})
    }

    #[test]
    fn the_values_of_secrets_are_replaced_wherever_they_are() {
        let super_secret = secret(&json!({"a": "c3VwZXI=", "b": "c3VwZXI="}));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "public"}});
        for call in [
            hashed("cache.get", json!({}), json!({"object": super_secret})),
            hashed(
                "cache.list",
                json!({}),
                json!({"cachePage": {"items": [map, super_secret], "more": false}}),
            ),
            hashed("cache.by-index", json!({}), json!({"objects": {"found": [super_secret]}})),
            hashed("client.create", json!({"manifest": super_secret}), json!({"object": super_secret})),
            hashed(
                "client.patch",
                json!({"kind": "Secret", "patch": {"data": {"a": "c3VwZXI="}, "stringData": {"b": "super"}}}),
                json!("nothing"),
            ),
            hashed(
                "client.patch",
                json!({"kind": "Secret", "patch": [
                    {"op": "add", "path": "/data/a", "value": "c3VwZXI="},
                    {"op": "add", "path": "/stringData", "value": {"a": "super"}},
                    {"op": "replace", "path": "", "value": super_secret},
                    {"op": "add", "path": "/metadata", "value": {"annotations": {LAST_APPLIED: "super"}}},
                    {"op": "add", "path": "/metadata/annotations", "value": {LAST_APPLIED: "super"}},
                    {"op": "add", "path": "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
                        "value": "super"},
                ]}),
                json!("nothing"),
            ),
            hashed(
                "client.patch",
                json!({"kind": "Secret", "patch": "no JSON, but super"}),
                json!("nothing"),
            ),
            hashed(
                "client.create",
                json!({"manifest": "kind: Secret\nstringData: {a: super}"}),
                json!({"apiError": {"unavailable": ""}}),
            ),
            hashed(
                "client.create",
                json!({"manifest": {"kind": "TokenRequest", "spec": {}}, "subresource": "token"}),
                json!({"object": {"kind": "TokenRequest", "status": {"token": "super"}}}),
            ),
            hashed(
                "client.create",
                json!({"manifest": {"kind": "TokenReview", "spec": {"token": "super"}}}),
                json!({"object": {"kind": "TokenReview", "spec": {"token": "super"}, "status": {}}}),
            ),
            hashed("http", json!({"method": "GET", "url": "https://a.example/b?token=super"}), json!({})),
            hashed("http", json!({"method": "GET", "url": "https://super:c3VwZXI=@a.example/b"}), json!({})),
        ] {
            let text = serde_json::to_string(&call).expect("JSON");
            assert!(!text.contains("super") && !text.contains("c3VwZXI="), "{text}");
        }
    }

    #[test]
    fn a_secret_with_a_mistake_in_its_kind_is_replaced_too() {
        for manifest in [
            json!({"apiVersion": "v1", "kind": "secret", "stringData": {"password": "super"}}),
            json!({"apiVersion": "v1", "kind": "Secrets", "data": {"password": "super"}}),
            json!({"apiVersion": "v1", "stringData": {"password": "super"}}),
            json!({"apiVersion": "v1", "kind": "Secert", "stringData": {"password": "super"}}),
        ] {
            let call = hashed("client.create", json!({"manifest": manifest}), json!("nothing"));
            assert!(!call.arguments.to_string().contains("super"), "{}", call.arguments);
        }
        let patch = json!({"kind": "secrets", "patch": {"data": {"a": "super"}}});
        let call = hashed("client.patch", patch, json!("nothing"));
        assert!(!call.arguments.to_string().contains("super"), "{}", call.arguments);
    }

    #[test]
    fn other_objects_stay_as_they_are() {
        let map = json!({"object": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "public"}}});
        let call = hashed("cache.get", json!({"key": "n/a"}), map.clone());
        assert_eq!((call.arguments, call.answer), (json!({"key": "n/a"}), map));
        let patch = json!({"kind": "Secret", "patch": [{"op": "remove", "path": "/data/a"}]});
        assert_eq!(hashed("client.patch", patch.clone(), json!("nothing")).arguments, patch);
        for url in ["https://a.example/b@c", "https://a.example", "no URL"] {
            let arguments = json!({"method": "GET", "url": url});
            assert_eq!(hashed("http", arguments.clone(), json!({})).arguments, arguments);
        }
        let deletion = json!({"kind": "Secret", "patch": {"data": {"a": null}}});
        assert_eq!(hashed("client.patch", deletion.clone(), json!("nothing")).arguments, deletion);
    }

    #[test]
    fn a_value_has_one_hash_in_both_members() {
        let call = hashed("cache.get", json!({}), json!({"object": secret(&json!({"a": "c3VwZXI="}))}));
        let object = &call.answer["object"];
        let decoded = STANDARD.decode(object["data"]["a"].as_str().expect("text")).expect("Base64");
        assert_eq!(decoded, object["stringData"]["plain"].as_str().expect("text").as_bytes());
        let other = SecretHasher::new([8; 32]).hash(b"super");
        assert_ne!(object["stringData"]["plain"], json!(other), "the key matters");
    }

    #[test]
    fn a_hash_equals_unknown_text_and_itself() {
        let hasher = SecretHasher::new([7; 32]);
        let (one, two) = (hasher.hash(b"one"), hasher.hash(b"two"));
        let base64 = STANDARD.encode(&one);
        for (recorded, replayed, expected) in [
            (json!({"data": {"a": base64}}), json!({"data": {"a": base64}}), Some(0)),
            (json!({"data": {"a": base64}}), json!({"data": {"a": "bmV3"}}), Some(1)),
            (json!({"data": {"a": base64}}), json!({"data": {"a": STANDARD.encode(&two)}}), None),
            (json!([one, one]), json!(["made up", {"a": 1}]), Some(2)),
            (json!([one]), json!([two]), None),
            (json!([one]), json!([one, one]), None),
            (json!({"a": 1}), json!({"a": 2}), None),
            (json!({"a": 1}), json!({"b": 1}), None),
            (json!("known"), json!("other"), None),
        ] {
            assert_eq!(compare(&recorded, &replayed), expected, "{recorded} {replayed}");
        }
    }
}
