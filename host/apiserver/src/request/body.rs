//! Request bodies.

use http::Method;
use serde_json::{Map, Value};
use serde_saphyr::{DuplicateKeyPolicy, Error as YamlError};

use super::strict::{self, StrictErrors, Target};
use super::{Request, yaml_keys};
use crate::go;
use crate::go_json;
use crate::meta;
use crate::registry::Endpoint;
use crate::schema::{Schema, decode_protobuf, field};
use crate::status::{ResourceRef, Status};

/// The largest accepted body in bytes, as in kube-apiserver.
pub(crate) const LIMIT: usize = 3 * 1024 * 1024;

/// How many bytes of a body that is no object of the kind the answer shows, as in kube-apiserver.
const MAX_SUMMARY: usize = 30;

/// The message about a malformed Scale of a custom resource.
const UNKNOWN_SCALE: &str =
    "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"";

const ACCEPTED: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Returns the media type of the body without parameters. If there is no `Content-Type`, returns JSON for a DELETE, whose
/// body is optional, and for a request with a bearer token, and "" for others.
pub(crate) fn content_type(request: &Request) -> &str {
    let kind = request.header("content-type").split(';').next().unwrap_or_default().trim();
    // A browser sends a POST without a content type for any page, but asks the server before it sends JSON or a bearer token.
    let scheme = request.header("authorization").trim().split(' ').next().unwrap_or_default();
    let is_from_page = request.method != Method::DELETE && !scheme.eq_ignore_ascii_case("bearer");
    if kind.is_empty() && !is_from_page { "application/json" } else { kind }
}

/// Decodes a body of JSON, YAML, CBOR, or, for built-in kinds, Kubernetes' protobuf, which kubectl's `create` commands send.
pub(crate) fn decode(request: &Request) -> Result<Value, Status> {
    match content_type(request) {
        "application/json" => json(&request.body),
        "application/yaml" => yaml(&request.body),
        "application/cbor" => cbor(&request.body),
        "application/vnd.kubernetes.protobuf" => {
            decode_protobuf(&request.body).map_err(|error| Status::bad_request(error.to_string()))
        }
        _ => Err(Status::unsupported_media_type(ACCEPTED)),
    }
}

/// Decodes CBOR.
pub(crate) fn cbor(body: &[u8]) -> Result<Value, Status> {
    crate::cbor::decode(body).map_err(|error| Status::bad_request(error.to_string()))
}

/// Parses JSON.
pub(crate) fn json(body: &[u8]) -> Result<Value, Status> {
    parse_json(body).map_err(|problem| {
        Status::bad_request(format!("couldn't get version/kind; json parse error: {problem}"))
    })
}

/// Parses JSON.
///
/// # Errors
/// The message of Go about malformed text, or the parser's about text that it refuses for another reason.
pub(crate) fn parse_json(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|error| json_problem(body, &error))
}

fn json_problem(body: &[u8], error: &serde_json::Error) -> String {
    go_json::syntax_error(body).unwrap_or_else(|| error.to_string())
}

/// Parses the JSON of a patch, and finds the unknown and duplicate fields of its text.
///
/// # Errors
/// Those of [`parse_json`].
pub(crate) fn parse_json_strictly(body: &[u8], target: Target<'_>) -> Result<(Value, StrictErrors), String> {
    let (value, fields) = strict::parse(body, target).map_err(|error| json_problem(body, &error))?;
    Ok((value, StrictErrors { fields, ..StrictErrors::default() }))
}

/// Decodes an object as [`decode_object`] does. Returns what strict decoding finds in the body, too. The last of several equal members counts.
pub(crate) fn decode_object_strictly(
    request: &Request,
    endpoint: &Endpoint,
) -> Result<(Value, StrictErrors), Status> {
    let (mut value, found) = decode_strictly(request, endpoint.schema.as_deref(), endpoint.kind())?;
    check_type(&mut value, endpoint, &endpoint.api_version, endpoint.kind())?;
    Ok((value, found))
}

/// Decodes a body as [`decode`] does. Returns what strict decoding finds in it, too, given the schema and the kind that it should have.
pub(crate) fn decode_strictly(
    request: &Request,
    schema: Option<&Schema>,
    kind: &str,
) -> Result<(Value, StrictErrors), Status> {
    match content_type(request) {
        "application/json" => {
            let schema = schema.filter(|schema| schema.is_built_in());
            let target = schema.map_or(Target::Untyped, |schema| Target::Typed(schema.root()));
            let (value, fields) = strict::parse(&request.body, target).map_err(|error| {
                let problem = json_problem(&request.body, &error);
                let problem = format!("couldn't get version/kind; json parse error: {problem}");
                Status::bad_request(unrecognized(&request.body, kind, &problem))
            })?;
            Ok((value, StrictErrors { fields, has_unknown: schema.is_some(), ..StrictErrors::default() }))
        }
        "application/yaml" => yaml_strictly(&request.body),
        _ => Ok((decode(request)?, StrictErrors::default())),
    }
}

/// Parses one YAML document, in which keys are unique; the error contains line and column.
pub(crate) fn yaml(body: &[u8]) -> Result<Value, Status> {
    parse_yaml(body, DuplicateKeyPolicy::Error)?
        .map_err(|error| Status::bad_request(format!("error parsing YAML: {error}")))
}

/// Parses one YAML document, and finds the keys that it has more than once. The last one counts.
pub(crate) fn yaml_strictly(body: &[u8]) -> Result<(Value, StrictErrors), Status> {
    let error = match parse_yaml(body, DuplicateKeyPolicy::Error)? {
        Ok(value) => return Ok((value, StrictErrors::default())),
        Err(error) => error,
    };
    if let YamlError::DuplicateMappingKey { .. } = error.without_snippet()
        && let Ok(value) = parse_yaml(body, DuplicateKeyPolicy::LastWins)?
    {
        let yaml = yaml_keys::duplicates(&String::from_utf8_lossy(body));
        return Ok((value, StrictErrors { yaml, ..StrictErrors::default() }));
    }
    Err(Status::bad_request(format!("error parsing YAML: {error}")))
}

fn parse_yaml(body: &[u8], duplicate_keys: DuplicateKeyPolicy) -> Result<Result<Value, YamlError>, Status> {
    // Most clients send JSON, which is YAML that can be parsed several times as fast. Members that occur twice are left to the YAML parser.
    if body.starts_with(b"{")
        && let Ok((value, duplicates)) = strict::parse(body, Target::Untyped)
        && duplicates.is_empty()
    {
        return Ok(Ok(value));
    }
    let text = std::str::from_utf8(body)
        .map_err(|error| Status::bad_request(format!("the YAML body is not UTF-8: {error}")))?;
    // Aliases repeat what they stand for, so a short document could become a large value.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_total_scalar_bytes: 2 * LIMIT },
        duplicate_keys: duplicate_keys,
    };
    Ok(serde_saphyr::from_str_with_options(text, options))
}

/// Decodes the object to create or replace, and checks that it is of the endpoint's kind.
pub(crate) fn decode_object(request: &Request, endpoint: &Endpoint) -> Result<Value, Status> {
    let mut value = decode(request)?;
    check_type(&mut value, endpoint, &endpoint.api_version, endpoint.kind())?;
    Ok(value)
}

/// Checks `apiVersion` and `kind`. For built-in kinds, missing values are set.
pub(crate) fn check_type(
    value: &mut Value,
    endpoint: &Endpoint,
    api_version: &str,
    kind: &str,
) -> Result<(), Status> {
    let built_in = endpoint.resource.custom.is_none();
    // The Scale of a custom resource has a type in Go, too.
    let has_go_type = built_in || kind != endpoint.kind();
    if built_in && value.is_null() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(object) = value else {
        let text = value.to_string();
        return Err(Status::bad_request(unrecognized(text.as_bytes(), kind, &untyped(value))));
    };
    if built_in
        && let Some(metadata) = object.get("metadata").filter(|found| !found.is_object() && !found.is_null())
    {
        return Err(Status::bad_request(format!(
            "{kind} in version \"{}\" cannot be handled as a {kind}: json: cannot unmarshal {} into Go struct field \
             {kind}.metadata of type v1.ObjectMeta",
            api_version.rsplit('/').next().unwrap_or_default(),
            go::json_type(metadata)
        )));
    }
    if let Some(Value::String(version)) = object.get_mut("apiVersion")
        && version.strip_prefix('/') == Some(api_version)
    {
        // Go's clients may write the empty name of the core group.
        version.remove(0);
    }
    for (member, expected) in [("kind", kind), ("apiVersion", api_version)] {
        let found = object.get(member).and_then(Value::as_str).unwrap_or_default();
        if found.is_empty() {
            if !built_in && member == "kind" {
                let text = value.to_string();
                let end = text.floor_char_boundary(MAX_SUMMARY);
                let summary = if end < text.len() { format!("{} ...", &text[..end]) } else { text.clone() };
                return Err(Status::bad_request(format!(
                    "the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in '{text}' \
                     ({summary})"
                )));
            }
            if !built_in {
                return Err(Status::bad_request(other_version(found, expected)));
            }
            object.insert(member.into(), expected.into());
        } else if found != expected {
            let found = found.to_owned();
            if member == "kind" && !has_go_type {
                // A custom resource is decoded whatever its kind is, and validated then.
                let cause = field::invalid("kind", &Value::from(found.as_str()), &format!("must be {kind}"));
                let about = ResourceRef { kind: &found, ..endpoint.resource_ref() };
                return Err(Status::invalid(about, meta::text(value, "name"), vec![cause]));
            }
            return Err(Status::bad_request(match member {
                "kind" => {
                    let api_version_of = object.get("apiVersion").and_then(Value::as_str);
                    let api_version = api_version_of.filter(|text| !text.is_empty()).unwrap_or(api_version);
                    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                    let problem = match Schema::builtin(group, version, &found) {
                        Some(_) => "unknown conversion".to_owned(),
                        None => unregistered(&found, api_version),
                    };
                    format!("{found} in version {version:?} cannot be handled as a {kind}: {problem}")
                }
                _ if built_in => format!(
                    "{kind} in version {:?} cannot be handled as a {kind}: {}",
                    found.rsplit('/').next().unwrap_or_default(),
                    unregistered(kind, &found)
                ),
                _ => other_version(&found, expected),
            }));
        }
    }
    // Objects of the endpoint's own built-in kind are decoded later, with their unknown fields.
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let schema = if kind != endpoint.kind() {
        Schema::builtin(group, version, kind)
    } else if built_in {
        None
    } else {
        endpoint.schema.clone()
    };
    match schema.and_then(|schema| schema.decode_error(value)) {
        // kube-apiserver cannot name the type of the Scale of a custom resource.
        Some(_) if !built_in && has_go_type => Err(Status::bad_request(UNKNOWN_SCALE)),
        Some(problem) => Err(Status::bad_request(problem)),
        None => Ok(()),
    }
}

/// Returns the message about an object in another API version.
fn other_version(found: &str, expected: &str) -> String {
    format!("the API version in the data ({found}) does not match the expected API version ({expected})")
}

/// Returns the message about a body that is no object: Go cannot read its type.
pub(crate) fn untyped(value: &Value) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ \
         APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        go::json_type(value)
    )
}

/// Returns the message about a body that is no object of `kind`, with its first bytes: as they are, or in hexadecimal digits if it does not begin
/// like an object.
fn unrecognized(body: &[u8], kind: &str, problem: &str) -> String {
    let shown = &body[..body.len().min(MAX_SUMMARY)];
    let more = if shown.len() < body.len() { " ..." } else { "" };
    let summary = match shown.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(shown).into_owned(),
        Some(_) => shown.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")),
    };
    format!("the object provided is unrecognized (must be of type {kind}): {problem} ({summary}{more})")
}

/// Returns the message about a kind that a version of the API does not have.
pub(crate) fn unregistered(kind: &str, api_version: &str) -> String {
    format!(
        "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_for_a_malformed_body_says_what_is_wrong() {
        let message = |text: &[u8]| json(text).expect_err("bad").message;
        assert!(message(b"{\"a\": }").ends_with("invalid character '}' looking for beginning of value"));
        assert!(message(b"").ends_with("unexpected end of JSON input"));
        let yaml = yaml(b"a: [1\nb: 2").expect_err("bad");
        assert_eq!(yaml.code, 400);
        assert!(yaml.message.contains("line"), "{}", yaml.message);
    }

    #[test]
    fn json_is_yaml_in_which_members_are_unique() {
        let text = r#"{"text": "no", "number": 1.0, "exponent": 1e3, "large": 18446744073709551615, "list": [null, true, "\u00e9\n"]}"#;
        let spaced = format!(" {text}");
        assert_eq!(
            yaml(text.as_bytes()),
            yaml(spaced.as_bytes()),
            "what begins with a space is left to the YAML parser"
        );
        assert_eq!(yaml(b"{a: 1}").expect("a flow mapping")["a"], 1);
        assert_eq!(yaml(br#"{"a": {"b": 1, "b": 2}}"#).expect_err("twice").code, 400);
    }

    #[test]
    fn the_last_of_equal_keys_counts() {
        let (value, found) = yaml_strictly(b"a: 1\nb:\n  c: {k: v,\n    k: w}\n").expect("a mapping");
        assert_eq!(value, serde_json::json!({"a": 1, "b": {"c": {"k": "w"}}}));
        assert_eq!(found.warnings(), ["line 4: key \"k\" already set in map"]);
        let (value, found) = yaml_strictly(br#"{"a": 1, "a": 2, "a": 3}"#).expect("a mapping");
        assert_eq!(value["a"], 3);
        let line = "line 1: key \"a\" already set in map";
        assert_eq!(found.errors(), [format!("yaml: unmarshal errors:\n  {line}\n  {line}")]);
        assert_eq!(yaml_strictly(b"a: 1\na: [").expect_err("malformed").code, 400);
    }

    #[test]
    fn aliases_do_not_make_a_large_value_of_a_short_document() {
        let text = format!("a: &a {}\nlist: [{}]", "x".repeat(1 << 20), vec!["*a"; 50].join(", "));
        assert_eq!(yaml(text.as_bytes()).expect_err("more than 6 MiB").code, 400);
        let text = format!("a: &a {}\nlist: [{}]", "x".repeat(1000), vec!["*a"; 50].join(", "));
        assert_eq!(yaml(text.as_bytes()).expect("small")["list"][49], "x".repeat(1000));
    }
}
