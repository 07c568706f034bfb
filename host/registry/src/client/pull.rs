//! Reads from a registry: manifests, blobs, and what refers to a manifest.

use http::StatusCode;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::{Access, RegistryClient};
use crate::digest::{Digest, Hasher};
use crate::error::{Problem, RegistryError, excerpt};
use crate::exchange::OutgoingRequest;
use crate::manifest::{Descriptor, Index, Manifest, media_type};
use crate::reference::Reference;

/// Pages of a list of referrers that are read. Some registries have few artifacts in each.
const MAX_PAGES: usize = 1_000;
/// A list without referrers.
const NO_REFERRERS: &[u8] = b"{\"schemaVersion\":2,\"manifests\":[]}";

/// A manifest as the registry stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestDocument {
    /// The digest of the text.
    pub digest: Digest,
    /// The JSON text.
    pub text: Vec<u8>,
}

impl ManifestDocument {
    /// Parses the manifest. `name` is for errors.
    ///
    /// # Errors
    /// Errors if it is not the manifest of one artifact.
    pub fn parse(&self, name: &str) -> Result<Manifest, RegistryError> {
        Manifest::parse(&self.text, name)
    }
}

impl RegistryClient {
    /// Fetches the manifest of a reference, and checks its digest.
    ///
    /// # Errors
    /// Errors if there is none, if it cannot be read, or if it does not have the digest.
    pub async fn manifest(&self, reference: &Reference) -> Result<ManifestDocument, RegistryError> {
        self.manifest_within(self.options.limits.manifest, reference).await
    }

    /// Fetches a manifest as [`manifest`](Self::manifest) does, with at most this many bytes.
    pub(crate) async fn manifest_within(
        &self,
        limit: usize,
        reference: &Reference,
    ) -> Result<ManifestDocument, RegistryError> {
        let accept =
            [media_type::MANIFEST, media_type::DOCKER_MANIFEST, media_type::INDEX, media_type::DOCKER_INDEX]
                .join(", ");
        let location = self.location(reference, &format!("manifests/{}", reference.selector()))?;
        let response =
            self.request(&OutgoingRequest::get(&accept), &location, reference, Access::Pull).await?;
        let response = self.expect(response, &[StatusCode::OK], reference, "the manifest").await?;
        let stated = response.header("docker-content-digest").map(str::to_owned);
        let text = response.body(limit, "a manifest").await?;
        let digest = Digest::of(&text);
        let expected = match reference.digest() {
            Some(digest) => Some(digest),
            None => stated.and_then(|stated| stated.parse().ok()),
        };
        match expected {
            Some(expected) if expected != digest => Err(altered(reference, "manifest", expected, digest)),
            _ => Ok(ManifestDocument { digest, text }),
        }
    }

    /// Fetches a blob into a writer, and checks its size and its digest. What was written must not be used if this fails.
    ///
    /// # Errors
    /// Errors if there is none, if the connection breaks, or if the content is not that of the descriptor.
    pub async fn blob(
        &self,
        reference: &Reference,
        descriptor: &Descriptor,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), RegistryError> {
        let location = self.location(reference, &format!("blobs/{}", descriptor.digest))?;
        let response = self.request(&OutgoingRequest::get("*/*"), &location, reference, Access::Pull).await?;
        let mut response = self.expect(response, &[StatusCode::OK], reference, "the content").await?;
        let mut hasher = Hasher::default();
        let mut size: u64 = 0;
        while let Some(data) = response.next().await? {
            size += data.len() as u64;
            if size > descriptor.size {
                return Err(wrong_size(reference, descriptor, &format!("more than {}", descriptor.size)));
            }
            hasher.update(&data);
            writer.write_all(&data).await.map_err(|error| cannot_write(&error))?;
        }
        if size < descriptor.size {
            return Err(wrong_size(reference, descriptor, &format!("{size}")));
        }
        let found = hasher.finish();
        if found != descriptor.digest {
            return Err(altered(reference, "content", descriptor.digest, found));
        }
        writer.flush().await.map_err(|error| cannot_write(&error))
    }

    /// Fetches a small blob into memory.
    ///
    /// # Errors
    /// See [`blob`](Self::blob). Errors if the blob is larger than a manifest may be.
    pub async fn small_blob(
        &self,
        reference: &Reference,
        descriptor: &Descriptor,
    ) -> Result<Vec<u8>, RegistryError> {
        let limit = self.options.limits.manifest;
        if descriptor.size > limit as u64 {
            return Err(RegistryError::new(
                Problem::TooLarge,
                format!(
                    "{reference} has a part of {} bytes, and the limit is {limit}; check what was pushed",
                    descriptor.size
                ),
            ));
        }
        let mut content = Vec::new();
        self.blob(reference, descriptor, &mut content).await?;
        Ok(content)
    }

    /// Returns what refers to the manifest, page by page. Asks the referrers API, and looks at the tag that replaces it in older registries.
    /// Whoever can push decides how much there is, so the caller limits what it reads.
    #[must_use]
    pub fn referrers<'a>(&'a self, reference: &'a Reference, subject: Digest) -> ReferrerPages<'a> {
        ReferrerPages { client: self, reference, subject, query: Some(String::new()), pages: 0 }
    }

    /// Returns a page of what refers to the manifest, and the query for the next page.
    async fn page_of_referrers(
        &self,
        reference: &Reference,
        subject: Digest,
        query: &str,
    ) -> Result<(Vec<u8>, Option<String>), RegistryError> {
        let path = format!("referrers/{subject}");
        let location = self.location(reference, &format!("{path}{query}"))?;
        let response = self
            .request(&OutgoingRequest::get(media_type::INDEX), &location, reference, Access::Pull)
            .await?;
        // Registries without this API respond in several ways. A proxy may respond with a page of its own.
        let is_index = response
            .header("content-type")
            .is_some_and(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == media_type::INDEX));
        match response.status() {
            StatusCode::OK if is_index => {
                let next = response.header("link").and_then(|link| next_query(link, &path));
                let text = response.body(self.options.limits.manifest, "a list of referrers").await?;
                Ok((text, next))
            }
            StatusCode::OK
            | StatusCode::NOT_FOUND
            | StatusCode::BAD_REQUEST
            | StatusCode::METHOD_NOT_ALLOWED => {
                let tag = reference.tagged(format!("sha256-{}", subject.hex()));
                match self.manifest(&tag).await {
                    Ok(document) => Ok((document.text, None)),
                    Err(error) if error.problem() == Problem::NotFound => Ok((NO_REFERRERS.to_vec(), None)),
                    Err(error) => Err(error),
                }
            }
            _ => {
                self.expect(response, &[], reference, "the list of referrers").await?;
                Ok((NO_REFERRERS.to_vec(), None))
            }
        }
    }
}

/// The artifacts that refer to a manifest, a page at a time.
#[derive(Debug)]
pub struct ReferrerPages<'a> {
    client: &'a RegistryClient,
    reference: &'a Reference,
    subject: Digest,
    /// That of the next page, if there is one.
    query: Option<String>,
    pages: usize,
}

/// A page of a list of referrers.
#[derive(Debug)]
pub struct ReferrerPage {
    /// The artifacts.
    pub artifacts: Vec<Descriptor>,
    /// The size of the page's text, in bytes.
    pub size: usize,
}

impl ReferrerPages<'_> {
    /// Returns the next page; `None` after the last one.
    ///
    /// # Errors
    /// Errors if the registry cannot be asked, if a page is larger than a manifest may be, or if there are too many pages.
    pub async fn next(&mut self) -> Result<Option<ReferrerPage>, RegistryError> {
        let Some(query) = self.query.take() else { return Ok(None) };
        let reference = self.reference;
        if self.pages == MAX_PAGES {
            return Err(RegistryError::new(
                Problem::TooLarge,
                format!(
                    "the list of what refers to {reference} has more than {MAX_PAGES} pages; remove what is attached to it and is not needed, and check who can write to the registry"
                ),
            ));
        }
        self.pages += 1;
        let (text, next) = self.client.page_of_referrers(reference, self.subject, &query).await?;
        let index: Index = serde_json::from_slice(&text).map_err(|error| {
            RegistryError::new(
                Problem::Protocol,
                format!(
                    "the list of what refers to {reference} cannot be read: {}; remove it",
                    excerpt(&error.to_string())
                ),
            )
        })?;
        self.query = next;
        Ok(Some(ReferrerPage { artifacts: index.manifests, size: text.len() }))
    }
}

/// Returns the query of the next page that a header `Link` names; `None` without one. Only the query is used, so that the registry cannot send
/// requests elsewhere.
fn next_query(link: &str, path: &str) -> Option<String> {
    let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
    if !parameters.split(';').any(|parameter| matches!(parameter.trim(), "rel=\"next\"" | "rel=next")) {
        return None;
    }
    let (before, query) = target.split_once('?')?;
    let is_plain = query.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    (before.ends_with(path) && is_plain && query.len() <= 4096).then(|| format!("?{query}"))
}

fn altered(reference: &Reference, what: &str, expected: Digest, found: Digest) -> RegistryError {
    RegistryError::new(
        Problem::Altered,
        format!(
            "the {what} of {reference} has the digest {found} instead of {expected}; push it again, and check who can write to the registry"
        ),
    )
}

fn wrong_size(reference: &Reference, descriptor: &Descriptor, found: &str) -> RegistryError {
    RegistryError::new(
        Problem::Altered,
        format!("the content of {reference} has {found} bytes instead of {}; push it again", descriptor.size),
    )
}

fn cannot_write(error: &std::io::Error) -> RegistryError {
    RegistryError::new(
        Problem::Cache,
        format!("what was downloaded cannot be stored: {error}; check the space on the disk"),
    )
}

#[cfg(test)]
mod tests {
    use super::next_query;

    #[test]
    fn only_the_query_of_the_next_page_is_used() {
        let path = "referrers/sha256:ab";
        for (link, expected) in [
            ("</v2/team/p/referrers/sha256:ab?n=5&last=x>; rel=\"next\"", Some("?n=5&last=x")),
            ("<https://other.example/v2/p/referrers/sha256:ab?token=1>; rel=next", Some("?token=1")),
            ("</v2/team/p/referrers/sha256:ab?n=5>; rel=\"prev\"", None),
            ("</v2/team/p/referrers/sha256:ab>; rel=\"next\"", None),
            ("</v2/team/p/tags/list?n=5>; rel=\"next\"", None),
            ("</v2/referrers/sha256:ab?a b>; rel=\"next\"", None),
            ("next", None),
        ] {
            assert_eq!(next_query(link, path).as_deref(), expected, "{link}");
        }
    }
}
