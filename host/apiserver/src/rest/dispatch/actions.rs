//! Answers requests that create an object without storing it: reviews, tokens, bindings and evictions.

use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::Value;

use super::Call;
use crate::admission::{NoBuiltIn, Objects, Operation, WriteRequest};
use crate::meta;
use crate::request::{Verb, body};
use crate::respond::{self, ApiResponse};
use crate::rest::kinds::review;
use crate::rest::subresources::{pod_actions, token};
use crate::rest::write_steps::admit;
use crate::status::Status;

impl Call<'_> {
    pub(super) fn review(&self, verb: Verb) -> Result<ApiResponse, Status> {
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

    pub(super) async fn token(&self) -> Result<ApiResponse, Status> {
        if self.request.method != Method::POST {
            return Err(Status::method_not_allowed());
        }
        let token_request = self.admit_posted(body::decode(self.request)?).await?;
        let token = token::create(self.state, self.endpoint, self.key(), token_request)?;
        Ok(respond::json_value(StatusCode::CREATED, &token))
    }

    /// Binds the Pod that a Binding names, through the collection `bindings`.
    pub(super) async fn bind(&self, verb: Verb) -> Result<ApiResponse, Status> {
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
    pub(super) async fn pod_action(&self) -> Result<ApiResponse, Status> {
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
}
