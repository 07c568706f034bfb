//! Writes to a registry. Each blob is sent in one request.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};

use super::{Access, RegistryClient};
use crate::digest::Digest;
use crate::error::{Problem, RegistryError};
use crate::exchange::OutgoingRequest;
use crate::layout::Artifact;
use crate::manifest::media_type;
use crate::origin::Location;
use crate::reference::Reference;

impl RegistryClient {
    /// Pushes a plugin. Returns the digest of its manifest, which signatures are about.
    ///
    /// # Errors
    /// Errors if the registry cannot be reached or refuses it, or if it stored something else.
    pub async fn push(
        &self,
        reference: &Reference,
        artifact: &Artifact,
        wasm: Bytes,
    ) -> Result<Digest, RegistryError> {
        self.push_blob(reference, Bytes::from(artifact.config.clone())).await?;
        self.push_blob(reference, wasm).await?;
        self.push_manifest(reference, &artifact.manifest).await
    }

    /// Pushes a blob, unless the repository has it.
    ///
    /// # Errors
    /// See [`push`](Self::push).
    pub async fn push_blob(&self, reference: &Reference, content: Bytes) -> Result<Digest, RegistryError> {
        let digest = Digest::of(&content);
        let location = self.location(reference, &format!("blobs/{digest}"))?;
        let head = OutgoingRequest { method: Method::HEAD, ..OutgoingRequest::get("*/*") };
        if self.request(&head, &location, reference, Access::Push).await?.status() == StatusCode::OK {
            return Ok(digest);
        }
        let start = OutgoingRequest { method: Method::POST, ..OutgoingRequest::get("*/*") };
        let uploads = self.location(reference, "blobs/uploads/")?;
        let response = self.request(&start, &uploads, reference, Access::Push).await?;
        let response = self.expect(response, &[StatusCode::ACCEPTED], reference, "the upload").await?;
        let target = response.header("location").ok_or_else(|| {
            RegistryError::new(
                Problem::Protocol,
                format!("{} names no place for an upload; check that it is a registry", self.origin),
            )
        })?;
        let mut target = Location::relative_to(&self.origin, target)?;
        drop(response);
        let separator = if target.path.query().is_some() { '&' } else { '?' };
        target.path = format!("{}{separator}digest={digest}", target.path).parse().map_err(|_| {
            RegistryError::new(
                Problem::Protocol,
                format!("{} names an invalid place for an upload; check that it is a registry", self.origin),
            )
        })?;
        let mut upload = OutgoingRequest { method: Method::PUT, ..OutgoingRequest::get("*/*") };
        upload.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        upload.body = content;
        let response = self.request(&upload, &target, reference, Access::Push).await?;
        self.expect(response, &[StatusCode::CREATED], reference, "the upload").await?;
        Ok(digest)
    }

    /// Pushes a manifest. Returns its digest.
    ///
    /// # Errors
    /// See [`push`](Self::push).
    pub async fn push_manifest(&self, reference: &Reference, text: &[u8]) -> Result<Digest, RegistryError> {
        let digest = Digest::of(text);
        if reference.digest().is_some_and(|pinned| pinned != digest) {
            return Err(RegistryError::new(
                Problem::Invalid,
                format!(
                    "{reference} names another digest than that of the file, {digest}; name a tag instead"
                ),
            ));
        }
        let location = self.location(reference, &format!("manifests/{}", reference.selector()))?;
        let mut outgoing = OutgoingRequest { method: Method::PUT, ..OutgoingRequest::get("*/*") };
        outgoing.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type::MANIFEST));
        outgoing.body = Bytes::copy_from_slice(text);
        let response = self.request(&outgoing, &location, reference, Access::Push).await?;
        let response = self.expect(response, &[StatusCode::CREATED], reference, "the manifest").await?;
        let stored =
            response.header("docker-content-digest").and_then(|stored| stored.parse::<Digest>().ok());
        match stored {
            Some(stored) if stored != digest => Err(RegistryError::new(
                Problem::Altered,
                format!(
                    "the registry stored {reference} as {stored} instead of {digest}; check the registry"
                ),
            )),
            _ => Ok(digest),
        }
    }
}
