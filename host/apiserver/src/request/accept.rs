//! Content negotiation: the `Accept` header.

use super::Query;
use crate::status::Status;
use crate::table::IncludeObject;

/// The representation of a response, and what a table's rows include.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub form: Form,
    pub encoding: Encoding,
    pub include: IncludeObject,
    /// The API version of tables and of metadata.
    pub meta_version: MetaVersion,
}

/// A version of the API group of tables and of metadata, which differ in nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    #[default]
    V1,
    V1Beta1,
}

impl MetaVersion {
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    Cbor,
    Protobuf,
}

/// What a resource can be represented in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Whether whole objects have a protobuf encoding.
    pub protobuf: bool,
    /// Whether the response is a watch.
    pub watch: bool,
}

impl View {
    /// Parses the `Accept` header and the `includeObject` parameter.
    pub(crate) fn parse(accept: &str, query: &Query, offer: Offer) -> Result<Self, Status> {
        let (form, encoding, meta_version) = negotiate_version(accept, offer)?;
        let include = IncludeObject::parse(query.get("includeObject").unwrap_or_default());
        Ok(Self { form, encoding, include: include.map_err(Status::bad_request)?, meta_version })
    }
}

/// The representation of objects in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The objects themselves.
    Plain,
    /// A `Table` of the group `meta.k8s.io`.
    Table,
    /// `PartialObjectMetadata` of the group `meta.k8s.io`, or its list.
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

    /// Returns the representation that the media range selects, or `None` if it is not served.
    fn representation(&self, offer: Offer) -> Option<(Form, Encoding, MetaVersion)> {
        let encoding = match self.kind {
            "application/yaml" => Encoding::Yaml,
            "application/cbor" => Encoding::Cbor,
            "application/cbor-seq" if offer.watch => Encoding::Cbor,
            "application/vnd.kubernetes.protobuf" => Encoding::Protobuf,
            _ if self.takes_json() => Encoding::Json,
            _ => return None,
        };
        let form = match self.parameter("as") {
            "" => Form::Plain,
            "Table" => Form::Table,
            "PartialObjectMetadata" | "PartialObjectMetadataList" => Form::Metadata,
            _ => return None,
        };
        let version = match (form, self.parameter("g"), self.parameter("v")) {
            (Form::Plain, ..) | (_, "meta.k8s.io", "v1") => MetaVersion::V1,
            (_, "meta.k8s.io", "v1beta1") => MetaVersion::V1Beta1,
            _ => return None,
        };
        let is_served = match (encoding, form) {
            (Encoding::Protobuf, Form::Plain) => offer.protobuf,
            // As in Kubernetes, tables have no protobuf encoding. Lists of metadata have other numbers of fields in v1beta1.
            (Encoding::Protobuf, Form::Table) => false,
            (Encoding::Protobuf, Form::Metadata) => version == MetaVersion::V1,
            _ => true,
        };
        is_served.then_some((form, encoding, version))
    }

    /// Whether objects have an encoding of this media type, apart from its parameters.
    fn is_known(&self) -> bool {
        self.takes_json()
            || matches!(
                self.kind,
                "application/yaml" | "application/cbor" | "application/vnd.kubernetes.protobuf"
            )
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
pub(crate) fn negotiate(accept: &str, offer: Offer) -> Result<(Form, Encoding), Status> {
    negotiate_version(accept, offer).map(|(form, encoding, _)| (form, encoding))
}

fn negotiate_version(accept: &str, offer: Offer) -> Result<(Form, Encoding, MetaVersion), Status> {
    let ranges = ranges(accept);
    if ranges.is_empty() {
        return Ok((Form::Plain, Encoding::Json, MetaVersion::V1));
    }
    let is_known = ranges.iter().any(MediaRange::is_known);
    let found = ranges.iter().find_map(|range| range.representation(offer));
    found.ok_or_else(|| not_acceptable(offer, is_known))
}

/// Returns the 406 for a client that accepts no representation. `is_known` says whether one of its media types has an encoding here.
fn not_acceptable(offer: Offer, is_known: bool) -> Status {
    let mut accepted = vec!["application/json", "application/yaml"];
    if offer.protobuf {
        accepted.push("application/vnd.kubernetes.protobuf");
    }
    if is_known { Status::not_acceptable(&accepted) } else { Status::no_representation(&accepted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_form(accept: &str) -> Result<Form, Status> {
        negotiate(accept, Offer::default()).map(|(form, _)| form)
    }

    #[test]
    fn first_supported_representation_is_used() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(parse_form(kubectl), Ok(Form::Table));
        let beta = "application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json";
        let (form, _, version) = negotiate_version(beta, Offer::default()).expect("a representation");
        assert_eq!((form, version), (Form::Table, MetaVersion::V1Beta1));
        for other in ["as=Table;v=v1", "as=Table;v=v2;g=meta.k8s.io", "as=Table;v=v1;g=other"] {
            let accept = format!("application/json;{other}, application/json");
            assert_eq!(parse_form(&accept), Ok(Form::Plain), "{other}");
        }
        assert_eq!(
            parse_form("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
            Ok(Form::Metadata)
        );
    }

    #[test]
    fn yaml_is_preferred_if_it_comes_before_json() {
        let encoding = |accept: &str| negotiate(accept, Offer::default()).map(|(_, encoding)| encoding);
        assert_eq!(encoding("application/yaml"), Ok(Encoding::Yaml));
        assert_eq!(encoding("text/html, application/yaml, application/json"), Ok(Encoding::Yaml));
        assert_eq!(encoding("application/json, application/yaml"), Ok(Encoding::Json));
        assert_eq!(encoding(""), Ok(Encoding::Json));
        assert_eq!(parse_form("application/yaml;as=Table;v=v1;g=meta.k8s.io"), Ok(Form::Table));
    }

    #[test]
    fn encodings_are_chosen_in_the_order_of_the_header() {
        let encoding = |accept: &str, offer: Offer| negotiate(accept, offer).map(|(_, encoding)| encoding);
        let (custom, built_in) = (Offer::default(), Offer { protobuf: true, watch: false });
        let both = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(encoding(both, built_in), Ok(Encoding::Protobuf));
        assert_eq!(encoding(both, custom), Ok(Encoding::Json));
        assert_eq!(encoding("application/json,application/cbor", custom), Ok(Encoding::Json));
        assert_eq!(encoding("application/cbor,application/json", custom), Ok(Encoding::Cbor));
        let sequence = "application/cbor-seq";
        assert_eq!(encoding(sequence, Offer { watch: true, ..custom }), Ok(Encoding::Cbor));
        assert_eq!(encoding(sequence, custom).map_err(|status| status.code), Err(406));
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(encoding(metadata, custom), Ok(Encoding::Protobuf));
        let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json";
        assert_eq!(encoding(table, built_in), Ok(Encoding::Json));
    }

    #[test]
    fn protobuf_falls_back_to_json_if_the_client_accepts_it() {
        assert_eq!(parse_form("application/vnd.kubernetes.protobuf,application/json"), Ok(Form::Plain));
        assert_eq!(parse_form("application/vnd.kubernetes.protobuf").map_err(|status| status.code), Err(406));
        assert_eq!(parse_form(""), Ok(Form::Plain));
    }
}
