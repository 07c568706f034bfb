//! Answers the verbs that write objects: create, update and patch.

use http::StatusCode;
use serde_json::Value;

use super::Call;
use crate::meta;
use crate::request::body;
use crate::request::options::WriteOptions;
use crate::respond::{self, ApiResponse};
use crate::rest::subresources::scale;
use crate::rest::verbs::update::{ProposedUpdate, UpdateTarget, check_uid, update_admitted};
use crate::rest::verbs::{create, patch};
use crate::rest::write_steps::admit;
use crate::rest::{WriteResult, with_warnings};
use crate::status::Status;

impl Call<'_> {
    pub(super) async fn create(&self) -> Result<ApiResponse, Status> {
        let options = self.write_options("CreateOptions")?;
        let (value, warnings) = self.decode_object(&options)?;
        let options = WriteOptions { is_decoded: true, ..options };
        let (namespace, admission) = (self.namespace(), &self.admission);
        let written =
            create::create_admitted(self.state, self.endpoint, namespace, value, &options, admission).await;
        self.write_response(with_warnings(written, warnings)?).await
    }

    pub(super) async fn update(&self) -> Result<ApiResponse, Status> {
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
            check_uid(endpoint, (namespace, name), "", &value)?;
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

    pub(super) async fn patch(&self) -> Result<ApiResponse, Status> {
        let options = self.write_options("PatchOptions")?;
        let (path, request, admission) = (self.path, self.request, &self.admission);
        let written = patch::patch(self.state, self.endpoint, path, request, &options, admission).await?;
        self.write_response(written).await
    }

    async fn write_response(&self, result: WriteResult) -> Result<ApiResponse, Status> {
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
