//! Parses an object of the kind `Plugin`. Its content is untrusted: the CRD's schema may be another one than this host's.

use pilothouse_model::Object;
use pilothouse_yaml::{FieldPath, ValueError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::object_status::PluginObjectStatus;
use super::selection::Refusal;
use crate::access::ServiceAccount;
use crate::config::sidecar::{MAX_SIDECAR, Sidecar};
use crate::logs::printable;

/// Limit in bytes for a stored status. A larger one was not written by a host, and is replaced.
const MAX_STATUS: usize = 64 << 10;
/// Limit in bytes for the description of what is wrong with a spec.
const MAX_PROBLEM: usize = 500;
/// Limit in bytes for `image` and `poll`.
const MAX_TEXT: usize = 1024;

/// An object of the kind `Plugin`.
#[derive(Clone, Debug)]
pub(crate) struct PluginObject {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) generation: u64,
    pub(crate) resource_version: String,
    /// `metadata.creationTimestamp`, whose texts are ordered like the times.
    pub(super) created: String,
    pub(super) spec: Result<PluginSpec, Refusal>,
    /// The stored status.
    pub(crate) status: PluginObjectStatus,
}

/// The members of `spec` that a sidecar does not have.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ImageMembers {
    /// The plugin's artifact in an OCI registry: `REGISTRY/REPOSITORY:TAG`, or with `@sha256:DIGEST`; `oci://` in front is optional.
    image: String,
    /// How often a tag is looked at: a number with `s`, `m` or `h`, at least `10s`; `60s` by default.
    poll: Option<String>,
}

/// The valid `spec` of an object.
#[derive(Clone, Debug)]
pub(super) struct PluginSpec {
    pub(super) image: String,
    pub(super) poll: Option<String>,
    /// The members of the sidecar.
    pub(super) members: Map<String, Value>,
    /// The bytes of the JSON text.
    pub(super) size: usize,
    pub(super) service_account: Option<ServiceAccount>,
    /// Whether CRDs are granted.
    pub(super) grants_crds: bool,
    /// Whether HTTP hosts are granted.
    pub(super) grants_http: bool,
}

impl PluginObject {
    pub(crate) fn parse(object: &Object) -> Self {
        Self {
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            generation: object.generation(),
            resource_version: object.resource_version().to_owned(),
            created: object.text("/metadata/creationTimestamp").unwrap_or_default().into_owned(),
            spec: PluginSpec::parse(object.field("/spec").unwrap_or_default()),
            status: parse_status(object),
        }
    }

    /// Whether this is the same object with the same spec.
    pub(crate) fn has_spec_of(&self, object: &Object) -> bool {
        self.uid == object.uid() && self.generation == object.generation()
    }

    /// Takes the rest from a newer version of the object with the same spec.
    pub(crate) fn update_status(&mut self, object: &Object) {
        self.resource_version = object.resource_version().to_owned();
        self.status = parse_status(object);
    }
}

fn parse_status(object: &Object) -> PluginObjectStatus {
    let text = object.field("/status").filter(|text| text.len() <= MAX_STATUS);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

impl PluginSpec {
    fn parse(text: &str) -> Result<Self, Refusal> {
        if text.len() > MAX_SIDECAR {
            let (size, most) = (text.len(), MAX_SIDECAR);
            return Err(invalid(&format!("spec: it has {size} bytes, and at most {most} are accepted")));
        }
        // Nesting beyond 128 levels is an error.
        let members = serde_json::from_str::<Map<String, Value>>(text);
        let mut members = members.map_err(|error| invalid(&format!("spec: it cannot be read: {error}")))?;
        let image_members = pilothouse_yaml::from_value::<ImageMembers>(Value::Object(members.clone()));
        let ImageMembers { image, poll } = image_members.map_err(|error| {
            let problem = ValueError { path: FieldPath::of_members("spec").join(&error.path), ..error };
            invalid(&format!("{problem}; write the image as oci://REGISTRY/REPOSITORY:TAG"))
        })?;
        if image.len().max(poll.as_ref().map_or(0, String::len)) > MAX_TEXT {
            return Err(invalid(&format!("spec: image or poll has more than {MAX_TEXT} bytes")));
        }
        members.retain(|name, _| name != "image" && name != "poll");
        let sidecar = Sidecar::parse_members(&members)
            .map_err(|error| invalid(&error.below(&FieldPath::of_members("spec"))))?;
        Ok(Self {
            image,
            poll,
            members,
            size: text.len(),
            service_account: sidecar.service_account,
            grants_crds: sidecar.grants.crds == Some(true),
            grants_http: !sidecar.grants.http.is_empty(),
        })
    }
}

/// An error may repeat a text of the object, of which only a part is shown.
fn invalid(problem: &str) -> Refusal {
    let problem = printable(&problem[..problem.floor_char_boundary(MAX_PROBLEM)]);
    Refusal::new("InvalidSpec", format!("{problem}; the plugin does not run until this is corrected"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(spec: &Value) -> Result<PluginSpec, String> {
        let object = json!({
            "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": spec, "status": {"observedGeneration": 2, "future": [1]},
        });
        let object = PluginObject::parse(&Object::from_json(object.to_string()).expect("an object"));
        assert_eq!((object.generation, object.created.as_str()), (3, "2026-01-01T00:00:00Z"));
        assert_eq!(object.status.observed_generation, 2);
        object.spec.map_err(|refusal| {
            assert_eq!(refusal.reason, "InvalidSpec");
            refusal.message
        })
    }

    #[test]
    fn a_spec_is_a_sidecar_with_an_image() {
        let spec =
            parsed(&json!({"image": "r.example/p:1", "poll": "5m", "workers": 2, "config": {"a": [1]}}));
        let spec = spec.expect("valid");
        assert_eq!((spec.image.as_str(), spec.poll.as_deref()), ("r.example/p:1", Some("5m")));
        assert_eq!(Value::Object(spec.members), json!({"workers": 2, "config": {"a": [1]}}));
        assert!(!spec.grants_crds && !spec.grants_http && spec.service_account.is_none());
        let grants = json!({"crds": true, "http": ["a.example.com"]});
        let spec =
            parsed(&json!({"image": "r.example/p:1", "grants": grants, "serviceAccount": "shop/robot"}));
        let spec = spec.expect("valid");
        assert!(spec.grants_crds && spec.grants_http, "{spec:?}");
        assert_eq!(spec.service_account.map(|account| account.to_string()).as_deref(), Some("shop/robot"));
    }

    #[test]
    fn a_change_of_the_status_keeps_the_parsed_spec() {
        let object = |generation: u64, uid: &str, version: &str, state: &str| {
            let object = json!({
                "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
                "metadata": {"name": "p", "uid": uid, "generation": generation, "resourceVersion": version},
                "spec": {"image": "r.example/p:1"}, "status": {"state": state},
            });
            Object::from_json(object.to_string()).expect("an object")
        };
        let mut known = PluginObject::parse(&object(1, "a", "5", ""));
        let newer = object(1, "a", "6", "running");
        assert!(known.has_spec_of(&newer));
        known.update_status(&newer);
        assert_eq!((known.resource_version.as_str(), known.status.state.as_str()), ("6", "running"));
        assert!(!known.has_spec_of(&object(2, "a", "7", "")) && !known.has_spec_of(&object(1, "b", "7", "")));
    }

    #[test]
    fn a_hostile_spec_is_refused_with_a_short_reason() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        for (spec, part) in [
            (json!({}), "missing field `image`"),
            (json!({"image": 7}), "spec.image: invalid type: integer `7`"),
            (json!({"image": "x".repeat(2000)}), "image or poll has more than 1024 bytes"),
            (json!({"image": "r/p:1", "poll": ["1s"]}), "spec.poll: invalid type: sequence"),
            (json!({"image": "r/p:1", "worker": 2}), "spec.worker: unknown field"),
            (json!({"image": "r/p:1", "workers": 0}), "spec.workers: 0 is not between"),
            (
                json!({"image": "r/p:1", "grants": {"writes": [{"verb": []}]}}),
                "spec.grants.writes[0].verb: unknown field",
            ),
            (json!({"image": "r/p:1", "serviceAccount": "a/../b"}), "is not a service account"),
            (json!({"image": "r/p:1", "config": {"deep": nested(100)}}), "spec: "),
            (json!({"image": "r/p:1", "config": {"text": "x".repeat(MAX_SIDECAR)}}), "bytes"),
            (json!([]), "cannot be read"),
            (json!("text\u{1b}[31m"), "cannot be read"),
            (json!("x".repeat(5000)), "cannot be read"),
        ] {
            let error = parsed(&spec).expect_err(part);
            assert!(error.contains(part), "{part}: {error}");
            assert!(error.len() < 1000 && !error.contains(['\n', '\u{1b}']), "{error}");
        }
    }

    #[test]
    fn a_status_that_no_host_wrote_is_ignored() {
        for status in [json!("text"), json!({"conditions": 3}), json!({"state": "x".repeat(MAX_STATUS)})] {
            let object = json!({"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": "p"}, "status": status});
            let object = PluginObject::parse(&Object::from_json(object.to_string()).expect("an object"));
            assert_eq!(object.status, PluginObjectStatus::default());
        }
    }
}
