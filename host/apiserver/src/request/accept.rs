//! Content negotiation: the `Accept` header.

use super::Query;
use crate::status::Status;
use crate::table::IncludeObject;

/// The representation of a response, and what a table's rows include.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub form: Form,
    pub include: IncludeObject,
}

impl View {
    /// Parses the `Accept` header and the `includeObject` parameter.
    pub(crate) fn parse(accept: &str, query: &Query) -> Result<Self, Status> {
        let form = parse_form(accept)?;
        let include = IncludeObject::parse(query.get("includeObject").unwrap_or_default());
        Ok(Self { form, include: include.map_err(Status::bad_request)? })
    }
}

/// The representation of objects in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The objects themselves.
    Plain,
    /// `meta.k8s.io/v1 Table`.
    Table,
    /// `meta.k8s.io/v1 PartialObjectMetadata` or its list.
    Metadata,
}

/// One entry of an `Accept` header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MediaRange<'a> {
    pub kind: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl MediaRange<'_> {
    /// Returns a parameter's value, "" if it is absent.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }

    /// Whether the media range is YAML.
    fn is_yaml(&self) -> bool {
        self.kind == "application/yaml"
    }

    /// Whether the media range includes JSON.
    pub(crate) fn takes_json(&self) -> bool {
        matches!(self.kind, "application/json" | "application/*" | "*/*")
    }
}

/// Returns the entries of an `Accept` header in order. Weights are ignored, as in Kubernetes.
pub(crate) fn ranges(accept: &str) -> Vec<MediaRange<'_>> {
    let entries = accept.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let parameters = parts.filter_map(|part| part.split_once('=')).collect();
            MediaRange { kind, parameters }
        })
        .collect()
}

/// Returns the first supported representation in `accept`; 406 if there is none.
fn parse_form(accept: &str) -> Result<Form, Status> {
    let ranges = ranges(accept);
    if ranges.is_empty() {
        return Ok(Form::Plain);
    }
    let served = ranges.iter().filter(|range| range.takes_json() || range.is_yaml()).find_map(|range| {
        let version = range.parameter("v");
        match range.parameter("as") {
            "" => Some(Form::Plain),
            "Table" if version == "v1" => Some(Form::Table),
            "PartialObjectMetadata" | "PartialObjectMetadataList" if version == "v1" => Some(Form::Metadata),
            _ => None,
        }
    });
    served.ok_or_else(|| Status::not_acceptable(&["application/json", "application/yaml"]))
}

/// Whether the client prefers YAML to JSON.
pub(crate) fn prefers_yaml(accept: &str) -> bool {
    ranges(accept)
        .into_iter()
        .find(|range| range.takes_json() || range.is_yaml())
        .is_some_and(|range| range.is_yaml())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_supported_representation_is_used() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(parse_form(kubectl), Ok(Form::Table));
        assert_eq!(
            parse_form("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json"),
            Ok(Form::Plain)
        );
        assert_eq!(
            parse_form("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
            Ok(Form::Metadata)
        );
    }

    #[test]
    fn yaml_is_preferred_if_it_comes_before_json() {
        assert!(prefers_yaml("application/yaml"));
        assert!(prefers_yaml("text/html, application/yaml, application/json"));
        assert!(!prefers_yaml("application/json, application/yaml"));
        assert!(!prefers_yaml(""));
        assert_eq!(parse_form("application/yaml;as=Table;v=v1;g=meta.k8s.io"), Ok(Form::Table));
    }

    #[test]
    fn protobuf_falls_back_to_json_if_the_client_accepts_it() {
        assert_eq!(parse_form("application/vnd.kubernetes.protobuf,application/json"), Ok(Form::Plain));
        assert_eq!(parse_form("application/vnd.kubernetes.protobuf").map_err(|status| status.code), Err(406));
        assert_eq!(parse_form(""), Ok(Form::Plain));
    }
}
