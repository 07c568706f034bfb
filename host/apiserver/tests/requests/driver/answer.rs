//! Checks of responses and of stored objects.

use ciborium::Value as Cbor;
use pilothouse_apiserver::Commit;
use serde_json::Value;

use super::script::FuzzRequest;

/// The encodings and forms of lists.
pub(crate) const ENCODINGS: [&str; 6] = [
    "application/json",
    "application/yaml",
    "application/cbor",
    "application/vnd.kubernetes.protobuf, application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
];

/// What kube-apiserver answers with 500, too, although the request is wrong.
const LIKE_KUBERNETES: [&str; 3] =
    ["failed to create typed patch object", "without impersonating a user", "strconv.ParseUint: parsing"];

/// Returns whether the answer may be one of [`LIKE_KUBERNETES`] whose text nobody sees, because answers to HEAD have no body.
fn is_silent_like_kubernetes(request: &FuzzRequest) -> bool {
    let impersonates = request.headers.iter().any(|(name, _)| name.starts_with("impersonate-"));
    request.method == "HEAD" && (impersonates || request.uri.contains("resourceVersion"))
}

/// The tag for self-described CBOR.
const CBOR_TAG: &[u8] = b"\xd9\xd9\xf7";

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub code: u16,
    pub content_type: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Checks what holds for every response.
    pub(crate) fn check(&self, request: &FuzzRequest) {
        let code = self.code;
        let shown =
            || format!("{request:?}\nwas answered with {code}, {:?}: {}", self.content_type, self.text());
        assert!((200..600).contains(&code), "{}", shown());
        // No request makes the server fail. 504 answers a resourceVersion of the future, and 501 what needs a container.
        let is_expected = code < 500
            || matches!(code, 501 | 504)
            || LIKE_KUBERNETES.iter().any(|text| self.text().contains(text))
            || is_silent_like_kubernetes(request);
        assert!(is_expected && !self.text().contains("panicked"), "{}", shown());
        if request.method == "HEAD" {
            assert!(self.body.is_empty(), "{}", shown());
            return;
        }
        if code < 400 {
            assert!(code < 300 || code == 304, "{}", shown());
            return;
        }
        match self.content_type.as_str() {
            "application/json" | "application/cbor" => {
                let status = self.document().unwrap_or_else(|| panic!("no Status: {}", shown()));
                assert_eq!(status["kind"], "Status", "{}", shown());
                assert_eq!(status["status"], "Failure", "{}", shown());
                assert_eq!(status["code"], code, "{}", shown());
                assert!(status["message"].as_str().is_some_and(|text| !text.is_empty()), "{}", shown());
            }
            // The crate decodes protobuf of requests only, which have no Status.
            "application/vnd.kubernetes.protobuf" => {
                let text = self.text();
                assert!(
                    text.starts_with("k8s\0") && text.contains("Status") && text.contains("Failure"),
                    "{}",
                    shown()
                );
            }
            "application/yaml" => {
                let text = self.text();
                assert!(
                    text.contains("kind: Status") && text.contains(&format!("code: {code}")),
                    "{}",
                    shown()
                );
            }
            // As in Kubernetes, the path has no handler.
            "text/plain; charset=utf-8" => {
                assert_eq!((code, self.text().as_str()), (404, "404 page not found\n"), "{}", shown());
            }
            _ => panic!("an error without a Status: {}", shown()),
        }
    }

    fn document(&self) -> Option<Value> {
        match self.content_type.as_str() {
            "application/cbor" => scalars(self.body.strip_prefix(CBOR_TAG)?),
            _ => serde_json::from_slice(&self.body).ok(),
        }
    }
}

/// Returns the texts and numbers of a map in CBOR, in which Kubernetes writes texts as byte strings.
fn scalars(encoded: &[u8]) -> Option<Value> {
    let Ok(Cbor::Map(members)) = ciborium::from_reader(encoded) else { return None };
    let text = |value: &Cbor| String::from_utf8(value.as_bytes()?.clone()).ok();
    let number = |value: &Cbor| u64::try_from(value.as_integer()?).ok();
    let scalar = |value: &Cbor| text(value).map(Value::from).or_else(|| number(value).map(Value::from));
    Some(members.iter().filter_map(|(name, value)| Some((text(name)?, scalar(value)?))).collect())
}

/// Returns what is missing or wrong in the metadata of a stored object.
pub(crate) fn incomplete(object: &Value, commit: &Commit, previous: Option<&Value>) -> Option<String> {
    let metadata = &object["metadata"];
    let text = |name: &str| metadata[name].as_str().unwrap_or_default();
    if text("name") != commit.name || text("name").is_empty() || text("namespace") != commit.namespace {
        return Some("the name or the namespace".into());
    }
    if text("resourceVersion") != commit.revision.to_string() {
        return Some("the resourceVersion".into());
    }
    let required = ["uid", "creationTimestamp"];
    if let Some(missing) = required.into_iter().find(|name| text(name).is_empty()) {
        return Some(missing.into());
    }
    // Identity never changes.
    required
        .into_iter()
        .find(|name| previous.is_some_and(|previous| previous["metadata"][*name] != metadata[*name]))
        .map(str::to_owned)
}
