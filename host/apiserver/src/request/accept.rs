//! In which form the client wants the answer.

use super::Query;
use crate::status::Status;
use crate::table::IncludeObject;

/// The form of an answer, with what a table's rows carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub form: Form,
    pub include: IncludeObject,
}

impl View {
    /// What the `Accept` header and the query ask for.
    pub(crate) fn read(accept: &str, query: &Query) -> Result<Self, Status> {
        let form = form(accept)?;
        let include = IncludeObject::parse(query.get("includeObject").unwrap_or_default());
        Ok(Self { form, include: include.map_err(Status::bad_request)? })
    }
}

/// The form of an answer that holds objects.
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
    /// A parameter's value, "" if it is absent.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }

    /// Whether JSON is among what it takes.
    pub(crate) fn takes_json(&self) -> bool {
        matches!(self.kind, "application/json" | "application/*" | "*/*")
    }
}

/// The entries of an `Accept` header, in order (Kubernetes ignores weights, too).
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

/// The first form in `accept` that is served; 406 if there is none.
fn form(accept: &str) -> Result<Form, Status> {
    let ranges = ranges(accept);
    if ranges.is_empty() {
        return Ok(Form::Plain);
    }
    let served = ranges.iter().filter(|range| range.takes_json()).find_map(|range| {
        let version = range.parameter("v");
        match range.parameter("as") {
            "" => Some(Form::Plain),
            "Table" if version == "v1" => Some(Form::Table),
            "PartialObjectMetadata" | "PartialObjectMetadataList" if version == "v1" => Some(Form::Metadata),
            _ => None,
        }
    });
    served.ok_or_else(|| Status::not_acceptable(&["application/json"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_served_form_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(form(kubectl), Ok(Form::Table));
        assert_eq!(
            form("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json"),
            Ok(Form::Plain)
        );
        assert_eq!(
            form("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
            Ok(Form::Metadata)
        );
    }

    #[test]
    fn protobuf_falls_back_to_json_where_the_client_takes_it() {
        assert_eq!(form("application/vnd.kubernetes.protobuf,application/json"), Ok(Form::Plain));
        assert_eq!(form("application/vnd.kubernetes.protobuf").map_err(|status| status.code), Err(406));
        assert_eq!(form(""), Ok(Form::Plain));
    }
}
