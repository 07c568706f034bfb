//! Answers the verbs that delete objects.

use http::StatusCode;

use super::Call;
use crate::request::body;
use crate::respond::{self, ApiResponse};
use crate::rest::kinds::warnings;
use crate::rest::verbs::delete::{DeleteOptions, DeleteResult, delete_admitted};
use crate::rest::verbs::list::list;
use crate::status::Status;

impl Call<'_> {
    fn delete_options(&self) -> Result<DeleteOptions, Status> {
        let body = if self.request.body.is_empty() { None } else { Some(body::decode(self.request)?) };
        DeleteOptions::parse(&self.request.query, body.as_ref())
    }

    pub(super) async fn delete(&self) -> Result<ApiResponse, Status> {
        let options = DeleteOptions { pause: self.state.pod_removal_pause, ..self.delete_options()? };
        let warning = warnings::on_delete(self.endpoint, &options);
        let mut answer = self.delete_object(&options).await?;
        respond::add_warnings(&mut answer, &warning);
        Ok(answer)
    }

    async fn delete_object(&self, options: &DeleteOptions) -> Result<ApiResponse, Status> {
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

    pub(super) async fn delete_collection(&self) -> Result<ApiResponse, Status> {
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
}
