//! Turns a plugin's files into a version that can run: compile, describe, apply CRDs, subscribe, sync.
//!
//! A load does not touch the running version. Dropping the future cancels the load, and the subscriptions
//! that were made for the new version end with it.

pub(crate) mod authority;
pub(crate) mod files;
mod new_crds;
mod problem;
mod sidecar_file;
pub(crate) mod speculative_compile;
pub(crate) mod version;
pub(crate) mod watches;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_plugin::{CompiledPlugin, Engine, Exports, HostMemoryKind, InstancePool, LogLevel};
use tokio::time::sleep;

use authority::Authority;
pub(crate) use authority::not_granted;
use files::{FileInfo, read, wasm};
use new_crds::NewCrds;
pub(crate) use problem::LoadProblem;
use speculative_compile::{SpeculativeCompile, SpeculativeCompiler};
pub(crate) use watches::type_of;

use crate::access::Access;
use crate::cache::indexer::Indexer;
use crate::cache::views::Views;
use crate::client::fence::Fence;
use crate::client::grants::Grants;
use crate::client::writer::Writer;
use crate::client::{ApiClient, Discovery, LiveClient, unestablished_crd};
use crate::config::descriptor::Descriptor;
use crate::config::limits;
use crate::config::operator::TermsWriter;
use crate::config::sidecar::{GrantMode, Sidecar};
use crate::directory::PluginFiles;
use crate::guest_host::{Capabilities, GuestHost, GuestServices, RateLimits};
use crate::lifecycle::{Health, PluginState};
use crate::load::version::Version;
use crate::outgoing::{Connector, HttpClient, HttpGrants, Tls};
use crate::runtime::dedicated_instance::DedicatedInstance;

/// What loading needs; the same for all plugins.
#[derive(Clone)]
pub(crate) struct LoadServices {
    pub(crate) engine: Engine,
    pub(crate) server: ApiClient,
    pub(crate) discovery: Discovery,
    pub(crate) informers: pilothouse_informer::InformerRegistry,
    pub(crate) grant_crds: bool,
    pub(crate) grants: GrantMode,
    /// How often the rights of a service account are reviewed.
    pub(crate) access_review_interval: Duration,
    pub(crate) tls: Tls,
    pub(crate) speculative_compiler: SpeculativeCompiler,
}

#[cfg(test)]
impl LoadServices {
    /// Creates services that send everything with this client.
    pub(crate) fn for_test(client: kube::Client) -> Self {
        let server = ApiClient::new(client.clone());
        let list_watches = pilothouse_informer::KubeListWatches::new(client);
        let options = pilothouse_informer::InformerOptions::default();
        Self {
            engine: Engine::new(pilothouse_plugin::EngineOptions::default()).expect("an engine"),
            discovery: Discovery::new(server.clone()),
            server,
            informers: pilothouse_informer::InformerRegistry::new(list_watches, options),
            grant_crds: false,
            grants: GrantMode::Declared,
            access_review_interval: Duration::from_secs(30),
            tls: Tls::default(),
            speculative_compiler: SpeculativeCompiler::default(),
        }
    }
}

/// The outcome of a load.
pub(crate) enum LoadOutcome {
    /// The files are those of the running version.
    Unchanged,
    /// The sidecar has `enabled: false`.
    Disabled,
    /// A version that is ready to run.
    Version(Box<Version>),
}

/// Called at each step of a load, with the state and what it waits for ("" for nothing).
pub(crate) type Report = Arc<dyn Fn(PluginState, &str) + Send + Sync>;

/// Interval between two checks of something that a load waits for.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Loads a version from the files. Waits without a limit for what the cluster may still provide (a CRD, a
/// right, an unreachable server), and reports that through `report`.
#[expect(clippy::too_many_lines, reason = "the steps of a load, one after the other")]
pub(crate) async fn load(
    services: LoadServices,
    guest: GuestServices,
    operator: TermsWriter,
    files: PluginFiles,
    running: Option<Arc<Version>>,
    report: Report,
) -> Result<LoadOutcome, LoadProblem> {
    let speculative = services.speculative_compiler.take(&guest.name, &files);
    // The sidecar comes first: what it takes away takes effect at once, whatever becomes of the load.
    let (sidecar_text, sidecar, terms) =
        sidecar_file::apply(&services, &guest.name, &operator, &files, running.as_deref()).await?;
    if sidecar.enabled == Some(false) {
        return Ok(LoadOutcome::Disabled);
    }
    let turn = services.engine.acquire_load_permit().await;
    let read = read(&files, sidecar_text).await?;
    let running_under = (&operator, &*terms);
    let authority = Authority::new(&services, &guest, &sidecar, running_under, running.as_deref(), &report);
    if running.as_ref().is_some_and(|running| running.is_built_from(&read.digest, &read.sidecar_text)) {
        return Ok(LoadOutcome::Unchanged);
    }
    let running_code = running.as_ref().map(|running| running.pool.code());
    let code = code(&services.engine, running_code, speculative, &files.wasm, &read, &report).await?;
    drop(turn);
    report(PluginState::Describing, "");
    let config: Arc<str> = sidecar.config_json().into();
    let host = Arc::new(GuestHost::for_describe(guest.clone(), Arc::clone(&config)));
    let limits = limits::effective(None, &sidecar.limits)?.guest;
    guest.log.set_limits(&limits);
    let described = code.describe(host, &limits).await;
    let text = described.map_err(|source| LoadProblem::from_describe(source, &sidecar, &files.sidecar))?;
    let mark = services.engine.create_crash_marker(&read.digest)?;
    let descriptor = Descriptor::parse(&text)?;
    drop(mark);
    check_exports(&descriptor, &code)?;
    if !descriptor.name.is_empty() && descriptor.name != guest.name.as_str() {
        let name = &descriptor.name;
        let text = format_args!("the descriptor calls the plugin {name:?}; its file's name is what counts");
        guest.log.host(LogLevel::Warn, text, &[]);
    }
    for warning in unused_exports(&descriptor, code.exports()) {
        guest.log.host(LogLevel::Warn, format_args!("{warning}"), &[]);
    }
    let limits = limits::effective(Some(&descriptor.limits), &sidecar.limits)?;
    for clipped in &limits.clipped {
        guest.log.host(LogLevel::Warn, format_args!("{clipped}"), &[]);
    }
    let mut crds = NewCrds::new(running.as_deref());
    // Until the new version is installed, the indexes of two versions are held.
    let index_values = guest.host_memory.used_by(HostMemoryKind::IndexValues);
    guest.host_memory.raise_limit(limits.quotas.host_memory.saturating_add(index_values));
    let put = apply_crds_and_wait(&services, &descriptor, &sidecar, &report, &mut crds).await;
    put.map_err(|problem| crds.with_applied_crds(problem))?;
    let access = Arc::<Access>::default();
    let health = Health::new(Arc::clone(&access));
    let has_computed = descriptor.computed_indexes().next().is_some();
    let indexer = has_computed.then(|| {
        let host = Arc::new(GuestHost::for_describe(guest.clone(), Arc::clone(&config)));
        let instances = InstancePool::new(code.clone(), host, limits.guest.clone());
        Indexer::start(instances, guest.clone(), health.clone())
    });
    let views = Views { access, indexer, writes: guest.writes.clone(), ..Views::default() };
    let prepared = watches::subscribe(&authority, &descriptor, running.as_deref(), views, &report)
        .await
        .map_err(|problem| crds.with_applied_crds(problem))?;
    if has_computed {
        // The indexes are complete before the plugin is called for anything else.
        report(PluginState::Waiting, "its computed indexes, which are being filled");
        let indexed = prepared.views.index_all().await;
        indexed.map_err(|problem| crds.with_applied_crds(problem.into()))?;
    }
    let fence = Fence::default();
    let grants = Grants::new(descriptor.writes.clone(), guest.operator.clone());
    // Reads, writes, and the reads that resolve an unknown write outcome are all sent as the service account.
    let server = match &sidecar.service_account {
        Some(account) => services.server.acting_as(account),
        None => services.server.clone(),
    };
    let client = LiveClient::new(
        server.clone(),
        services.discovery.clone(),
        grants,
        Writer::new(server, services.discovery.clone(), fence.clone(), guest.clone()),
        guest.name.to_shared(),
    )
    .with_max_response_size(limits.guest.message_size);
    let http_grants = HttpGrants::parse(&descriptor.http, guest.operator.clone())?;
    let views = prepared.views;
    let connector = Connector::new(services.tls.clone());
    let http = HttpClient::new(http_grants, connector, fence.clone(), Arc::clone(&views.access));
    let capabilities = Capabilities {
        views: Arc::clone(&views),
        client,
        http,
        rate_limits: RateLimits::new(&limits.quotas),
    };
    let host = Arc::new(GuestHost::new(guest, config, capabilities));
    let configured = if descriptor.stateful { 1 } else { usize::from(sidecar.workers.unwrap_or(1)) };
    let workers = if code.exports().reconcile { configured } else { 0 };
    let pool = InstancePool::new(code, host, limits.guest);
    // When a host starts, most plugins have no work: their idle code is released at once, so that the next plugin
    // can use the memory.
    pool.drop_idle(Duration::ZERO);
    Ok(LoadOutcome::Version(Box::new(Version {
        digest: read.digest,
        sidecar_text: read.sidecar_text,
        terms,
        workers,
        dedicated_instance: DedicatedInstance::new(pool.clone(), !prepared.feeds.is_empty()),
        pool,
        views,
        routes: prepared.routes,
        feeds: prepared.feeds,
        fence,
        health,
        renamed_watches: Mutex::default(),
        newer_crds: Mutex::default(),
        host_memory: limits.quotas.host_memory,
        is_outdated: AtomicBool::new(false),
        descriptor,
    })))
}

/// Returns the code of the file: that of the running version if only the sidecar changed.
async fn code(
    engine: &Engine,
    running: Option<&CompiledPlugin>,
    speculative: Option<SpeculativeCompile>,
    path: &Path,
    read: &FileInfo,
    report: &Report,
) -> Result<CompiledPlugin, LoadProblem> {
    if let Some(code) = running.filter(|code| code.digest() == read.digest) {
        return Ok(code.clone());
    }
    report(PluginState::Compiling, "");
    if let Some(speculative) = speculative
        && let Some(code) = speculative.code(read.sum).await
    {
        return Ok(code?);
    }
    if let Some(code) = engine.load_cached(read.sum, read.size).await? {
        return Ok(code);
    }
    let wasm = wasm(path, read.sum).await?;
    let place = engine.acquire_compile_permit().await;
    Ok(engine.compile(wasm, read.sum, place).await?)
}

/// Errors if the plugin does not export a function that its descriptor needs.
pub(crate) fn check_exports(descriptor: &Descriptor, code: &CompiledPlugin) -> Result<(), LoadProblem> {
    let exports = code.exports();
    let starts_work = descriptor.watches.iter().any(|watch| watch.trigger.is_some());
    if starts_work && !exports.reconcile {
        return Err(LoadProblem::NoReconcile);
    }
    let notifies = descriptor.watches.iter().find(|watch| watch.notify);
    if let Some(watch) = notifies.filter(|_| !exports.observe) {
        return Err(LoadProblem::NoObserve { watch: watch.name.clone() });
    }
    let computed = descriptor.computed_indexes().next();
    if let Some((watch, index)) = computed.filter(|_| !exports.index) {
        return Err(LoadProblem::NoIndex { watch: watch.name.clone(), index: index.name.clone() });
    }
    if !starts_work && notifies.is_none() && computed.is_none() {
        let remedy = if exports.reconcile { "trigger: self" } else { "notify: true" };
        return Err(LoadProblem::NeverCalled { remedy });
    }
    Ok(())
}

/// Returns a warning for each export that the descriptor has no use for. These are allowed, because SDKs may
/// export more than a plugin needs, but they are probably a mistake.
pub(crate) fn unused_exports(descriptor: &Descriptor, exports: Exports) -> Vec<String> {
    let unused = [
        (
            exports.reconcile && !descriptor.watches.iter().any(|watch| watch.trigger.is_some()),
            "the plugin exports reconcile, but no watch has a trigger: it is never called",
        ),
        (
            exports.observe && !descriptor.watches.iter().any(|watch| watch.notify),
            "the plugin exports observe, but no watch has notify: true: it is never called",
        ),
        (
            exports.index && descriptor.computed_indexes().next().is_none(),
            "the plugin exports index, but no index is computed: it is never called",
        ),
    ];
    unused.into_iter().filter(|(is_unused, _)| *is_unused).map(|(_, text)| text.to_owned()).collect()
}

/// Applies the plugin's CRDs, if it is granted that, and waits until they are established.
async fn apply_crds_and_wait(
    services: &LoadServices,
    descriptor: &Descriptor,
    sidecar: &Sidecar,
    report: &Report,
    new: &mut NewCrds<'_>,
) -> Result<(), LoadProblem> {
    if descriptor.crds.is_empty() || !sidecar.grants.crds.unwrap_or(services.grant_crds) {
        return Ok(());
    }
    loop {
        match new.apply(&services.server, &descriptor.crds).await {
            Ok(()) => break,
            Err(error) if error.is_transient() => report(PluginState::Waiting, &error.to_string()),
            Err(error) => return Err(error.into()),
        }
        sleep(RECHECK_INTERVAL).await;
    }
    loop {
        match unestablished_crd(&services.server, &descriptor.crds).await {
            Ok(None) => {
                services.discovery.invalidate_crds(&descriptor.crds);
                return Ok(());
            }
            Ok(Some(waiting_for)) => report(PluginState::Waiting, &format!("the CRD {waiting_for}")),
            Err(error) => report(PluginState::Waiting, &error.to_string()),
        }
        sleep(Duration::from_millis(50)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use pilothouse_plugin::EngineOptions;

    use super::files::{hex, sum};
    use super::*;

    /// Writes the .wasm and returns what a load knows about it.
    fn written(path: &Path, wasm: &[u8]) -> FileInfo {
        std::fs::write(path, wasm).expect("written");
        let (sum, size) = sum(path).expect("readable");
        FileInfo { sum, size, digest: hex(&sum), sidecar_text: String::new() }
    }

    #[tokio::test]
    async fn a_change_of_only_the_sidecar_compiles_nothing() {
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let compiled = Arc::new(AtomicU32::new(0));
        let report: Report = Arc::new({
            let compiled = Arc::clone(&compiled);
            move |state, _| {
                compiled.fetch_add(u32::from(state == PluginState::Compiling), Ordering::Relaxed);
            }
        });
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/done.wat");
        let wasm = wat::parse_file(path).expect("a guest");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("p.wasm");
        let read = written(&path, &wasm);
        let running = code(&engine, None, None, &path, &read, &report).await.expect("a plugin");
        assert_eq!((running.digest(), running.size()), (read.digest.as_str(), wasm.len()));
        assert_eq!(compiled.load(Ordering::Relaxed), 1);
        // If these bytes were read, they would be refused.
        let other = written(&path, b"no wasm");
        let again = code(&engine, Some(&running), None, &path, &read, &report).await;
        assert_eq!(again.expect("the same").digest(), read.digest);
        assert_eq!(compiled.load(Ordering::Relaxed), 1);
        let refused = code(&engine, Some(&running), None, &path, &other, &report).await.err();
        assert!(matches!(refused, Some(LoadProblem::Code(_))), "{refused:?}");
        // A file is not compiled under the SHA-256 of another.
        let refused = code(&engine, None, None, &path, &read, &report).await.err();
        assert!(matches!(refused, Some(LoadProblem::Changing { .. })), "{refused:?}");
    }
}
