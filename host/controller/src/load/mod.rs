//! Turns a plugin's files into a version that can run: compile, describe, apply CRDs, subscribe, sync.
//!
//! A load does not touch the running version. Dropping the future cancels the load, and the subscriptions
//! that were made for the new version end with it.

pub(crate) mod authorization;
mod canary;
mod code;
mod describe;
pub(crate) mod files;
mod new_crds;
mod next_version;
mod problem;
mod shadow;
mod sidecar_file;
pub(crate) mod speculative_compile;
pub(crate) mod version;
pub(crate) mod watches;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_plugin::{CompiledPlugin, Engine, Exports, HostMemoryKind, InstancePool, LogLevel};
use tokio::time::sleep;

use authorization::LoadAuthorization;
pub(crate) use authorization::not_granted;
use code::{file_code, kept_code};
use describe::describe;
pub(crate) use describe::{check_exports, unused_exports};
use files::read;
use new_crds::NewCrds;
use next_version::{code_in_use, next_version};
pub(crate) use problem::LoadProblem;
use speculative_compile::SpeculativeCompiler;
use watches::PreparedWatches;
pub(crate) use watches::type_of;

use crate::access::Access;
use crate::cache::indexer::Indexer;
use crate::cache::views::Views;
use crate::client::fence::Fence;
use crate::client::grants::Grants;
use crate::client::writer::Writer;
use crate::client::{ApiClient, Discovery, LiveClient, unestablished_crd};
use crate::config::current_grants::GrantsWriter;
use crate::config::descriptor::Descriptor;
use crate::config::limits::{self, EffectiveLimits};
use crate::config::sidecar::{CanaryShare, GrantMode, ProbationPeriod, Sidecar};
use crate::directory::PluginFiles;
use crate::environment::Environment;
use crate::guest_host::{Capabilities, GuestHost, PluginServices, RateLimits};
use crate::lifecycle::{Health, PluginState, WaitingFor};
use crate::load::version::{Role, Version};
use crate::outgoing::{Connector, HttpClient, HttpGrants, HttpTransport, Tls};
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
    /// How often the permissions of a service account are reviewed.
    pub(crate) access_review_interval: Duration,
    pub(crate) tls: Tls,
    /// What answers plugins' HTTP requests in place of the network; `None` for the network.
    pub(crate) http_transport: Option<Arc<dyn HttpTransport>>,
    pub(crate) speculative_compiler: SpeculativeCompiler,
    pub(crate) environment: Environment,
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
            http_transport: None,
            speculative_compiler: SpeculativeCompiler::default(),
            environment: Environment::default(),
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
    /// The running versions stay. Their canary is to reconcile the keys of this share; `None` to end it.
    Canary(Option<CanaryShare>),
}

/// A step of a load that the plugin's state shows.
#[derive(Debug)]
pub(crate) enum LoadStep {
    Compiling,
    Describing,
    Waiting(WaitingFor),
}

impl LoadStep {
    /// The state of a plugin without a running version in this step.
    pub(crate) fn state(&self) -> PluginState {
        match self {
            Self::Compiling => PluginState::Compiling,
            Self::Describing => PluginState::Describing,
            Self::Waiting(_) => PluginState::Waiting,
        }
    }

    /// What the load waits for; `None` for nothing.
    pub(crate) fn into_waiting_for(self) -> Option<WaitingFor> {
        match self {
            Self::Compiling | Self::Describing => None,
            Self::Waiting(waiting_for) => Some(waiting_for),
        }
    }

    /// What the load waits for, in words; "" for nothing.
    pub(crate) fn waiting_for(&self) -> String {
        match self {
            Self::Compiling | Self::Describing => String::new(),
            Self::Waiting(waiting_for) => waiting_for.to_string(),
        }
    }
}

/// Called at each step of a load.
pub(crate) type Report = Arc<dyn Fn(LoadStep) + Send + Sync>;

/// Interval between two checks of something that a load waits for.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Loads a version from the files: the one that is to run or, if that one runs already, its canary. Waits without a limit for what the cluster
/// may still provide (a CRD, a permission, an unreachable server), and reports that through `report`.
pub(crate) async fn load(
    services: LoadServices,
    mut plugin: PluginServices,
    grants_writer: GrantsWriter,
    files: PluginFiles,
    running: Option<Arc<Version>>,
    canary: Option<Arc<Version>>,
    report: Report,
) -> Result<LoadOutcome, LoadProblem> {
    let (running, canary) = (running.as_deref(), canary.as_deref());
    let speculative = services.speculative_compiler.take(&plugin.name, &files);
    // The sidecar comes first: what it takes away takes effect at once, whatever becomes of the load.
    let (sidecar_text, sidecar, sidecar_grants) =
        sidecar_file::apply(&services, &plugin.name, &grants_writer, &files, [running, canary]).await?;
    if sidecar.enabled == Some(false) {
        return Ok(LoadOutcome::Disabled);
    }

    let load_permit = services.engine.acquire_load_permit().await;
    let read = read(&files, sidecar_text).await?;
    let (role, replacement) = match next_version(&plugin.rollout, &sidecar, &read, running, canary) {
        ControlFlow::Continue(next) => next,
        ControlFlow::Break(outcome) => return Ok(outcome),
    };
    let is_canary = matches!(role, Role::Canary(_));
    let may_run_alone = role == Role::BesideCanary && running.is_none();
    let digest = replacement.as_ref().map_or(&read.digest, |version| &version.digest);
    let in_use = code_in_use([running, canary], digest);
    let kept =
        kept_code(&services.engine, &plugin, in_use, replacement, &files.wasm, &read, may_run_alone).await?;
    let is_replacement = kept.is_some();
    let role = if may_run_alone && !is_replacement { Role::Alone } else { role };
    let code = match kept {
        Some(code) => code,
        None => file_code(&services.engine, &plugin, in_use, speculative, &files, &read, &report).await?,
    };
    drop(load_permit);

    report(LoadStep::Describing);
    let config: Arc<str> = sidecar.config_json().into();
    let descriptor = describe(&services.engine, &plugin, &code, &config, &files, &sidecar).await?;
    let limits = apply_limits(&plugin, &descriptor, &sidecar)?;
    if let Some(running) = running.filter(|_| is_canary) {
        canary::check(&running.descriptor, &descriptor, &plugin.name)?;
        plugin.writes = plugin.writes.for_canary();
    }

    let mut crds = NewCrds::new(running);
    // The CRDs of a newer version stay when an older one runs again: objects may be stored in their versions.
    if !is_replacement {
        let applied = apply_crds_and_wait(&services, &descriptor, &sidecar, &report, &mut crds).await;
        applied.map_err(|problem| crds.with_applied_crds(problem))?;
    }

    let access = Arc::<Access>::default();
    let health = Health::new(Arc::clone(&access), plugin.environment.randomness.clone());
    let indexer = start_indexer(&plugin, &descriptor, &code, &config, &limits, &health);
    let views = Views { access, indexer, writes: plugin.writes.clone(), ..Views::default() };
    let grants = (&grants_writer, &*sidecar_grants);
    let authorization = LoadAuthorization::new(&services, &plugin, &sidecar, grants, running, &report);
    // A canary has subscriptions of its own, because the running version goes on with its own.
    let reused = running.filter(|_| !is_canary);
    let prepared = prepare_watches(&authorization, &descriptor, reused, views, &report).await;
    let PreparedWatches { views, routes, observer_subscriptions } =
        prepared.map_err(|problem| crds.with_applied_crds(problem))?;

    let fence = Fence::default();
    let capabilities =
        capabilities(&services, &plugin, &sidecar, &descriptor, &limits, Arc::clone(&views), &fence)?;
    let host = GuestHost::new(plugin, config, capabilities).observed(code.digest());
    let host = shadow::attach(&services.engine, host, &role, &files, &sidecar, &descriptor, &limits).await;
    let pool = InstancePool::new(code, host, limits.instance);
    // When a host starts, most plugins have no work: their idle code is released at once, so that the next plugin
    // can use the memory.
    pool.drop_idle(Duration::ZERO);
    Ok(LoadOutcome::Version(Box::new(Version {
        digest: pool.code().digest().to_owned(),
        file_digest: read.digest,
        probation: sidecar.rollout.probation.map(ProbationPeriod::duration),
        role,
        sidecar_text: read.sidecar_text,
        sidecar_grants,
        workers: workers(&descriptor, &sidecar, pool.code().exports()),
        dedicated_instance: DedicatedInstance::new(pool.clone(), !observer_subscriptions.is_empty()),
        pool,
        views,
        routes,
        observer_subscriptions,
        fence,
        health,
        renamed_watches: Mutex::default(),
        newer_crds: Mutex::default(),
        plugin_limits: limits.plugin,
        must_reload: AtomicBool::new(false),
        compared_kinds: Mutex::default(),
        descriptor,
    })))
}

/// Returns the limits of the new version, and raises the plugin's account of host memory to them. Logs which
/// requests of the descriptor are not granted in full.
fn apply_limits(
    plugin: &PluginServices,
    descriptor: &Descriptor,
    sidecar: &Sidecar,
) -> Result<EffectiveLimits, LoadProblem> {
    let limits = limits::effective(Some(&descriptor.limits), &sidecar.limits)?;
    for clipped in &limits.clipped {
        plugin.log.host(LogLevel::Warn, format_args!("{clipped}"), &[]);
    }
    // Until the new version is installed, the indexes of two versions are held.
    let index_values = plugin.host_memory.used_by(HostMemoryKind::IndexValues);
    plugin.host_memory.raise_limit(limits.plugin.host_memory.saturating_add(index_values));
    Ok(limits)
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
            Err(error) if error.is_transient() => {
                report(LoadStep::Waiting(WaitingFor::CrdRequest(error.to_string())));
            }
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
            Ok(Some(crd)) => report(LoadStep::Waiting(WaitingFor::EstablishedCrd(crd))),
            Err(error) => report(LoadStep::Waiting(WaitingFor::CrdRequest(error.to_string()))),
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Starts the task that computes index values, if the descriptor has computed indexes.
fn start_indexer(
    plugin: &PluginServices,
    descriptor: &Descriptor,
    code: &CompiledPlugin,
    config: &Arc<str>,
    limits: &EffectiveLimits,
    health: &Health,
) -> Option<Indexer> {
    descriptor.computed_indexes().next()?;
    let host = GuestHost::for_describe(plugin.clone(), Arc::clone(config)).observed(code.digest());
    let instances = InstancePool::new(code.clone(), Arc::new(host), limits.instance.clone());
    Some(Indexer::start(instances, plugin.clone(), health.clone()))
}

/// Subscribes to the watches, waits until they are synced, and fills the computed indexes.
async fn prepare_watches(
    authorization: &LoadAuthorization<'_>,
    descriptor: &Descriptor,
    running: Option<&Version>,
    views: Views,
    report: &Report,
) -> Result<PreparedWatches, LoadProblem> {
    let prepared = watches::subscribe(authorization, descriptor, running, views, report).await?;
    if prepared.views.indexer.is_some() {
        // The indexes are complete before the plugin is called for anything else.
        report(LoadStep::Waiting(WaitingFor::ComputedIndexes));
        prepared.views.index_all().await?;
    }
    Ok(prepared)
}

/// Creates what the version's guests may use when they reconcile or observe.
fn capabilities(
    services: &LoadServices,
    plugin: &PluginServices,
    sidecar: &Sidecar,
    descriptor: &Descriptor,
    limits: &EffectiveLimits,
    views: Arc<Views>,
    fence: &Fence,
) -> Result<Capabilities, LoadProblem> {
    // Reads, writes, and the reads that resolve an unknown write outcome are all sent as the service account.
    let server = match &sidecar.service_account {
        Some(account) => services.server.acting_as(account),
        None => services.server.clone(),
    }
    .with_warnings_in(plugin.log.clone());
    let client = LiveClient::new(
        server.clone(),
        services.discovery.clone(),
        Grants::new(descriptor.writes.clone(), plugin.current_grants.clone()),
        Writer::new(server, services.discovery.clone(), fence.clone(), plugin.clone()),
        plugin.name.to_shared(),
    )
    .with_max_response_size(limits.instance.message_size);
    let http_grants = HttpGrants::parse(&descriptor.http, plugin.current_grants.clone())?;
    let connector = Connector::new(services.tls.clone());
    let http = HttpClient::new(http_grants, connector, fence.clone(), Arc::clone(&views.access))
        .with_transport(services.http_transport.clone());
    Ok(Capabilities { views, client, http, rate_limits: RateLimits::new(&limits.plugin) })
}

/// Returns the number of keys that the version reconciles at the same time.
fn workers(descriptor: &Descriptor, sidecar: &Sidecar, exports: Exports) -> usize {
    match (exports.reconcile, descriptor.stateful) {
        (false, _) => 0,
        (true, true) => 1,
        (true, false) => usize::from(sidecar.workers.unwrap_or(1)),
    }
}
