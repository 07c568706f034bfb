use std::sync::Arc;

use http::{Method, StatusCode, header};
use serde_json::Value;

use super::delete::{DeleteOptions, Deleted, delete};
use super::list::list;
use super::respond::{self, Answer};
use super::selection::Selection;
use super::update::{Change, Part, update};
use super::{Written, create, meta, patch, pods, review, scale, token};
use crate::access::User;
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::request::{ObjectPath, Request, Verb, View, body};
use crate::server::{ResponseBody, State};
use crate::status::Status;
use crate::watch::{WatchOptions, watch};

/// One request for a resource: what all verbs need.
struct Call<'a> {
    state: &'a State,
    endpoint: &'a Arc<Endpoint>,
    path: &'a ObjectPath,
    request: &'a Request,
    /// Who asks; none where everything is allowed.
    user: Option<&'a Arc<User>>,
    view: View,
}

/// Answers a request for a collection, an object or a subresource.
pub(crate) fn resource(
    state: &State,
    endpoint: &Arc<Endpoint>,
    path: &ObjectPath,
    verb: Verb,
    request: &Request,
    user: Option<&Arc<User>>,
) -> Result<Answer, Status> {
    if let Some(subresource) = &path.subresource {
        let key = (path.namespace.as_deref().unwrap_or_default(), path.name.as_deref().unwrap_or_default());
        pods::refuse_container(endpoint, key, subresource)?;
        endpoint.require_subresource(subresource)?;
    }
    if path.namespace.is_some() && !endpoint.resource.namespaced {
        return Err(Status::no_such_resource());
    }
    let view = View::read(request.header("accept"), &request.query)?;
    let call = Call { state, endpoint, path, request, user, view };
    if endpoint.resource.rules.review {
        return call.review(verb);
    }
    if path.name.is_some() && path.namespace.is_none() && endpoint.resource.namespaced {
        return Err(Status::no_such_resource());
    }
    if path.subresource.as_deref() == Some("token") {
        return call.token();
    }
    match verb {
        Verb::Get => call.get(),
        Verb::List => call.list(),
        Verb::Watch => call.watch(),
        Verb::Create if path.name.is_none() => call.create(),
        Verb::Update => call.update(),
        Verb::Patch => call.patch(),
        Verb::Delete if path.subresource.is_none() => call.delete(),
        Verb::DeleteCollection => call.delete_collection(),
        Verb::Create | Verb::Delete => Err(Status::method_not_allowed(request.method.as_str())),
    }
}

impl Call<'_> {
    fn namespace(&self) -> Option<&str> {
        self.path.namespace.as_deref()
    }

    fn key(&self) -> (&str, &str) {
        (self.namespace().unwrap_or_default(), self.path.name.as_deref().unwrap_or_default())
    }

    fn selection(&self) -> Result<Selection, Status> {
        Selection::read(self.endpoint, self.namespace(), self.path.name.as_deref(), &self.request.query)
    }

    /// The options of a write; `kind` is what Kubernetes calls them.
    fn write_options(&self, kind: &str) -> Result<WriteOptions, Status> {
        let user_agent = self.request.header(header::USER_AGENT.as_str());
        let options = self.request.query.write_options(kind, user_agent)?;
        Ok(WriteOptions { author: self.user.cloned(), ..options })
    }

    fn get(&self) -> Result<Answer, Status> {
        let (namespace, name) = self.key();
        let found = self.endpoint.resource.table.get(namespace, name);
        let object = found.ok_or_else(|| Status::not_found(self.endpoint.about(), name))?;
        if let (Part::Scale, Some(paths)) = (Part::of(self.path.subresource.as_deref()), &self.endpoint.scale)
        {
            let scale = scale::of(self.endpoint, paths, &self.endpoint.serve(&object));
            return Ok(respond::json_value(StatusCode::OK, &scale));
        }
        Ok(respond::object(self.endpoint, &object, self.view, self.state.clock.now(), StatusCode::OK, &[]))
    }

    fn list(&self) -> Result<Answer, Status> {
        let listing = list(self.state, self.endpoint, &self.selection()?, &self.request.query)?;
        Ok(respond::list(self.endpoint, listing, self.view, self.state.clock.now()))
    }

    fn watch(&self) -> Result<Answer, Status> {
        let options = WatchOptions::read(&self.request.query)?;
        let shutdown = self.request.shutdown.clone();
        let stream = watch(self.state, self.endpoint, self.selection()?, self.view, options, shutdown);
        let content_type = "application/json;stream=watch";
        Ok(respond::with_body(StatusCode::OK, content_type, ResponseBody::stream(stream)))
    }

    fn create(&self) -> Result<Answer, Status> {
        let options = self.write_options("CreateOptions")?;
        let value = body::object(self.request, self.endpoint)?;
        let written = create::create(self.state, self.endpoint, self.namespace(), value, &options)?;
        Ok(self.written(&written))
    }

    fn update(&self) -> Result<Answer, Status> {
        let options = self.write_options("UpdateOptions")?;
        let part = Part::of(self.path.subresource.as_deref());
        let endpoint = self.endpoint;
        let (namespace, name) = self.key();
        if let (Part::Scale, Some(paths)) = (part, &endpoint.scale) {
            let mut scaled = body::decode(self.request)?;
            body::check_type(&mut scaled, endpoint, scale::API_VERSION, scale::KIND)?;
            let retry = meta::text(&scaled, "resourceVersion").is_empty();
            let written = update(self.state, endpoint, self.key(), part, &options, |old| {
                let value = scale::put(endpoint, paths, old, &scaled)?;
                Ok(Change { value, applied: false, retry })
            })?;
            return Ok(self.written(&written));
        }
        let mut value = body::object(self.request, endpoint)?;
        self.check_identity(&mut value)?;
        let missing = endpoint.resource.table.get(namespace, name).is_none();
        if missing && part == Part::Main && endpoint.resource.rules.create_on_update {
            self.state.access.require_create(self.user, endpoint, self.namespace(), name)?;
            meta::of(&mut value).remove("resourceVersion");
            let written = create::create(self.state, endpoint, self.namespace(), value, &options)?;
            return Ok(self.written(&written));
        }
        let retry = meta::text(&value, "resourceVersion").is_empty();
        let written = update(self.state, endpoint, self.key(), part, &options, |_| {
            Ok(Change { value: value.clone(), applied: false, retry })
        })?;
        Ok(self.written(&written))
    }

    /// The object of a PUT must be the one that the path names.
    fn check_identity(&self, value: &mut Value) -> Result<(), Status> {
        let (namespace, name) = self.key();
        let given = meta::text(value, "name");
        if given.is_empty() {
            meta::of(value).insert("name".into(), name.into());
        } else if given != name {
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

    fn patch(&self) -> Result<Answer, Status> {
        let options = self.write_options("PatchOptions")?;
        let written = patch::patch(self.state, self.endpoint, self.path, self.request, &options)?;
        Ok(self.written(&written))
    }

    fn delete_options(&self) -> Result<DeleteOptions, Status> {
        let body = if self.request.body.is_empty() { None } else { Some(body::decode(self.request)?) };
        DeleteOptions::read(&self.request.query, body.as_ref())
    }

    fn delete(&self) -> Result<Answer, Status> {
        let options = self.delete_options()?;
        let object = match delete(self.state, self.endpoint, self.key(), &options)? {
            Deleted::Gone(last) if !self.endpoint.resource.rules.returns_deleted => {
                return Ok(respond::deleted(self.endpoint, &last));
            }
            Deleted::Gone(object) | Deleted::Pending(object) => object,
        };
        Ok(respond::object(self.endpoint, &object, self.view, self.state.clock.now(), StatusCode::OK, &[]))
    }

    fn delete_collection(&self) -> Result<Answer, Status> {
        let options = self.delete_options()?;
        let mut listing = list(self.state, self.endpoint, &self.selection()?, &self.request.query)?;
        for object in &mut listing.objects {
            let key = (&*object.namespace, &*object.name);
            match delete(self.state, self.endpoint, key, &options) {
                Ok(Deleted::Gone(last) | Deleted::Pending(last)) => *object = last,
                // Somebody else was faster.
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        Ok(respond::list(self.endpoint, listing, self.view, self.state.clock.now()))
    }

    fn review(&self, verb: Verb) -> Result<Answer, Status> {
        if verb != Verb::Create || self.request.method != Method::POST {
            return Err(Status::method_not_allowed(self.request.method.as_str()));
        }
        if self.endpoint.resource.namespaced != self.namespace().is_some() {
            return Err(Status::no_such_resource());
        }
        let value = body::object(self.request, self.endpoint)?;
        let user =
            self.user.map_or_else(|| self.state.access.user_of(self.request), |user| Ok(Arc::clone(user)))?;
        let answer = review::answer(self.state, self.endpoint, self.namespace(), &user, value)?;
        Ok(respond::json_value(StatusCode::CREATED, &answer))
    }

    fn token(&self) -> Result<Answer, Status> {
        if self.request.method != Method::POST {
            return Err(Status::method_not_allowed(self.request.method.as_str()));
        }
        let token = token::create(self.state, self.endpoint, self.key(), self.request)?;
        Ok(respond::json_value(StatusCode::CREATED, &token))
    }

    fn written(&self, written: &Written) -> Answer {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        if let (Part::Scale, Some(paths)) = (Part::of(self.path.subresource.as_deref()), &self.endpoint.scale)
        {
            let scale = scale::of(self.endpoint, paths, &self.endpoint.serve(&written.object));
            return respond::json_value(code, &scale);
        }
        respond::object(
            self.endpoint,
            &written.object,
            self.view,
            self.state.clock.now(),
            code,
            &written.warnings,
        )
    }
}
