//! Converts any bytes to requests.

use std::fmt;

use arbitrary::{Result, Unstructured};
use http::Method;
use pilothouse_apiserver::schema::encode_protobuf;
use serde_json::{Value, json};

use super::mutation::{mutate, pointer, special};
use super::samples::{Sample, samples};

/// The most requests of a script.
const MAX_REQUESTS: usize = 12;

/// What a server is asked for, in order.
#[derive(Debug)]
pub(crate) struct Script {
    /// Whether requests are authorized by RBAC.
    pub rbac: bool,
    /// Whether the built-in controllers run.
    pub controllers: bool,
    pub requests: Vec<FuzzRequest>,
}

/// A request. Its parts may not be valid HTTP; then it is left out.
#[derive(Default)]
pub(crate) struct FuzzRequest {
    pub method: Method,
    pub uri: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl fmt::Debug for FuzzRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:?} {}", self.method, self.uri, self.headers, self.body.escape_ascii())
    }
}

impl FuzzRequest {
    /// Whether the response may be a watch, which need not end.
    pub(crate) fn may_watch(&self) -> bool {
        self.uri.contains("watch") || self.uri.contains("follow")
    }

    /// Whether the server must not change anything.
    pub(crate) fn is_read(&self) -> bool {
        !matches!(self.method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
    }

    /// Whether the request deletes a collection, of which some objects may be deleted when it fails.
    pub(crate) fn deletes_collection(&self) -> bool {
        let path = self.uri.split('?').next().unwrap_or_default();
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let (["api", _, resource @ ..] | ["apis", _, _, resource @ ..]) = segments.as_slice() else {
            return false;
        };
        self.method == Method::DELETE && matches!(resource, [_] | ["namespaces", _, _])
    }
}

const NAMES: &[&str] = &[
    "a",
    "b",
    "gadgets.example.com",
    "widgets.example.com",
    "default",
    "system:x",
    "%00",
    "A",
    "a.b",
    "%2F",
    "kubernetes",
];
const NAMESPACES: &[&str] = &["default", "default", "default", "a", "kube-system", "gone", ""];
const SUBRESOURCES: &[&str] =
    &["status", "scale", "eviction", "binding", "token", "finalize", "approval", "log", "x"];
const PATHS: &[&str] = &[
    "/",
    "/api",
    "/apis",
    "/api/v1",
    "/apis/apps",
    "/apis/apps/v1",
    "/apis/example.com",
    "/apis/example.com/v1",
    "/apis/none/v1",
    "/version",
    "/healthz",
    "/readyz?verbose",
    "/livez/ping",
    "/metrics",
    "/openapi/v3",
    "/openapi/v3/api/v1",
    "/openapi/v3/apis/example.com/v1",
    "/openapi/v2",
    "/debug/faults",
    "/debug/snapshot",
    "/debug/x",
    "/api/v1/namespaces//pods",
    "/api/v1/namespaces/default/pods/a/b/c/d",
    "/api/v1/watch/pods",
    "/api/v1/componentstatuses",
    "/%ff/%zz",
    "/apis/../api/v1",
    "//api//v1//pods",
    "/api/v1/pods/a",
    "/api/v1/namespaces/default/nodes",
    "/api/v1/namespaces/default/services/a:http/proxy/x",
    "/.well-known/openid-configuration",
];
const ACCEPT: &[&str] = &[
    "",
    "application/json",
    "application/yaml",
    "application/cbor",
    "application/vnd.kubernetes.protobuf",
    "*/*",
    "text/plain",
    ";;=,q",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
    "application/cbor-seq",
    "application/cbor;as=Table;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;stream=watch,application/json;q=0.1",
    "application/yaml;as=Table;v=v1;g=meta.k8s.io",
    "application/json;q=0",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
];
const CONTENT_TYPES: &[&str] = &[
    "",
    "application/json",
    "application/yaml",
    "application/cbor",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
    "text/plain",
    "application/json; charset=utf-8",
    ";",
];
const QUERY: &[(&str, &[&str])] = &[
    ("dryRun", &["All", "x", ""]),
    ("fieldManager", &["one", "two", "", "%00", "ü"]),
    ("force", &["true", "false", "x"]),
    ("fieldValidation", &["Strict", "Warn", "Ignore", "x"]),
    ("resourceVersion", &["0", "1", "5", "40", "x", "-1", "18446744073709551615", "99999999999999999999"]),
    ("resourceVersionMatch", &["Exact", "NotOlderThan", "x"]),
    ("limit", &["0", "1", "2", "-1", "x", "9223372036854775807", "18446744073709551615"]),
    ("continue", &["TOKEN5", "TOKEN-1", "TOKENBIG", "x", "%3D", "e30"]),
    ("labelSelector", &["app%3Dx", "app%20in%20(x,y),!z", "a%3E1", "(((", "app!%3Dx", "%00"]),
    (
        "fieldSelector",
        &[
            "metadata.name%3Da",
            "status.phase!%3DRunning",
            "spec.mode%3Da",
            "x%3Dy",
            "a%3D%5C",
            "metadata.namespace%3Ddefault",
        ],
    ),
    ("watch", &["1", "true", "0", ""]),
    ("allowWatchBookmarks", &["true", "1"]),
    ("sendInitialEvents", &["true", "false", "x"]),
    ("timeoutSeconds", &["1", "0", "5", "-1", "x", "9223372036854775807", "18446744073709551615"]),
    ("timeout", &["1s", "x"]),
    ("pretty", &["true", "x"]),
    ("propagationPolicy", &["Background", "Foreground", "Orphan", "x"]),
    ("gracePeriodSeconds", &["0", "-1", "1", "9223372036854775807", "x"]),
    ("orphanDependents", &["true", "false"]),
    ("includeObject", &["None", "Metadata", "Object", "x"]),
    ("container", &["c", "x"]),
    ("follow", &["true"]),
    ("tailLines", &["0", "-1", "9223372036854775807"]),
    ("limitBytes", &["0", "1"]),
    ("sinceSeconds", &["0", "9223372036854775807"]),
    ("command", &["ls"]),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", &["true"]),
];
/// Headers beside `Accept` and `Content-Type`.
const HEADERS: &[(&str, &str)] = &[
    ("user-agent", "kubectl/v1.36 (linux)"),
    ("user-agent", "/"),
    ("authorization", "Bearer x"),
    ("authorization", "Basic eA=="),
    ("impersonate-user", "u"),
    ("impersonate-user", "system:serviceaccount:default:a"),
    ("impersonate-group", "system:masters"),
    ("impersonate-uid", "1"),
    ("if-none-match", "\"x\""),
    ("if-none-match", "*"),
    ("accept-encoding", "gzip"),
    ("kubectl-command", "x"),
];

/// Returns the script for these bytes.
pub(crate) fn script(input: &[u8]) -> Script {
    let mut bytes = Unstructured::new(input);
    let flags: u8 = bytes.arbitrary().unwrap_or_default();
    let mut requests = Vec::new();
    while !bytes.is_empty() && requests.len() < MAX_REQUESTS {
        // The script ends if the bytes end in the middle of a request.
        let Ok(request) = request(&mut bytes) else { break };
        requests.push(request);
    }
    Script { rbac: flags & 3 == 3, controllers: flags & 12 == 12, requests }
}

fn request(bytes: &mut Unstructured<'_>) -> Result<FuzzRequest> {
    let sample = bytes.choose(&samples().resources)?;
    let namespace = *bytes.choose(NAMESPACES)?;
    let collection = sample.collection(namespace);
    let name = if bytes.ratio(3, 4)? { sample.name() } else { *bytes.choose(NAMES)? };
    let object = format!("{collection}/{name}");
    let mut request = match bytes.int_in_range(0..=19)? {
        0..=4 => with_object(Method::POST, collection, &named(sample, name, bytes)?, bytes)?,
        5 | 6 => with_object(Method::PUT, object, &named(sample, name, bytes)?, bytes)?,
        7..=9 => patch(object, sample, name, bytes)?,
        10 | 11 => apply(&object, sample, name, bytes)?,
        12 | 13 => deletion(object, bytes)?,
        14 => deletion(collection, bytes)?,
        15 => FuzzRequest { uri: bytes.choose(&[collection, object])?.clone(), ..FuzzRequest::default() },
        16 | 17 => subresource(&object, sample, name, bytes)?,
        18 => FuzzRequest { uri: (*bytes.choose(PATHS)?).to_owned(), ..FuzzRequest::default() },
        _ => anything(bytes)?,
    };
    add_query(&mut request.uri, bytes)?;
    add_headers(&mut request.headers, bytes)?;
    Ok(request)
}

/// Returns the sample with a name and some changes.
fn named(sample: &Sample, name: &str, bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut object = sample.object.clone();
    object["metadata"]["name"] = json!(name);
    if bytes.ratio(1, 8)? {
        object["metadata"] = json!({"generateName": "a-", "finalizers": ["example.com/f"]});
    }
    mutate(&mut object, bytes)?;
    Ok(object)
}

/// Returns a request with an object in one of the encodings of objects.
fn with_object(
    method: Method,
    uri: String,
    object: &Value,
    bytes: &mut Unstructured<'_>,
) -> Result<FuzzRequest> {
    let json = object.to_string().into_bytes();
    let (content_type, mut body) = match bytes.int_in_range(0..=7)? {
        0 => ("application/yaml", json),
        1 => ("application/cbor", to_cbor(object)),
        2 | 3 => match encode_protobuf(object) {
            Ok(encoded) => ("application/vnd.kubernetes.protobuf", encoded),
            Err(_) => ("application/json", json),
        },
        _ => ("application/json", json),
    };
    damage(&mut body, bytes)?;
    Ok(FuzzRequest { method, uri, headers: vec![("content-type", content_type.to_owned())], body })
}

fn to_cbor(value: &Value) -> Vec<u8> {
    let mut encoded = Vec::new();
    ciborium::into_writer(value, &mut encoded).expect("a JSON value has a form in CBOR");
    encoded
}

/// Damages one body of eight: cuts it off, changes, repeats or adds bytes.
fn damage(body: &mut Vec<u8>, bytes: &mut Unstructured<'_>) -> Result<()> {
    if body.is_empty() || !bytes.ratio(1, 8)? {
        return Ok(());
    }
    let at = bytes.choose_index(body.len())?;
    match bytes.int_in_range(0..=4)? {
        0 => body.truncate(at),
        1 => body[at] = bytes.arbitrary()?,
        2 => drop(body.remove(at)),
        3 => {
            let end = (at + 20).min(body.len());
            let piece = body[at..end].to_vec();
            drop(body.splice(at..at, piece));
        }
        _ => body.insert(at, bytes.arbitrary()?),
    }
    Ok(())
}

fn patch(uri: String, sample: &Sample, name: &str, bytes: &mut Unstructured<'_>) -> Result<FuzzRequest> {
    let object = named(sample, name, bytes)?;
    let (content_type, patch) = match bytes.int_in_range(0..=5)? {
        0 | 1 => ("application/json-patch+json", json_patch(&sample.object, bytes)?),
        2 | 3 => ("application/merge-patch+json", part(object, bytes)?),
        _ => ("application/strategic-merge-patch+json", part(object, bytes)?),
    };
    let mut body = patch.to_string().into_bytes();
    damage(&mut body, bytes)?;
    Ok(FuzzRequest {
        method: Method::PATCH,
        uri,
        headers: vec![("content-type", content_type.to_owned())],
        body,
    })
}

/// Keeps one member of the object, mostly.
fn part(object: Value, bytes: &mut Unstructured<'_>) -> Result<Value> {
    let Value::Object(members) = &object else { return Ok(object) };
    if members.is_empty() || bytes.ratio(1, 4)? {
        return Ok(object);
    }
    let (name, value) = members.iter().nth(bytes.choose_index(members.len())?).expect("below the count");
    Ok(json!({name: value}))
}

fn json_patch(object: &Value, bytes: &mut Unstructured<'_>) -> Result<Value> {
    let count = bytes.int_in_range(0..=4)?;
    let operation = |bytes: &mut Unstructured<'_>| {
        let op = *bytes.choose(&["add", "remove", "replace", "move", "copy", "test", "x"])?;
        let mut operation = json!({"op": op, "path": pointer(object, bytes)?});
        match op {
            "move" | "copy" => operation["from"] = json!(pointer(object, bytes)?),
            "remove" => {}
            _ => operation["value"] = special(bytes)?,
        }
        if bytes.ratio(1, 12)? {
            mutate(&mut operation, bytes)?;
        }
        Ok(operation)
    };
    (0..count).map(|_| operation(bytes)).collect::<Result<Vec<_>>>().map(Value::from)
}

fn apply(uri: &str, sample: &Sample, name: &str, bytes: &mut Unstructured<'_>) -> Result<FuzzRequest> {
    let object = named(sample, name, bytes)?;
    let (content_type, mut body) = if bytes.ratio(1, 5)? {
        ("application/apply-patch+cbor", to_cbor(&object))
    } else {
        ("application/apply-patch+yaml", object.to_string().into_bytes())
    };
    damage(&mut body, bytes)?;
    let manager = bytes.choose(&[
        "?fieldManager=one",
        "?fieldManager=two&force=true",
        "?fieldManager=three&force=1",
        "",
    ])?;
    let headers = vec![("content-type", content_type.to_owned())];
    Ok(FuzzRequest { method: Method::PATCH, uri: format!("{uri}{manager}"), headers, body })
}

fn deletion(uri: String, bytes: &mut Unstructured<'_>) -> Result<FuzzRequest> {
    if bytes.arbitrary()? {
        return Ok(FuzzRequest { method: Method::DELETE, uri, ..FuzzRequest::default() });
    }
    let mut options = samples().subresource_bodies.last().expect("DeleteOptions").clone();
    // Each option makes most deletions fail or keep the object.
    for name in ["preconditions", "dryRun", "orphanDependents", "gracePeriodSeconds"] {
        if bytes.ratio(3, 4)? {
            options.as_object_mut().expect("an object").remove(name);
        }
    }
    mutate(&mut options, bytes)?;
    with_object(Method::DELETE, uri, &options, bytes)
}

fn subresource(
    object: &str,
    sample: &Sample,
    name: &str,
    bytes: &mut Unstructured<'_>,
) -> Result<FuzzRequest> {
    let known: Vec<&str> = sample.subresources.iter().map(String::as_str).collect();
    let subresource = if known.is_empty() || bytes.ratio(1, 6)? {
        *bytes.choose(SUBRESOURCES)?
    } else {
        *bytes.choose(&known)?
    };
    let uri = format!("{object}/{subresource}");
    let mut body = match subresource {
        "status" | "approval" | "finalize" | "resize" | "ephemeralcontainers" => sample.object.clone(),
        _ => bytes.choose(&samples().subresource_bodies)?.clone(),
    };
    body["metadata"]["name"] = json!(name);
    mutate(&mut body, bytes)?;
    match bytes.int_in_range(0..=5)? {
        0 | 1 => with_object(Method::POST, uri, &body, bytes),
        2 | 3 => with_object(Method::PUT, uri, &body, bytes),
        4 => {
            let patch = part(body, bytes)?.to_string().into_bytes();
            let content_type = (*bytes.choose(&CONTENT_TYPES[5..9])?).to_owned();
            Ok(FuzzRequest {
                method: Method::PATCH,
                uri,
                headers: vec![("content-type", content_type)],
                body: patch,
            })
        }
        _ => Ok(FuzzRequest { uri, ..FuzzRequest::default() }),
    }
}

/// Returns a request whose parts have nothing to do with each other.
fn anything(bytes: &mut Unstructured<'_>) -> Result<FuzzRequest> {
    let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "X"];
    let method = Method::from_bytes(bytes.choose(&methods)?.as_bytes()).unwrap_or_default();
    let sample = bytes.choose(&samples().resources)?;
    let uri = match bytes.int_in_range(0..=3)? {
        0 => (*bytes.choose(PATHS)?).to_owned(),
        1 => format!("/{}", percent_encoded(bytes.bytes(bytes.len().min(24))?)),
        2 => {
            format!("{}/{}", sample.collection("default"), percent_encoded(bytes.bytes(bytes.len().min(8))?))
        }
        _ => format!("{}/{}", sample.collection("default"), bytes.choose(NAMES)?),
    };
    let content_type = (*bytes.choose(CONTENT_TYPES)?).to_owned();
    let body = match bytes.int_in_range(0..=3)? {
        0 => Vec::new(),
        1 => bytes.bytes(bytes.len().min(64))?.to_vec(),
        2 => [b"k8s\0", bytes.bytes(bytes.len().min(64))?].concat(),
        _ => {
            let mut object = sample.object.clone();
            mutate(&mut object, bytes)?;
            object.to_string().into_bytes()
        }
    };
    Ok(FuzzRequest { method, uri, headers: vec![("content-type", content_type)], body })
}

/// Encodes all bytes but letters, digits and slashes.
fn percent_encoded(bytes: &[u8]) -> String {
    let encode = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'%' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    bytes.iter().map(encode).collect()
}

fn add_query(uri: &mut String, bytes: &mut Unstructured<'_>) -> Result<()> {
    let count = if bytes.arbitrary()? { 0 } else { bytes.int_in_range(1..=4)? };
    for _ in 0..count {
        let (name, values) = bytes.choose(QUERY)?;
        let value = match *bytes.choose(values)? {
            "TOKEN5" => "eyJ2IjogInBpbG90aG91c2UuZGV2L3YxIiwgInJ2IjogNSwgInN0YXJ0IjogWyJkZWZhdWx0IiwgImEiXX0",
            "TOKEN-1" => {
                "eyJ2IjogInBpbG90aG91c2UuZGV2L3YxIiwgInJ2IjogLTEsICJzdGFydCI6IFsiZGVmYXVsdCIsICJhIl19"
            }
            "TOKENBIG" => {
                "eyJ2IjogInBpbG90aG91c2UuZGV2L3YxIiwgInJ2IjogMTAwMDAwMDAwMDAwMDAwMCwgInN0YXJ0IjogWyJkZWZhdWx0IiwgImEiXX0"
            }
            value => value,
        };
        let separator = if uri.contains('?') { '&' } else { '?' };
        uri.push_str(&format!("{separator}{name}={value}"));
    }
    Ok(())
}

fn add_headers(headers: &mut Vec<(&'static str, String)>, bytes: &mut Unstructured<'_>) -> Result<()> {
    if bytes.arbitrary()? {
        headers.push(("accept", (*bytes.choose(ACCEPT)?).to_owned()));
    }
    if bytes.ratio(1, 12)? {
        let content_type = (*bytes.choose(CONTENT_TYPES)?).to_owned();
        headers.retain(|(name, _)| *name != "content-type");
        headers.push(("content-type", content_type));
    }
    if bytes.ratio(1, 6)? {
        let (name, value) = *bytes.choose(HEADERS)?;
        headers.push((name, value.to_owned()));
    }
    Ok(())
}
