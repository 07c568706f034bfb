//! Gets a plugin's content into the cache.

use std::borrow::Cow;

use crate::cache::Cache;
use crate::client::{Limits, ManifestDocument, RegistryClient};
use crate::digest::Digest;
use crate::error::{Problem, RegistryError};
use crate::layout::{WasmLayer, wasm_layer};
use crate::manifest::Descriptor;
use crate::reference::Reference;

/// A plugin whose manifest is known and whose content is in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedPlugin {
    /// The digest of the manifest, which signatures are about.
    pub manifest: Digest,
    layer: WasmLayer,
}

impl CachedPlugin {
    /// Finds the plugin of a manifest in the cache, without a registry; `None` if anything is missing or damaged.
    #[must_use]
    pub fn find(cache: &Cache, manifest: Digest, limits: Limits, name: &str) -> Option<Self> {
        let found = Self::described(cache, manifest, limits, name)?;
        cache.has_blob(&found.layer.descriptor).then_some(found)
    }

    /// Reads the manifest of a plugin in the cache, which need not have the content.
    pub(crate) fn described(cache: &Cache, manifest: Digest, limits: Limits, name: &str) -> Option<Self> {
        let text = cache.get(manifest, limits.manifest as u64)?;
        Self::of(&ManifestDocument { digest: manifest, text }, limits, name).ok()
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// Errors if it is not that of a plugin.
    pub(crate) fn of(document: &ManifestDocument, limits: Limits, name: &str) -> Result<Self, RegistryError> {
        let layer = wasm_layer(&document.parse(name)?, limits.artifact, name)?;
        Ok(Self { manifest: document.digest, layer })
    }

    /// What has to stay in the cache for the plugin: the manifest, which names its signatures, too, and the content.
    pub(crate) fn blobs(&self) -> Vec<Digest> {
        vec![self.manifest, self.layer()]
    }

    /// The digest of the layer, under which the cache has the content.
    #[must_use]
    pub fn layer(&self) -> Digest {
        self.layer.descriptor.digest
    }

    pub(crate) fn descriptor(&self) -> &Descriptor {
        &self.layer.descriptor
    }

    /// Whether the content is the plugin after it was unpacked.
    pub(crate) fn is_compressed(&self) -> bool {
        self.layer.is_compressed()
    }

    /// The error of content that the cache does not have, or that is damaged.
    pub(crate) fn gone(name: &str) -> RegistryError {
        RegistryError::new(
            Problem::Cache,
            format!("the cache does not have {name} any more; it is downloaded again"),
        )
    }

    /// Returns the plugin's .wasm, as a whole.
    ///
    /// # Errors
    /// Errors if the cache does not have it any more, or if it is not wasm.
    pub fn wasm(&self, cache: &Cache, limit: u64, name: &str) -> Result<Vec<u8>, RegistryError> {
        let content = cache.get(self.layer(), self.layer.descriptor.size).ok_or_else(|| Self::gone(name))?;
        let wasm = self.layer.wasm(&content, limit, name)?;
        Ok(match wasm {
            Cow::Owned(wasm) => wasm,
            Cow::Borrowed(_) => content,
        })
    }
}

/// Downloads the content of a manifest, unless the cache has it. Stores the manifest, too.
///
/// # Errors
/// Errors if the manifest is not that of a plugin, or if the content cannot be downloaded or stored.
pub async fn fetch(
    client: &RegistryClient,
    cache: &Cache,
    reference: &Reference,
    document: &ManifestDocument,
) -> Result<CachedPlugin, RegistryError> {
    let name = reference.to_string();
    let plugin = CachedPlugin::of(document, client.limits(), &name)?;
    let (digest, descriptor) = (plugin.layer(), &plugin.layer.descriptor);
    let lock = cache.download_lock(digest);
    let _downloading = lock.lock().await;
    if !cache.has_blob(descriptor) {
        let (partial, file) = cache.partial_blob()?;
        let mut file = tokio::fs::File::from_std(file);
        client.blob(reference, descriptor, &mut file).await?;
        file.sync_all().await.map_err(|error| {
            RegistryError::new(
                Problem::Cache,
                format!(
                    "{} cannot be written: {error}; check the space on the disk",
                    partial.path().display()
                ),
            )
        })?;
        cache.keep(partial, digest)?;
    }
    cache.put(&document.text)?;
    Ok(plugin)
}
