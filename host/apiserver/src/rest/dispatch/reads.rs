//! Answers the verbs that read: get, list and watch.

use http::StatusCode;

use super::Call;
use crate::request::options::parse_resource_version;
use crate::respond::{self, ApiResponse};
use crate::rest::subresources::scale;
use crate::rest::verbs::list::list;
use crate::rest::verbs::update::UpdateTarget;
use crate::status::Status;
use crate::watch::{WatchOptions, watch};

impl Call<'_> {
    pub(super) async fn get(&self) -> Result<ApiResponse, Status> {
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

    pub(super) async fn list(&self) -> Result<ApiResponse, Status> {
        let mut listing = list(self.state, self.endpoint, &self.selection()?, &self.request.query)?;
        self.endpoint.present_all(&mut listing.objects).await?;
        Ok(respond::list(self.endpoint, listing, self.view, self.state.clock.now()))
    }

    pub(super) fn watch(&self) -> Result<ApiResponse, Status> {
        let options = WatchOptions::parse(&self.request.query, &self.state.identifiers)?;
        let shutdown = self.request.shutdown.clone();
        let stream = watch(self.state, self.endpoint, self.selection()?, self.view, options, shutdown);
        let (content_type, body) = respond::encoding::watch(stream, self.view.encoding);
        Ok(respond::with_body(StatusCode::OK, content_type, body))
    }
}
