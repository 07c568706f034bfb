//! Dispatches a request for a resource to the function of its verb.

use std::sync::Arc;

use http::{Method, StatusCode, header};
use serde_json::Value;

use super::delete::{DeleteOptions, DeleteResult, delete_admitted};
use super::list::list;
use super::owner_references::{self, Step};
use super::update::{ProposedUpdate, UpdateTarget, update_admitted};
use super::{
    WriteResult, admit, certificates, create, patch, pod_actions, pods, review, scale, token, warnings,
    with_warnings,
};
use crate::admission::{Admission, NoBuiltIn, Objects, Operation, WriteRequest};
use crate::meta;
use crate::registry::Endpoint;
use crate::request::options::{WriteOptions, parse_resource_version};
use crate::request::{ObjectPath, Offer, Request, Selection, Verb, View, body};
use crate::respond::{self, Answer};
use crate::state::State;
use crate::status::Status;
use crate::user::User;
use crate::watch::{WatchOptions, watch};

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
) -> Result<Answer, Status> {
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

    async fn get(&self) -> Result<Answer, Status> {
        let (namespace, name) = self.key();
        self.check_version_of_get()?;
        let found = self.endpoint.resource.table.get(namespace, name);
        let object = found.ok_or_else(|| Status::not_found(self.endpoint.resource_ref(), name))?;
        let object = self.endpoint.present(object).await?;
        if let (UpdateTarget::Scale, Some(paths)) =
            (UpdateTarget::from_subresource(self.path.subresource.as_deref()), &self.endpoint.scale)
        {
            let scale = scale::from_object(self.endpoint, paths, &self.endpoint.served_value(&object));
            return Ok(respond::json_value(StatusCode::OK, &scale));
        }
        Ok(respond::object(self.endpoint, &object, self.view, self.state.clock.now(), StatusCode::OK, &[]))
    }

    /// Errors if the query of a GET has a resourceVersion that is not a number.
    fn check_version_of_get(&self) -> Result<(), Status> {
        let version = self.request.query.get("resourceVersion").map(parse_resource_version);
        version.transpose().map(drop).map_err(Status::unclassified)
    }

    async fn list(&self) -> Result<Answer, Status> {
        let mut listing = list(self.state, self.endpoint, &self.selection()?, &self.request.query)?;
        self.endpoint.present_all(&mut listing.objects).await?;
        Ok(respond::list(self.endpoint, listing, self.view, self.state.clock.now()))
    }

    fn watch(&self) -> Result<Answer, Status> {
        let options = WatchOptions::parse(&self.request.query, &self.state.identifiers)?;
        let shutdown = self.request.shutdown.clone();
        let stream = watch(self.state, self.endpoint, self.selection()?, self.view, options, shutdown);
        let (content_type, body) = respond::encoding::watch(stream, self.view.encoding);
        Ok(respond::with_body(StatusCode::OK, content_type, body))
    }

    async fn create(&self) -> Result<Answer, Status> {
        let options = self.write_options("CreateOptions")?;
        let (value, warnings) = self.decode_object(&options)?;
        let options = WriteOptions { is_decoded: true, ..options };
        let (namespace, admission) = (self.namespace(), &self.admission);
        let written =
            create::create_admitted(self.state, self.endpoint, namespace, value, &options, admission).await;
        self.write_response(with_warnings(written, warnings)?).await
    }

    async fn update(&self) -> Result<Answer, Status> {
        let options = self.write_options("UpdateOptions")?;
        let target = UpdateTarget::from_subresource(self.path.subresource.as_deref());
        let endpoint = self.endpoint;
        if let (UpdateTarget::Scale, Some(paths)) = (target, &endpoint.scale) {
            let schema = scale::schema();
            let (mut scaled, found) = body::decode_strictly(self.request, schema.as_deref(), scale::KIND)?;
            body::check_type(&mut scaled, endpoint, scale::API_VERSION, scale::KIND)?;
            let warnings = admit::decode_scale(&mut scaled, found, options.validation)?;
            let retry = meta::text(&scaled, "resourceVersion").is_empty();
            let change = |old: &Value| {
                let value = scale::set_replicas(endpoint, paths, old, &scaled)?;
                Ok(ProposedUpdate { value, applied: false, retry })
            };
            let written = self.write_update(target, &options, change).await;
            return self.write_response(with_warnings(written, warnings)?).await;
        }
        let (value, warnings) = self.decode_object(&options)?;
        let options = WriteOptions { is_decoded: true, ..options };
        let written = self.replace(target, value, options).await;
        self.write_response(with_warnings(written, warnings)?).await
    }

    /// Replaces an object, or creates it if its kind allows that.
    async fn replace(
        &self,
        target: UpdateTarget,
        mut value: Value,
        options: WriteOptions,
    ) -> Result<WriteResult, Status> {
        let endpoint = self.endpoint;
        let (namespace, name) = self.key();
        self.check_identity(&value)?;
        let missing = endpoint.resource.table.get(namespace, name).is_none();
        // As in Kubernetes, whoever writes the status of a missing Service creates it.
        let creates_through = match target {
            UpdateTarget::Object => Some(""),
            UpdateTarget::Status if endpoint.is_core("services") => Some("status"),
            _ => None,
        };
        if let (true, true, Some(created_through)) =
            (missing, endpoint.resource.strategy.create_on_update, creates_through)
        {
            let options = WriteOptions { created_through, ..options };
            self.state.access.authorize_create(self.user, endpoint, self.namespace(), name)?;
            meta::metadata_mut(&mut value).remove("resourceVersion");
            let (namespace, admission) = (self.namespace(), &self.admission);
            return create::create_admitted(self.state, endpoint, namespace, value, &options, admission)
                .await;
        }
        let retry = meta::text(&value, "resourceVersion").is_empty();
        let change = |_: &Value| Ok(ProposedUpdate { value: value.clone(), applied: false, retry });
        self.write_update(target, &options, change).await
    }

    async fn write_update(
        &self,
        target: UpdateTarget,
        options: &WriteOptions,
        change: impl Fn(&Value) -> Result<ProposedUpdate, Status>,
    ) -> Result<WriteResult, Status> {
        let (endpoint, admission) = (self.endpoint, &self.admission);
        update_admitted(self.state, endpoint, self.key(), target, options, admission, change).await
    }

    /// Checks that the object of a PUT has the name and namespace of the path.
    fn check_identity(&self, value: &Value) -> Result<(), Status> {
        let (namespace, name) = self.key();
        let given = meta::text(value, "name");
        if given.is_empty() {
            return Err(Status::bad_request(format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )));
        }
        if given != name {
            return Err(Status::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({name})"
            )));
        }
        let given = meta::text(value, "namespace");
        if !given.is_empty() && given != namespace && self.endpoint.resource.namespaced {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(())
    }

    async fn patch(&self) -> Result<Answer, Status> {
        let options = self.write_options("PatchOptions")?;
        let (path, request, admission) = (self.path, self.request, &self.admission);
        let written = patch::patch(self.state, self.endpoint, path, request, &options, admission).await?;
        self.write_response(written).await
    }

    fn delete_options(&self) -> Result<DeleteOptions, Status> {
        let body = if self.request.body.is_empty() { None } else { Some(body::decode(self.request)?) };
        DeleteOptions::parse(&self.request.query, body.as_ref())
    }

    async fn delete(&self) -> Result<Answer, Status> {
        let options = self.delete_options()?;
        let warning = warnings::on_delete(self.endpoint, &options);
        let mut answer = self.delete_object(&options).await?;
        respond::add_warnings(&mut answer, &warning);
        Ok(answer)
    }

    async fn delete_object(&self, options: &DeleteOptions) -> Result<Answer, Status> {
        let deleted =
            delete_admitted(self.state, self.endpoint, self.key(), options, &self.admission).await?;
        let object = match deleted {
            DeleteResult::Deleted(last) if !self.endpoint.resource.strategy.returns_deleted => {
                return Ok(respond::deletion_status(self.endpoint, &last));
            }
            DeleteResult::Deleted(object) | DeleteResult::Pending(object) => object,
        };
        let object = self.endpoint.present(object).await?;
        Ok(respond::object(self.endpoint, &object, self.view, self.state.clock.now(), StatusCode::OK, &[]))
    }

    async fn delete_collection(&self) -> Result<Answer, Status> {
        let options = DeleteOptions { of_collection: true, ..self.delete_options()? };
        let mut listing = list(self.state, self.endpoint, &self.selection()?, &self.request.query)?;
        // As in kube-apiserver, the response has the objects as they were before the deletion.
        for object in &listing.objects {
            let key = (&*object.namespace, &*object.name);
            let deleted = delete_admitted(self.state, self.endpoint, key, &options, &self.admission).await;
            match deleted {
                Ok(_) => {}
                // Deleted concurrently.
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        self.endpoint.present_all(&mut listing.objects).await?;
        let mut answer = respond::list(self.endpoint, listing, self.view, self.state.clock.now());
        respond::add_warnings(&mut answer, &warnings::on_delete(self.endpoint, &options));
        Ok(answer)
    }

    fn review(&self, verb: Verb) -> Result<Answer, Status> {
        if verb != Verb::Create || self.request.method != Method::POST {
            return Err(Status::method_not_allowed());
        }
        if self.endpoint.resource.namespaced != self.namespace().is_some() {
            return Err(Status::no_such_resource());
        }
        let options = self.write_options("CreateOptions")?;
        let (mut value, warnings) = self.decode_object(&options)?;
        let now = self.state.now();
        meta::metadata_mut(&mut value);
        admit::track_managed_fields(self.endpoint, None, &mut value, &options, "", &now);
        let user = self
            .user
            .map_or_else(|| self.state.access.effective_user(self.request), |user| Ok(Arc::clone(user)))?;
        let reviewed = review::answer(self.state, self.endpoint, self.namespace(), &user, value);
        let reviewed = reviewed.map_err(|status| status.with_warnings(warnings.clone()))?;
        let mut answer = respond::json_value(StatusCode::CREATED, &reviewed);
        respond::add_warnings(&mut answer, &warnings);
        Ok(answer)
    }

    async fn token(&self) -> Result<Answer, Status> {
        if self.request.method != Method::POST {
            return Err(Status::method_not_allowed());
        }
        let token_request = self.admit_posted(body::decode(self.request)?).await?;
        let token = token::create(self.state, self.endpoint, self.key(), token_request)?;
        Ok(respond::json_value(StatusCode::CREATED, &token))
    }

    /// Binds the Pod that a Binding names, through the collection `bindings`.
    async fn bind(&self, verb: Verb) -> Result<Answer, Status> {
        if verb != Verb::Create || self.path.name.is_some() {
            return Err(Status::method_not_allowed());
        }
        let namespace = self.namespace().ok_or_else(Status::no_such_resource)?;
        let options = self.write_options("CreateOptions")?;
        let binding = self.admit_posted(body::decode_object(self.request, self.endpoint)?).await?;
        let name = meta::text(&binding, "name").to_owned();
        let registry = self.state.registry();
        let pods = registry.endpoint("", "v1", "pods").ok_or_else(Status::no_such_resource)?;
        pod_actions::bind(self.state, pods, (namespace, &name), binding, &options)?;
        Ok(respond::success(StatusCode::CREATED))
    }

    /// Binds a Pod to a Node, or evicts it.
    async fn pod_action(&self) -> Result<Answer, Status> {
        if self.request.method != Method::POST {
            return Err(Status::method_not_allowed());
        }
        let options = self.write_options("CreateOptions")?;
        let body = self.admit_posted(body::decode(self.request)?).await?;
        match self.path.subresource.as_deref() {
            Some("binding") => pod_actions::bind(self.state, self.endpoint, self.key(), body, &options)?,
            _ => pod_actions::evict(self.state, self.endpoint, self.key(), body, &options)?,
        }
        Ok(respond::success(StatusCode::CREATED))
    }

    /// Lets admission change or refuse an object that is posted to a subresource, such as a TokenRequest. Returns the object.
    async fn admit_posted(&self, object: Value) -> Result<Value, Status> {
        if !self.admission.is_active() {
            return Ok(object);
        }
        let (namespace, name) = self.key();
        let write = WriteRequest {
            operation: Operation::Create,
            endpoint: self.endpoint,
            subresource: self.path.subresource.as_deref().unwrap_or_default(),
            namespace,
            name,
            dry_run: self.request.query.dry_run("CreateOptions")?,
        };
        let mut new = Some(object);
        self.admission.mutate(&write, &mut new, None, &NoBuiltIn).await?;
        let object = new.unwrap_or_default();
        self.admission.validate(&write, Objects { new: Some(&object), old: None }).await?;
        Ok(object)
    }

    async fn write_response(&self, result: WriteResult) -> Result<Answer, Status> {
        let code = if result.created { StatusCode::CREATED } else { StatusCode::OK };
        let object = self.endpoint.present(result.object).await?;
        if let (UpdateTarget::Scale, Some(paths)) =
            (UpdateTarget::from_subresource(self.path.subresource.as_deref()), &self.endpoint.scale)
        {
            let scale = scale::from_object(self.endpoint, paths, &self.endpoint.served_value(&object));
            let mut answer = respond::json_value(code, &scale);
            respond::add_warnings(&mut answer, &result.warnings);
            return Ok(answer);
        }
        let now = self.state.clock.now();
        Ok(respond::object(self.endpoint, &object, self.view, now, code, &result.warnings))
    }
}
