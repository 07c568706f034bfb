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
use code::{LoadedCode, load_code};
use describe::describe;
pub(crate) use describe::{check_exports, unused_exports};
use new_crds::NewCrds;
pub(crate) use problem::LoadProblem;
use speculative_compile::SpeculativeCompiler;
use watches::PreparedWatches;
pub(crate) use watches::type_of;

use crate::access::Access;
use crate::cache::indexer::Indexer;
use crate::cache::views::Views;
use crate::client::fence::Fence;
use crate::client::write_grants::WriteGrants;
use crate::client::writer::Writer;
use crate::client::{ApiClient, Discovery, LiveClient, unestablished_crd};
use crate::config::current_grants::{GrantsWriter, SidecarGrants};
use crate::config::descriptor::Descriptor;
use crate::config::limits::{self, EffectiveLimits};
use crate::config::sidecar::{CanaryShare, GrantMode, ProbationPeriod, Sidecar};
use crate::directory::PluginFiles;
use crate::environment::Environment;
use crate::guest_host::{Capabilities, GuestHost, LoggedExcesses, PluginServices};
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
    /// Held while a plugin's CRDs are applied, so that no other plugin changes them between the look at one and its change.
    pub(crate) crd_lock: Arc<tokio::sync::Mutex<()>>,
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
            crd_lock: Arc::default(),
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
    plugin: PluginServices,
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

    let mut inputs =
        LoadInputs { services: &services, plugin, files: &files, sidecar, running, canary, report: &report };
    let loaded = match load_code(&inputs, sidecar_text, speculative).await? {
        ControlFlow::Continue(loaded) => loaded,
        ControlFlow::Break(outcome) => return Ok(outcome),
    };
    let is_canary = matches!(loaded.role, Role::Canary(_));

    report(LoadStep::Describing);
    let described = describe_version(&inputs, &loaded.code).await?;
    let descriptor = &described.descriptor;
    if let Some(running) = running.filter(|_| is_canary) {
        canary::check(&running.descriptor, descriptor, &inputs.plugin.name)?;
        inputs.plugin.writes = inputs.plugin.writes.for_canary();
    }

    let mut crds = NewCrds::new(running);
    // The CRDs of a newer version stay when an older one runs again: objects may be stored in their versions.
    if !loaded.is_replacement {
        let applied = apply_crds_and_wait(&services, &inputs, descriptor, &report, &mut crds).await;
        applied.map_err(|problem| crds.with_applied_crds(problem))?;
    }

    let access = Arc::<Access>::default();
    let health = Health::new(Arc::clone(&access), inputs.plugin.environment.randomness.clone());
    let indexer = start_indexer(&inputs.plugin, &described, &loaded.code, &health);
    let views = Views { access, indexer, writes: inputs.plugin.writes.clone(), ..Views::default() };
    let grants = (&grants_writer, &*sidecar_grants);
    let authorization =
        LoadAuthorization::new(&services, &inputs.plugin, &inputs.sidecar, grants, running, &report);
    // A canary has subscriptions of its own, because the running version goes on with its own.
    let reused = running.filter(|_| !is_canary);
    let prepared = prepare_watches(&authorization, descriptor, reused, views, &report).await;
    let prepared = prepared.map_err(|problem| crds.with_applied_crds(problem))?;

    let version = assemble_version(inputs, loaded, described, sidecar_grants, prepared, health).await?;
    Ok(LoadOutcome::Version(Box::new(version)))
}

/// What the steps of a load work with.
struct LoadInputs<'a> {
    services: &'a LoadServices,
    plugin: PluginServices,
    files: &'a PluginFiles,
    sidecar: Sidecar,
    running: Option<&'a Version>,
    canary: Option<&'a Version>,
    report: &'a Report,
}

/// The descriptor of the new version, and what follows from it and the sidecar.
struct DescribedVersion {
    descriptor: Descriptor,
    /// The plugin's configuration, from the sidecar.
    config: Arc<str>,
    limits: EffectiveLimits,
}

/// Describes the new version, and raises the plugin's limits to its own.
async fn describe_version(
    inputs: &LoadInputs<'_>,
    code: &CompiledPlugin,
) -> Result<DescribedVersion, LoadProblem> {
    let LoadInputs { services, plugin, files, sidecar, .. } = inputs;
    let config: Arc<str> = sidecar.config_json().into();
    let descriptor = describe(&services.engine, plugin, code, &config, files, sidecar).await?;
    let is_first = inputs.running.is_none() && inputs.canary.is_none();
    let limits = apply_limits(plugin, &descriptor, sidecar, is_first)?;
    Ok(DescribedVersion { descriptor, config, limits })
}

/// Creates the version from what the load has prepared.
async fn assemble_version(
    inputs: LoadInputs<'_>,
    loaded: LoadedCode,
    described: DescribedVersion,
    sidecar_grants: Arc<SidecarGrants>,
    prepared: PreparedWatches,
    health: Health,
) -> Result<Version, LoadProblem> {
    let LoadInputs { services, plugin, files, sidecar, .. } = inputs;
    let PreparedWatches { views, routes, observer_subscriptions } = prepared;
    let fence = Fence::default();
    let capabilities = capabilities(services, &plugin, &sidecar, &described, Arc::clone(&views), &fence)?;
    let LoadedCode { code, role, file, .. } = loaded;
    let DescribedVersion { descriptor, config, limits } = described;
    let host = GuestHost::new(plugin, config, capabilities).recorded(code.digest());
    let (host, shadow) =
        shadow::attach(&services.engine, host, &role, files, &sidecar, &descriptor, &limits).await;
    let pool = InstancePool::new(code, host, limits.instance);
    // When a host starts, most plugins have no work: their idle code is released at once, so that the next plugin
    // can use the memory.
    pool.drop_idle(Duration::ZERO);
    Ok(Version {
        digest: pool.code().digest().to_owned(),
        file_digest: file.digest,
        probation: sidecar.rollout.probation.map(ProbationPeriod::duration),
        role,
        sidecar_text: file.sidecar_text,
        sidecar_grants,
        workers: workers(&descriptor, &sidecar, pool.code().exports()),
        dedicated_instance: DedicatedInstance::new(pool.clone(), !observer_subscriptions.is_empty()),
        pool,
        views,
        routes,
        observer_subscriptions,
        fence,
        health,
        shadow,
        renamed_watches: Mutex::default(),
        newer_crds: Mutex::default(),
        plugin_limits: limits.plugin,
        must_reload: AtomicBool::new(false),
        compared_kinds: Mutex::default(),
        descriptor,
    })
}

/// Returns the limits of the new version, and raises the plugin's account of host memory to them. Logs which
/// requests of the descriptor are not granted in full. `is_first` says that no version runs.
fn apply_limits(
    plugin: &PluginServices,
    descriptor: &Descriptor,
    sidecar: &Sidecar,
    is_first: bool,
) -> Result<EffectiveLimits, LoadProblem> {
    let limits = limits::effective(Some(&descriptor.limits), &sidecar.limits)?;
    for clipped in &limits.clipped {
        plugin.log.host(LogLevel::Warn, format_args!("{clipped}"), &[]);
    }
    // Until the new version is installed, the indexes of two versions are held.
    let index_values = plugin.host_memory.used_by(HostMemoryKind::IndexValues);
    let host_memory = limits.plugin.host_memory.saturating_add(index_values);
    match is_first {
        true => plugin.host_memory.set_limit(host_memory),
        false => plugin.host_memory.raise_limit(host_memory),
    }
    Ok(limits)
}

/// Applies the plugin's CRDs, if it is granted that, and waits until they are established.
async fn apply_crds_and_wait(
    services: &LoadServices,
    inputs: &LoadInputs<'_>,
    descriptor: &Descriptor,
    report: &Report,
    new: &mut NewCrds<'_>,
) -> Result<(), LoadProblem> {
    if descriptor.crds.is_empty() || !inputs.sidecar.grants.crds.unwrap_or(services.grant_crds) {
        return Ok(());
    }
    loop {
        match new.apply(services, &inputs.plugin.name, &descriptor.crds).await {
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
    described: &DescribedVersion,
    code: &CompiledPlugin,
    health: &Health,
) -> Option<Indexer> {
    described.descriptor.computed_indexes().next()?;
    let config = Arc::clone(&described.config);
    let host = GuestHost::for_describe(plugin.clone(), config).recorded(code.digest());
    let instances = InstancePool::new(code.clone(), Arc::new(host), described.limits.instance.clone());
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
    described: &DescribedVersion,
    views: Arc<Views>,
    fence: &Fence,
) -> Result<Capabilities, LoadProblem> {
    let DescribedVersion { descriptor, limits, .. } = described;
    // Reads, writes, and the reads that resolve an unknown write outcome are all sent as the service account.
    let server = match &sidecar.service_account {
        Some(account) => services.server.acting_as(account),
        None => services.server.clone(),
    }
    .with_warnings_in(plugin.log.clone());
    let client = LiveClient::new(
        server.clone(),
        services.discovery.clone(),
        WriteGrants::new(descriptor.writes.clone(), plugin.current_grants.clone()),
        Writer::new(server, services.discovery.clone(), fence.clone(), plugin.clone()),
        plugin.name.to_shared(),
    )
    .with_max_response_size(limits.instance.message_size);
    let http_grants = HttpGrants::parse(&descriptor.http, plugin.current_grants.clone())?;
    let connector = Connector::new(services.tls.clone());
    let http = HttpClient::new(http_grants, connector, fence.clone(), Arc::clone(&views.access))
        .with_transport(services.http_transport.clone());
    let logged_excesses = LoggedExcesses::default();
    Ok(Capabilities { views, client, http, plugin_limits: limits.plugin, logged_excesses })
}

/// Returns the number of keys that the version reconciles at the same time.
fn workers(descriptor: &Descriptor, sidecar: &Sidecar, exports: Exports) -> usize {
    match (exports.reconcile, descriptor.stateful) {
        (false, _) => 0,
        (true, true) => 1,
        (true, false) => usize::from(sidecar.workers.unwrap_or(1)),
    }
}
