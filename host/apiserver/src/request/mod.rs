//! From an HTTP request to what it asks for: verb, target, options, formats, body.

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod options;
pub(crate) mod path;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use tokio_util::sync::CancellationToken;

pub(crate) use accept::{Form, View};
pub(crate) use options::Query;
pub(crate) use path::{ObjectPath, Target};

use crate::access::User;
use crate::status::Status;

/// A request, read whole.
#[derive(Debug)]
pub(crate) struct Request {
    pub method: Method,
    pub uri: Uri,
    pub target: Target,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whom it comes from, before impersonation.
    pub sender: Arc<User>,
    /// Ends watches when the server that accepted the connection stops.
    pub shutdown: CancellationToken,
}

/// What a client wants done, in the words of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection or an object.
    Watch,
    /// Add an object.
    Create,
    /// Replace an object.
    Update,
    /// Change parts of an object.
    Patch,
    /// Remove an object.
    Delete,
    /// Remove the objects of a collection.
    DeleteCollection,
}

impl Verb {
    /// The verb's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// The verb of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let all = [
            Self::Get,
            Self::List,
            Self::Watch,
            Self::Create,
            Self::Update,
            Self::Patch,
            Self::Delete,
            Self::DeleteCollection,
        ];
        all.into_iter().find(|verb| verb.as_str() == name)
    }
}

impl Request {
    /// The verb of a request for a resource.
    pub(crate) fn verb(&self, path: &ObjectPath) -> Result<Verb, Status> {
        let named = path.name.is_some();
        match self.method {
            Method::GET | Method::HEAD if path.subresource.is_some() => Ok(Verb::Get),
            Method::GET | Method::HEAD if self.query.flag("watch")? => Ok(Verb::Watch),
            Method::GET | Method::HEAD => Ok(if named { Verb::Get } else { Verb::List }),
            Method::POST => Ok(Verb::Create),
            Method::PUT if named => Ok(Verb::Update),
            Method::PATCH if named => Ok(Verb::Patch),
            Method::DELETE => Ok(if named { Verb::Delete } else { Verb::DeleteCollection }),
            _ => Err(Status::method_not_allowed(self.method.as_str())),
        }
    }

    /// A header as text, "" if it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}
