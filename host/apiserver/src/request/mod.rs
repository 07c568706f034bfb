//! Parsed HTTP requests: verb, target, options, representation, selection, body.

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod options;
pub(crate) mod path;
mod selection;
mod selector_errors;
pub(crate) mod strict;
mod yaml_keys;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use tokio_util::sync::CancellationToken;

pub(crate) use accept::{Encoding, Form, MetaVersion, Offer, View};
pub(crate) use options::Query;
pub(crate) use path::{ObjectPath, Target};
pub(crate) use selection::Selection;

use crate::status::Status;
use crate::user::User;

/// A request with its complete body.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub method: Method,
    pub uri: Uri,
    pub target: Target,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The authenticated user, before impersonation.
    pub sender: Arc<User>,
    /// Cancelled when the server that accepted the connection stops; ends watches.
    pub shutdown: CancellationToken,
}

/// The verb of a request, as RBAC names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a collection.
    List,
    /// Watches a collection or an object.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object.
    Update,
    /// Patches an object.
    Patch,
    /// Deletes an object.
    Delete,
    /// Deletes the objects of a collection.
    DeleteCollection,
}

impl Verb {
    /// Returns the verb's name, such as `deletecollection`.
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

    /// Returns the verb with this name.
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
    /// Returns the verb of a request for the resource at `path`; 405 if the method is not supported.
    pub(crate) fn verb(&self, path: &ObjectPath) -> Result<Verb, Status> {
        let has_name = path.name.is_some();
        match self.method {
            // As in kube-apiserver, nothing answers HEAD.
            Method::GET if path.is_watch => Ok(Verb::Watch),
            _ if path.is_watch => Err(Status::method_not_allowed()),
            Method::GET if path.subresource.is_some() => Ok(Verb::Get),
            Method::GET if !has_name && self.query.flag("watch")? => Ok(Verb::Watch),
            Method::GET => Ok(if has_name { Verb::Get } else { Verb::List }),
            Method::POST => Ok(Verb::Create),
            Method::PUT if has_name => Ok(Verb::Update),
            Method::PATCH if has_name => Ok(Verb::Patch),
            Method::DELETE => Ok(if has_name { Verb::Delete } else { Verb::DeleteCollection }),
            _ => Err(Status::method_not_allowed()),
        }
    }

    /// Returns the request as one for the state at a revision. A request for a page or for a certain version stays as it is.
    pub(crate) fn at_revision(&self, revision: u64) -> Self {
        let mut request = self.clone();
        let has_version = request.query.get("resourceVersion").is_some_and(|version| version != "0");
        if !has_version && request.query.get("continue").is_none() {
            request.query.set("resourceVersion", &revision.to_string());
            request.query.set("resourceVersionMatch", "Exact");
        }
        request
    }

    /// Returns a header as text, "" if it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}
