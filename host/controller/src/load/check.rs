//! `pilothouse check`: what loading a plugin would find, without running it.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_model::ObjectKey;
use pilothouse_plugin::{
    ApiError, CacheFilter, CachePage, Call, DeleteOptions, Engine, Host, ListOptions, LivePage, LogLine,
    MetricSample, Misuse, ObjectType, Patch, PluginEvent,
};
use rand::Rng;
use serde::Serialize;
use tokio::time::Instant;

use super::{check_exports, effective_limits};
use crate::descriptor::{Descriptor, Rule, Trigger};
use crate::name::PluginName;
use crate::server::{Discovery, DiscoveryError, Server};
use crate::sidecar::Sidecar;

/// What is known of a plugin that would load.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckReport {
    /// The name that it would run under.
    pub name: String,
    /// Its own version text.
    pub version: String,
    /// What it says it does.
    pub summary: String,
    /// Bytes of the file.
    pub size: usize,
    /// SHA-256 of the file, in hex.
    pub digest: String,
    /// The version of `pilothouse:controller` that it was built for.
    pub contract: String,
    /// The optional interfaces that it exports.
    pub exports: Vec<&'static str>,
    /// The interfaces that it imports.
    pub imports: Vec<String>,
    /// What it watches.
    pub watches: Vec<CheckedWatch>,
    /// What it wants to write.
    pub writes: Vec<Rule>,
    /// Names of the CRDs that it brings.
    pub crds: Vec<String>,
    /// Bytes of memory that one instance may use.
    pub memory_limit: usize,
    /// Milliseconds that one reconcile may take.
    pub reconcile_timeout_ms: u128,
    /// What is allowed and probably not meant.
    pub warnings: Vec<String>,
    /// What the plugin logged while it described itself.
    pub log: Vec<String>,
}

/// One watch, and whether a server has it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedWatch {
    /// How the plugin calls it.
    pub name: String,
    /// The API version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// Whether the kind is served.
    pub served: Served,
}

/// Whether a kind is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Served {
    /// The server has it.
    Yes,
    /// The server lacks it, and the plugin brings no CRD for it.
    No,
    /// The plugin brings the CRD itself.
    ByOwnCrd,
    /// No server was asked.
    Unverified,
}

/// Loads and describes the plugin in `path`, and holds it against a server's discovery where a client is given.
///
/// # Errors
/// The one line that `status` would show, were the file in the plugins directory.
pub async fn check(
    engine: &Engine,
    path: &Path,
    client: Option<kube::Client>,
) -> Result<CheckReport, String> {
    let name = PluginName::of_file(path).map_err(|error| error.to_string())?;
    let wasm =
        tokio::fs::read(path).await.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let sidecar_path = path.with_extension("yaml");
    let sidecar = match tokio::fs::read_to_string(&sidecar_path).await {
        Ok(text) => Sidecar::parse(&text)
            .map_err(|error| format!("the sidecar {}: {error}", sidecar_path.display()))?,
        Err(_) => Sidecar::default(),
    };
    let code = engine.load(wasm).await.map_err(|error| error.to_string())?;
    let config = sidecar.config_json();
    let host = Arc::new(NothingHost { config, lines: Mutex::default(), started: Instant::now() });
    let limits = effective_limits(None, &sidecar).map_err(|error| error.to_string())?;
    let text = code
        .describe(Arc::<NothingHost>::clone(&host), &limits)
        .await
        .map_err(|error| format!("describe failed: {error}"))?;
    let descriptor = Descriptor::parse(&text).map_err(|error| error.to_string())?;
    check_exports(&descriptor, &code).map_err(|error| error.to_string())?;
    let limits = effective_limits(Some(&descriptor), &sidecar).map_err(|error| error.to_string())?;
    let watches = checked_watches(&descriptor, client).await?;
    let exports = code.exports();
    let named = [("reconcile", exports.reconcile), ("observe", exports.observe), ("index", exports.index)];
    let log = std::mem::take(&mut *host.lines.lock());
    Ok(CheckReport {
        warnings: warnings(&descriptor, &name, &watches),
        name: name.to_string(),
        size: code.size(),
        digest: code.digest().to_owned(),
        contract: code.package_version().to_owned(),
        exports: named.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect(),
        imports: code.imports().to_vec(),
        watches,
        crds: descriptor
            .crds
            .iter()
            .filter_map(|crd| crd.pointer("/metadata/name")?.as_str())
            .map(str::to_owned)
            .collect(),
        memory_limit: limits.memory,
        reconcile_timeout_ms: limits.reconcile_timeout.as_millis(),
        log,
        version: descriptor.version,
        summary: descriptor.summary,
        writes: descriptor.writes,
    })
}

async fn checked_watches(
    descriptor: &Descriptor,
    client: Option<kube::Client>,
) -> Result<Vec<CheckedWatch>, String> {
    let discovery = client.map(|client| Discovery::new(Server::new(client)));
    let mut watches = Vec::new();
    for watch in &descriptor.watches {
        let own = descriptor.crds.iter().any(|crd| serves(crd, &watch.api_version, &watch.kind));
        let served = match &discovery {
            _ if own => Served::ByOwnCrd,
            None => Served::Unverified,
            Some(discovery) => match discovery.resolve(&watch.api_version, &watch.kind).await {
                Ok(_) => Served::Yes,
                Err(DiscoveryError::NotServed { .. }) => Served::No,
                Err(error) => return Err(error.to_string()),
            },
        };
        let (api_version, kind) = (watch.api_version.clone(), watch.kind.clone());
        watches.push(CheckedWatch { name: watch.name.clone(), api_version, kind, served });
    }
    Ok(watches)
}

fn serves(crd: &serde_json::Value, api_version: &str, kind: &str) -> bool {
    let Some((group, version)) = api_version.split_once('/') else { return false };
    let versions = crd.pointer("/spec/versions").and_then(|versions| versions.as_array());
    crd.pointer("/spec/group").is_some_and(|found| found == group)
        && crd.pointer("/spec/names/kind").is_some_and(|found| found == kind)
        && versions.is_some_and(|versions| versions.iter().any(|found| found["name"] == version))
}

fn warnings(descriptor: &Descriptor, name: &PluginName, watches: &[CheckedWatch]) -> Vec<String> {
    let mut warnings = Vec::new();
    if !descriptor.name.is_empty() && descriptor.name != name.as_str() {
        let own = &descriptor.name;
        warnings.push(format!(
            "the descriptor calls the plugin {own:?}, but it runs under its file's name {name:?}"
        ));
    }
    for watch in &descriptor.watches {
        // Only kinds whose server counts generations: a ConfigMap or a Pod would never pass generationChanged().
        let counts_generations = watch.api_version != "v1";
        if watch.trigger == Some(Trigger::Itself) && watch.predicate.is_empty() && counts_generations {
            let name = &watch.name;
            warnings.push(format!(
                "watch {name:?} has no predicate: every status write triggers a reconcile; generationChanged() would \
                 leave those out"
            ));
        }
    }
    for watch in watches.iter().filter(|watch| watch.served == Served::No) {
        warnings.push(format!(
            "watch {:?}: the server does not serve kind {:?} in {:?}; the plugin would wait for it",
            watch.name, watch.kind, watch.api_version
        ));
    }
    warnings
}

/// A host with nothing behind it: a plugin that describes itself may log, no more.
struct NothingHost {
    config: String,
    lines: Mutex<Vec<String>>,
    started: Instant,
}

impl NothingHost {
    fn misuse<T>(call: &Call, function: &'static str) -> Result<T, Misuse> {
        Err(Misuse::NotNow { function, call: call.name() })
    }

    fn unavailable<T>() -> Result<T, ApiError> {
        Err(ApiError::Unavailable("there is no API server while a plugin is checked".into()))
    }
}

#[async_trait::async_trait]
impl Host for NothingHost {
    fn config(&self) -> &str {
        &self.config
    }

    fn cache_get(
        &self,
        call: &Call,
        _: &str,
        _: &ObjectKey,
    ) -> Result<Option<pilothouse_model::Object>, Misuse> {
        Self::misuse(call, "cache.get")
    }

    fn cache_list(&self, call: &Call, _: &str, _: &CacheFilter) -> Result<CachePage, Misuse> {
        Self::misuse(call, "cache.list")
    }

    fn cache_by_index(
        &self,
        call: &Call,
        _: &str,
        _: &str,
        _: &str,
    ) -> Result<Vec<pilothouse_model::Object>, Misuse> {
        Self::misuse(call, "cache.by-index")
    }

    fn cache_index_values(&self, call: &Call, _: &str, _: &str) -> Result<Vec<String>, Misuse> {
        Self::misuse(call, "cache.index-values")
    }

    fn cache_has_synced(&self, call: &Call, _: &str) -> Result<bool, Misuse> {
        Self::misuse(call, "cache.has-synced")
    }

    async fn client_get(
        &self,
        _: &Call,
        _: &ObjectType,
        _: &ObjectKey,
        _: &str,
    ) -> Result<pilothouse_model::Object, ApiError> {
        Self::unavailable()
    }

    async fn client_list(&self, _: &Call, _: &ObjectType, _: &ListOptions) -> Result<LivePage, ApiError> {
        Self::unavailable()
    }

    async fn client_create(
        &self,
        _: &Call,
        _: String,
        _: &str,
    ) -> Result<pilothouse_model::Object, ApiError> {
        Self::unavailable()
    }

    async fn client_update(
        &self,
        _: &Call,
        _: String,
        _: &str,
    ) -> Result<pilothouse_model::Object, ApiError> {
        Self::unavailable()
    }

    async fn client_patch(
        &self,
        _: &Call,
        _: &ObjectType,
        _: &ObjectKey,
        _: Patch,
        _: &str,
    ) -> Result<pilothouse_model::Object, ApiError> {
        Self::unavailable()
    }

    async fn client_delete(
        &self,
        _: &Call,
        _: &ObjectType,
        _: &ObjectKey,
        _: &DeleteOptions,
    ) -> Result<(), ApiError> {
        Self::unavailable()
    }

    fn queue_add(&self, call: &Call, _: &str, _: ObjectKey) -> Result<(), Misuse> {
        Self::misuse(call, "queue.add")
    }

    fn queue_add_after(
        &self,
        call: &Call,
        _: &str,
        _: ObjectKey,
        _: std::time::Duration,
    ) -> Result<(), Misuse> {
        Self::misuse(call, "queue.add-after")
    }

    fn publish_event(&self, _: &Call, _: PluginEvent<'_>) {}

    fn log(&self, _: &Call, line: LogLine<'_>) {
        self.lines.lock().push(line.message.to_owned());
    }

    fn metric(&self, _: &Call, _: MetricSample<'_>) {}

    fn monotonic_clock(&self) -> std::time::Duration {
        self.started.elapsed()
    }

    fn random(&self, buffer: &mut [u8]) {
        rand::rng().fill_bytes(buffer);
    }
}
