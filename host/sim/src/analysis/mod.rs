//! What oracles and searches derive from a [`Run`]: who wrote what in which reconcile, and ends in a form in which
//! those of two runs can be compared. Pure.

pub mod canonical;
pub(crate) mod comparison;
pub mod end;
pub mod names;
pub mod view;

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::{Author, RequestEvent, StoredObject};

pub use end::{CanonicalEnd, EndDifference, EndMask};
pub use names::{Names, RandomPrefixes};
pub use view::{Reconcile, RunView};

/// The resources that no oracle looks at: they record what happened and are not part of the desired state.
const RECORDS: [&str; 3] = ["events", "events.events.k8s.io", "leases.coordination.k8s.io"];

/// The annotation that an interfering client changes (rule W2).
pub const INTERFERENCE_ANNOTATION: &str = "simulation.pilothouse.dev/touched";

/// The address of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectId {
    /// The resource as `plural.group`.
    pub resource: String,
    /// The namespace, "" for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectId {
    /// Returns the address of a stored object.
    #[must_use]
    pub fn of(object: &StoredObject) -> Self {
        Self {
            resource: object.resource.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        }
    }

    /// Returns `namespace/name`, or the name of a cluster-scoped object.
    #[must_use]
    pub fn key(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
}

impl Display for ObjectId {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.resource, self.key())
    }
}

impl RequestEvent {
    /// Returns the object's address.
    #[must_use]
    pub fn object_id(&self) -> ObjectId {
        ObjectId {
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// Returns the resource with the subresource, as in [`Moment::Request`](crate::plan::Moment::Request).
    #[must_use]
    pub fn resource_path(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// Whether the verb is one that writes.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// Whether a plugin sent the request.
    #[must_use]
    pub fn is_by_plugin(&self) -> bool {
        matches!(self.author, Author::Plugin(_))
    }

    /// Whether the request changed an object that oracles look at.
    #[must_use]
    pub fn is_effective(&self) -> bool {
        self.changed && self.is_write() && !is_record(&self.resource)
    }

    /// Whether the request deleted an object or marked it for deletion.
    #[must_use]
    pub fn is_effective_delete(&self) -> bool {
        self.is_effective() && matches!(self.verb.as_str(), "delete" | "deletecollection")
    }
}

/// Whether the resource only records what happened: Events and Leases.
#[must_use]
pub fn is_record(resource: &str) -> bool {
    RECORDS.contains(&resource)
}

/// Whether a request with this status was refused as invalid, so that it cannot succeed by repeating it.
#[must_use]
pub fn is_refused_as_invalid(status: u16) -> bool {
    matches!(status, 400 | 405 | 413 | 415 | 422)
}

/// Returns a string member of `metadata`.
pub(crate) fn metadata<'a>(object: &'a Value, member: &str) -> Option<&'a str> {
    object.get("metadata")?.get(member)?.as_str()
}

/// Whether any string of the value contains the text.
pub(crate) fn mentions(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string.contains(text),
        Value::Array(items) => items.iter().any(|item| mentions(item, text)),
        Value::Object(members) => {
            members.iter().any(|(name, member)| name.contains(text) || mentions(member, text))
        }
        _ => false,
    }
}
