//! The objects of a collection that a request selects.

use std::borrow::Cow;

use pilothouse_model::{FieldSelector, LabelSelector};

use super::selector_errors;
use crate::go;
use crate::registry::{Conversion, Endpoint, field_selector_value};
use crate::request::Query;
use crate::status::Status;
use crate::storage::StoredObject;

/// Selects objects by namespace, name, labels and fields, each of which is optional.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub namespace: Option<String>,
    name: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
    /// The selectable fields of the resource, in the order in which stored objects hold their values.
    selectable: Vec<String>,
}

impl Selection {
    /// Parses `labelSelector` and `fieldSelector`; 400 for a field that is not selectable.
    pub(crate) fn parse(
        endpoint: &Endpoint,
        namespace: Option<&str>,
        name: Option<&str>,
        query: &Query,
    ) -> Result<Self, Status> {
        let parse_error = |parameter: &str, error: &dyn std::fmt::Display| {
            Status::bad_request(format!("unable to parse {parameter}: {error}"))
        };
        let label_selector = query.get("labelSelector").unwrap_or_default();
        if let Some(message) = selector_errors::of_labels(label_selector) {
            return Err(Status::bad_request(message));
        }
        let labels =
            LabelSelector::parse(label_selector).map_err(|error| parse_error("labelSelector", &error))?;
        if let Some(message) = selector_errors::of_fields(query.get("fieldSelector").unwrap_or_default()) {
            return Err(Status::bad_request(message));
        }
        let field_selector = stored_field_names(endpoint, query.get("fieldSelector").unwrap_or_default());
        let fields =
            FieldSelector::parse(&field_selector).map_err(|error| parse_error("fieldSelector", &error))?;
        let resource = &endpoint.resource;
        for requirement in fields.requirements() {
            let path = requirement.path.as_str();
            let is_metadata =
                path == "metadata.name" || (path == "metadata.namespace" && resource.namespaced);
            if !is_metadata && !resource.selectable.iter().any(|known| known == path) {
                return Err(Status::bad_request(unknown_field(endpoint, path)));
            }
        }
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            labels,
            fields,
            selectable: resource.selectable.clone(),
        })
    }

    /// Whether the selection contains all objects of its namespace or, without a namespace, all objects.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.name.is_none() && self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is selected.
    pub(crate) fn matches(&self, object: &StoredObject) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| namespace == &*object.namespace)
            && self.name.as_deref().is_none_or(|name| name == &*object.name)
            && (self.labels.is_empty() || self.labels.matches(|key| object.labels.get(key)))
            && (self.fields.is_empty() || self.fields.matches(|path| self.field(object, path)))
    }

    /// Returns the value of a selectable field.
    fn field<'a>(&self, object: &'a StoredObject, path: &str) -> Cow<'a, str> {
        match path {
            "metadata.name" => Cow::Borrowed(&object.name),
            "metadata.namespace" => Cow::Borrowed(&object.namespace),
            path => {
                let index = self.selectable.iter().position(|known| known == path);
                match index.and_then(|index| object.fields.get(index)) {
                    Some(value) => Cow::Borrowed(value),
                    // The object was stored before the CRD made the field selectable.
                    None => Cow::Owned(field_selector_value(&object.value(), path)),
                }
            }
        }
    }
}

/// Returns the message about a field that is not selectable.
fn unknown_field(endpoint: &Endpoint, path: &str) -> String {
    if endpoint.resource.custom.is_some() || !endpoint.resource.selectable.is_empty() {
        return format!("field label not supported: {path}");
    }
    let shown = go::quoted(path);
    format!("{shown} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
}

/// Replaces the field names of events.k8s.io by those of core/v1, in which Events are stored.
fn stored_field_names(endpoint: &Endpoint, text: &str) -> String {
    if endpoint.conversion == Conversion::Events {
        text.replace("regarding.", "involvedObject.").replace("reportingController", "reportingComponent")
    } else {
        text.to_owned()
    }
}
