//! Which objects of a collection a request is about.

use std::borrow::Cow;

use pilothouse_model::{FieldSelector, LabelSelector};

use crate::registry::{Conversion, Endpoint, select};
use crate::request::Query;
use crate::status::Status;
use crate::storage::Stored;

/// A namespace, a name and selectors, any of which may be absent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub namespace: Option<String>,
    name: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
    selectable: Vec<String>,
}

impl Selection {
    /// Reads `labelSelector` and `fieldSelector`; 400 for a field that the kind cannot be selected by.
    pub(crate) fn read(
        endpoint: &Endpoint,
        namespace: Option<&str>,
        name: Option<&str>,
        query: &Query,
    ) -> Result<Self, Status> {
        let bad = |parameter: &str, error: &dyn std::fmt::Display| {
            Status::bad_request(format!("unable to parse {parameter}: {error}"))
        };
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())
            .map_err(|error| bad("labelSelector", &error))?;
        let text = renamed(endpoint, query.get("fieldSelector").unwrap_or_default());
        let fields = FieldSelector::parse(&text).map_err(|error| bad("fieldSelector", &error))?;
        let resource = &endpoint.resource;
        for requirement in fields.requirements() {
            let path = requirement.path.as_str();
            let everywhere = path == "metadata.name" || (path == "metadata.namespace" && resource.namespaced);
            if !everywhere && !resource.selectable.iter().any(|known| known == path) {
                return Err(Status::bad_request(format!("field label not supported: {path}")));
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

    /// Whether nothing but the namespace restricts it.
    pub(crate) fn is_whole(&self) -> bool {
        self.name.is_none() && self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object belongs to it.
    pub(crate) fn matches(&self, object: &Stored) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| namespace == &*object.namespace)
            && self.name.as_deref().is_none_or(|name| name == &*object.name)
            && (self.labels.is_empty() || self.labels.matches(|key| object.labels.get(key)))
            && (self.fields.is_empty() || self.fields.matches(|path| self.field(object, path)))
    }

    fn field<'a>(&self, object: &'a Stored, path: &str) -> Cow<'a, str> {
        match path {
            "metadata.name" => Cow::Borrowed(&object.name),
            "metadata.namespace" => Cow::Borrowed(&object.namespace),
            path => {
                let at = self.selectable.iter().position(|known| known == path);
                match at.and_then(|at| object.fields.get(at)) {
                    Some(value) => Cow::Borrowed(value),
                    // Stored before the CRD made the field selectable.
                    None => Cow::Owned(select(&object.value(), path)),
                }
            }
        }
    }
}

/// The stored names of the fields that events.k8s.io calls otherwise.
fn renamed(endpoint: &Endpoint, text: &str) -> String {
    if endpoint.conversion == Conversion::Events {
        text.replace("regarding.", "involvedObject.").replace("reportingController", "reportingComponent")
    } else {
        text.to_owned()
    }
}
