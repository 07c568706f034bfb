//! Dispatches a request for a resource to the function of its verb.

mod actions;
mod deletes;
mod reads;
mod writes;

use std::sync::Arc;

use http::header;
use serde_json::Value;

use super::kinds::{certificates, pods};
use super::write_steps::admit;
use super::write_steps::owner_references::{self, Step};
use crate::admission::Admission;
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::request::{ObjectPath, Offer, Request, Selection, Verb, View, body};
use crate::respond::{self, ApiResponse};
use crate::state::State;
use crate::status::Status;
use crate::user::User;

/// A request for a resource, with what all verbs need.
struct Call<'a> {
    state: &'a State,
    endpoint: &'a Arc<Endpoint>,
    path: &'a ObjectPath,
    request: &'a Request,
    /// The effective user, or `None` if every request is allowed.
    user: Option<&'a Arc<User>>,
    view: View,
    admission: Admission<'a>,
}

/// Answers a request for a collection, an object or a subresource.
pub(crate) async fn resource(
    state: &State,
    endpoint: &Arc<Endpoint>,
    path: &ObjectPath,
    verb: Verb,
    request: &Request,
    user: Option<&Arc<User>>,
) -> Result<ApiResponse, Status> {
    if let Some(subresource) = &path.subresource {
        let key = (path.namespace.as_deref().unwrap_or_default(), path.name.as_deref().unwrap_or_default());
        pods::reject_container_subresource(endpoint, key, subresource)?;
        endpoint.require_subresource(subresource)?;
    }
    if path.namespace.is_none()
        && endpoint.resource.namespaced
        && matches!(verb, Verb::Create | Verb::DeleteCollection)
    {
        // As in Kubernetes, the path of all namespaces of a custom resource exists for lists and watches only.
        return Err(match endpoint.resource.custom {
            Some(_) => Status::no_such_resource(),
            None => Status::method_not_allowed(),
        });
    }
    if path.namespace.is_some() && !endpoint.resource.namespaced {
        return Err(Status::no_such_resource());
    }
    let offer = Offer { protobuf: endpoint.has_protobuf(), watch: verb == Verb::Watch };
    let view = View::parse(request.header("accept"), &request.query, offer)?;
    let admission = begin_admission(state, verb, request, user)?;
    let call = Call { state, endpoint, path, request, user, view, admission };
    if endpoint.is_core("bindings") {
        return call.bind(verb).await;
    }
    if endpoint.resource.strategy.is_review {
        return call.review(verb);
    }
    if endpoint.resource.strategy.is_read_only && !matches!(verb, Verb::Get | Verb::List) {
        return Err(Status::method_not_allowed());
    }
    if path.name.is_some() && path.namespace.is_none() && endpoint.resource.namespaced {
        return Err(Status::no_such_resource());
    }
    let answer = match verb {
        _ if path.subresource.as_deref() == Some("token") => call.token().await,
        _ if matches!(path.subresource.as_deref(), Some("binding" | "eviction")) => call.pod_action().await,
        Verb::Get => call.get().await,
        Verb::List => call.list().await,
        Verb::Watch => call.watch(),
        Verb::Create if path.name.is_none() => call.create().await,
        Verb::Update => call.update().await,
        Verb::Patch => call.patch().await,
        Verb::Delete if path.subresource.is_none() => call.delete().await,
        Verb::DeleteCollection => call.delete_collection().await,
        Verb::Create if endpoint.resource.custom.is_some() => {
            Err(Status::method_not_supported(endpoint.resource_ref(), "create"))
        }
        Verb::Create | Verb::Delete => Err(Status::method_not_allowed()),
    };
    // Those of a write that succeeded are in its response already.
    let warnings = call.admission.take_warnings();
    let annotations = call.admission.take_annotations();
    let deprecation = call.endpoint.deprecation.as_ref();
    if warnings.is_empty() && annotations.is_empty() && deprecation.is_none() {
        return answer;
    }
    let mut answer = answer.unwrap_or_else(|status| respond::failure(&status));
    if !annotations.is_empty() {
        // For the audit log.
        answer.extensions_mut().insert(annotations);
    }
    respond::add_warnings(&mut answer, &warnings);
    if let Some(deprecation) = deprecation {
        respond::add_first_warning(&mut answer, deprecation);
    }
    Ok(answer)
}

/// Begins the admission of a write; of other requests, or if nothing is configured, one that allows everything.
fn begin_admission<'a>(
    state: &'a State,
    verb: Verb,
    request: &Request,
    user: Option<&Arc<User>>,
) -> Result<Admission<'a>, Status> {
    let is_write = !matches!(verb, Verb::Get | Verb::List | Verb::Watch);
    if !is_write || !state.admission.is_configured() {
        return Ok(Admission::bypassed());
    }
    let user = match user {
        Some(user) => Arc::clone(user),
        None => state.access.effective_user(request)?,
    };
    let options = match verb {
        Verb::Delete | Verb::DeleteCollection if !request.body.is_empty() => body::decode(request)?,
        _ => request.query.options_value(),
    };
    Ok(state.admission.begin(&state.access, state.registry(), user, options))
}

impl Call<'_> {
    fn namespace(&self) -> Option<&str> {
        self.path.namespace.as_deref()
    }

    fn key(&self) -> (&str, &str) {
        (self.namespace().unwrap_or_default(), self.path.name.as_deref().unwrap_or_default())
    }

    fn selection(&self) -> Result<Selection, Status> {
        Selection::parse(self.endpoint, self.namespace(), self.path.name.as_deref(), &self.request.query)
    }

    /// Returns the options of a write; `kind` is their Kubernetes type, such as `CreateOptions`.
    fn write_options(&self, kind: &str) -> Result<WriteOptions, Status> {
        let user_agent = self.request.header(header::USER_AGENT.as_str());
        let options = self.request.query.write_options(kind, user_agent)?;
        let requester = if certificates::is_signing_request(self.endpoint) {
            let sender = || self.state.access.effective_user(self.request);
            Some(self.user.map_or_else(sender, |user| Ok(Arc::clone(user)))?)
        } else {
            None
        };
        Ok(WriteOptions { author: self.user.cloned(), requester, ..options })
    }

    /// Decodes the object to create or replace. Returns the warnings about it, too.
    fn decode_object(&self, options: &WriteOptions) -> Result<(Value, Vec<String>), Status> {
        let (mut value, found) = body::decode_object_strictly(self.request, self.endpoint)?;
        let mut warnings = admit::decode_sent(self.endpoint, &mut value, found, options.validation)?;
        warnings.extend(owner_references::remove_duplicates(&mut value, Step::Decoding));
        Ok((value, warnings))
    }
}
