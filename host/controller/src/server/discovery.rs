//! Which URL serves a kind.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use pilothouse_model::ResourceType;
use serde::Deserialize;

use super::{Server, ServerError};

/// Finds resource types by kind. What was found is kept; what was not is asked again, because a CRD may have come.
#[derive(Clone)]
pub(crate) struct Discovery {
    server: Server,
    known: Arc<RwLock<HashMap<(String, String), ResourceType>>>,
}

/// Why a kind was not found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiscoveryError {
    /// The server does not serve the kind, at least not now.
    #[error(
        "the API server does not serve kind {kind:?} in {api_version:?}; apply its CustomResourceDefinition, or correct \
         apiVersion and kind"
    )]
    NotServed { api_version: String, kind: String },
    /// The server could not be asked.
    #[error("cannot find out whether {api_version:?} is served: {source}")]
    Server { api_version: String, source: ServerError },
    /// The answer was not a resource list.
    #[error("the API server's resource list of {api_version:?} cannot be read: {source}")]
    Answer { api_version: String, source: serde_json::Error },
}

#[derive(Deserialize)]
struct ApiResourceList {
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
struct ApiResource {
    name: String,
    kind: String,
    namespaced: bool,
}

impl Discovery {
    pub(crate) fn new(server: Server) -> Self {
        Self { server, known: Arc::default() }
    }

    /// The resource type of a kind in exactly this API version.
    pub(crate) async fn resolve(
        &self,
        api_version: &str,
        kind: &str,
    ) -> Result<ResourceType, DiscoveryError> {
        let wanted = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.known.read().get(&wanted) {
            return Ok(known.clone());
        }
        let (api_version, kind) = wanted;
        let Some(resources) = self.resources(&api_version).await? else {
            return Err(DiscoveryError::NotServed { api_version, kind });
        };
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let mut found = None;
        let mut known = self.known.write();
        for resource in resources {
            let resource_type = ResourceType {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: resource.kind.clone(),
                plural: resource.name,
                namespaced: resource.namespaced,
            };
            if resource.kind == kind {
                found = Some(resource_type.clone());
            }
            known.insert((api_version.clone(), resource.kind), resource_type);
        }
        found.ok_or(DiscoveryError::NotServed { api_version, kind })
    }

    /// The kinds of an API version, sorted; none when the server does not serve it.
    pub(crate) async fn kinds(&self, api_version: &str) -> Result<Vec<String>, DiscoveryError> {
        let resources = self.resources(api_version).await?.unwrap_or_default();
        let mut kinds: Vec<_> = resources.into_iter().map(|resource| resource.kind).collect();
        kinds.sort();
        Ok(kinds)
    }

    async fn resources(&self, api_version: &str) -> Result<Option<Vec<ApiResource>>, DiscoveryError> {
        let path = match api_version.split_once('/') {
            Some(_) => format!("/apis/{api_version}"),
            None => format!("/api/{api_version}"),
        };
        let api_version = || api_version.to_owned();
        let body = match self.server.get(&path).await {
            Ok(Some(body)) => body,
            Ok(None) => return Ok(None),
            Err(source) => return Err(DiscoveryError::Server { api_version: api_version(), source }),
        };
        let mut list: ApiResourceList = serde_json::from_slice(&body)
            .map_err(|source| DiscoveryError::Answer { api_version: api_version(), source })?;
        // Subresources have a slash in their name, and some have the kind of their parent.
        list.resources.retain(|resource| !resource.name.contains('/'));
        Ok(Some(list.resources))
    }
}
