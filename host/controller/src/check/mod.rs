//! Implements `pilothouse check`: reports what loading a plugin would find, without running it.

mod error;
mod permissions;
mod report;
mod review;
mod rules;
mod scopes;
#[cfg(test)]
mod tests;
mod warnings;

use std::path::Path;
use std::sync::Arc;

use pilothouse_plugin::{CompiledPlugin, Engine, Form, StubHost};

pub use error::CheckError;
pub use permissions::RequiredPermission;
pub use report::{Availability, CheckReport, CheckedLimits, CheckedRule, CheckedWatch};
pub use review::review_permissions;
pub use rules::sidecar_warnings;

use crate::client::{ApiClient, Discovery, DiscoveryError, Freshness, apply_crds};
use crate::config::current_grants::apply_grant_mode;
use crate::config::descriptor::{Descriptor, Trigger};
use crate::config::sidecar::{GrantMode, MAX_SIDECAR, Sidecar};
use crate::config::sidecar_location::SidecarLocation;
use crate::config::{field_paths, limits};
use crate::directory::plugin_file;
use crate::load::authorization::{not_granted, unused_grants};
use crate::load::files::{MAX_WASM, read_blocking};
use crate::load::watches::{check_namespace_trigger, check_namespaces, type_of};
use crate::load::{LoadProblem, check_exports, unused_exports};
use crate::name::PluginName;
use report::{exports, world};
use scopes::Scopes;

/// The API servers that a plugin is checked against.
#[derive(Clone)]
pub struct CheckServers {
    /// An embedded server, a new one for each plugin. It serves the built-in kinds, and accepts the plugin's
    /// CRDs. Without one, the plugin's CRDs are not validated, and only the cluster knows the built-in kinds.
    pub embedded: Option<kube::Client>,
    /// The cluster where the plugin is to run. It is only queried; nothing is written to it.
    pub cluster: Option<kube::Client>,
    /// CustomResourceDefinitions of others whose kinds the plugin may watch, as manifests. The embedded server serves them.
    pub crds: Vec<serde_json::Value>,
    /// Whether to ask the cluster what its client's user may do.
    pub review_permissions: bool,
    /// Whether the host that runs the plugin applies CRDs if a sidecar does not say.
    pub grant_crds: bool,
    /// What that host grants where a sidecar says nothing.
    pub grants: GrantMode,
}

impl CheckServers {
    /// Returns the discovery of the server that knows the kinds: the cluster, or else the embedded server.
    fn discovery(&self) -> Option<Discovery> {
        let client = self.cluster.as_ref().or(self.embedded.as_ref())?;
        Some(Discovery::new(ApiClient::new(client.clone())))
    }
}

/// A plugin file with its sidecar, loaded and described.
struct LoadedPlugin {
    name: PluginName,
    code: CompiledPlugin,
    descriptor: Descriptor,
    sidecar: Sidecar,
    has_sidecar: bool,
    limits: limits::EffectiveLimits,
    /// What the plugin logged while it was described.
    log: Vec<String>,
}

/// Loads and describes the plugin at `path`, and checks it against the servers. A plugin that would load but
/// not run has [`problems`](CheckReport::problems).
///
/// # Errors
/// Errors if the file cannot be loaded, or if a server cannot be asked about it.
pub async fn check(engine: &Engine, path: &Path, servers: CheckServers) -> Result<CheckReport, CheckError> {
    let plugin = load_and_describe(engine, path, servers.grants).await?;
    let LoadedPlugin { name, descriptor, sidecar, .. } = &plugin;
    let mut problems: Vec<_> = apply_given_crds(&servers).await.into_iter().collect();
    let watches = checked_watches(descriptor, &servers, &mut problems).await?;
    let scopes = Scopes::from_descriptor(descriptor, sidecar, servers.discovery().as_ref())
        .await
        .map_err(CheckError::server)?;
    if let Some(server) = &servers.embedded {
        let server = ApiClient::new(server.clone());
        let applied = apply_crds(&server, None, &descriptor.crds, &mut Vec::new()).await;
        problems.extend(applied.err().map(|error| error.to_string()));
    }
    problems.extend(namespace_trigger_problems(&watches));
    problems.extend(watches.iter().filter_map(|checked| {
        let missing = checked.granted_namespaces(sidecar).err()?;
        Some(not_granted(&checked.watch.name, &SidecarLocation::File.of(name.as_str()), &missing))
    }));
    let mut permissions = permissions::needed(descriptor, &watches, sidecar, &scopes, servers.grant_crds);
    if let Some(cluster) = servers.cluster.as_ref().filter(|_| servers.review_permissions) {
        review::review(&ApiClient::new(cluster.clone()), &mut permissions, &mut problems).await;
    }
    let warnings = collect_warnings(&plugin, &servers, &watches, &scopes);
    Ok(build_report(plugin, watches, permissions, problems, warnings))
}

/// Loads the plugin at `path` with its sidecar, and describes it.
async fn load_and_describe(
    engine: &Engine,
    path: &Path,
    grants: GrantMode,
) -> Result<LoadedPlugin, CheckError> {
    let name = PluginName::of_file(path).map_err(CheckError::refused)?;
    let wasm = |path: &Path| plugin_file::read_anywhere(path, MAX_WASM);
    let wasm = read_blocking(path, wasm).await.map_err(CheckError::refused)?;
    let (sidecar, has_sidecar) = sidecar(path).await.map_err(CheckError::Refused)?;
    let sidecar = apply_grant_mode(grants, sidecar);
    let code = engine.load(wasm).await.map_err(CheckError::code)?;
    let host = Arc::new(StubHost::new(sidecar.config_json()));
    let limits = limits::effective(None, &sidecar.limits).map_err(CheckError::refused)?.instance;
    let text = code
        .describe(Arc::<StubHost>::clone(&host), &limits)
        .await
        .map_err(|error| CheckError::Code(format!("describe failed: {error}")))?;
    let descriptor = Descriptor::parse(&text).map_err(CheckError::refused)?;
    check_exports(&descriptor, &code).map_err(CheckError::refused)?;
    let limits = limits::effective(Some(&descriptor.limits), &sidecar.limits).map_err(CheckError::refused)?;
    Ok(LoadedPlugin { name, code, descriptor, sidecar, has_sidecar, limits, log: host.lines() })
}

/// Returns the warnings about a plugin, those about its descriptor first.
fn collect_warnings(
    plugin: &LoadedPlugin,
    servers: &CheckServers,
    watches: &[CheckedWatch],
    scopes: &Scopes,
) -> Vec<String> {
    let LoadedPlugin { name, code, descriptor, sidecar, limits, .. } = plugin;
    let mut warnings = warnings::descriptor_warnings(descriptor, sidecar, name);
    if servers.embedded.is_none() {
        warnings.extend(warnings::of_unvalidated_crds(&crd_names(descriptor)));
    }
    warnings.extend(scopes.warnings(descriptor, sidecar));
    warnings.extend(limits.clipped.iter().cloned());
    warnings.extend(code.warnings().iter().cloned());
    warnings.extend(unused_exports(descriptor, code.exports()));
    warnings.extend(field_paths::warnings(descriptor, &servers.crds));
    warnings.extend(warnings::http_warning(code.imports(), descriptor, sidecar));
    warnings.extend(watches.iter().flat_map(warnings::watch_warnings));
    let watched: Vec<_> = watches.iter().map(CheckedWatch::resource).collect();
    let watched = watched.iter().map(|(group, plural)| (*group, plural.as_str()));
    warnings.extend(unused_grants(descriptor, sidecar, &watched));
    warnings
}

fn build_report(
    plugin: LoadedPlugin,
    watches: Vec<CheckedWatch>,
    permissions: Vec<RequiredPermission>,
    problems: Vec<String>,
    warnings: Vec<String>,
) -> CheckReport {
    let LoadedPlugin { name, code, descriptor, sidecar, has_sidecar, limits, log } = plugin;
    CheckReport {
        runs: problems.is_empty(),
        problems,
        warnings,
        name: name.to_string(),
        form: match code.form() {
            Form::Component => "component",
            Form::CoreModule => "coreModule",
        },
        size: code.size(),
        digest: code.digest().to_owned(),
        compile_time: code.compile_time(),
        contract: code.package_version().to_owned(),
        world: world(code.exports()),
        exports: exports(code.exports()),
        imports: imports(&code),
        watches,
        crds: crd_names(&descriptor),
        permissions,
        limits: CheckedLimits::new(limits, &descriptor, &sidecar),
        has_sidecar,
        service_account: sidecar.service_account.clone(),
        grants_crds: sidecar.grants.crds,
        enabled: sidecar.enabled != Some(false),
        log,
        version: descriptor.version,
        summary: descriptor.summary,
        writes: CheckedRule::of(descriptor.writes, &sidecar),
        http: descriptor.http,
    }
}

async fn sidecar(plugin: &Path) -> Result<(Sidecar, bool), String> {
    let path = plugin.with_extension("yaml");
    let short = plugin.with_extension("yml");
    if tokio::fs::symlink_metadata(&short).await.is_ok() {
        return Err(LoadProblem::ShortEnding { short, path }.to_string());
    }
    let read = |path: &Path| plugin_file::read_sidecar(path, MAX_SIDECAR as u64, plugin_file::read_anywhere);
    match read_blocking(&path, read).await {
        Ok(Some(text)) => Sidecar::parse(&text)
            .map(|sidecar| (sidecar, true))
            .map_err(|error| format!("the sidecar {}: {error}", path.display())),
        Ok(None) => Ok((Sidecar::default(), false)),
        Err(problem) => Err(format!("the sidecar {problem}")),
    }
}

fn imports(code: &CompiledPlugin) -> Vec<String> {
    let mut imports = code.imports().to_vec();
    imports.sort();
    imports
}

fn crd_names(descriptor: &Descriptor) -> Vec<String> {
    let name = |crd: &serde_json::Value| Some(crd.pointer("/metadata/name")?.as_str()?.to_owned());
    descriptor.crds.iter().filter_map(name).collect()
}

/// Applies the given CRDs to the embedded server, so that it serves their kinds. Returns what is wrong with one.
async fn apply_given_crds(servers: &CheckServers) -> Option<String> {
    let server = ApiClient::new(servers.embedded.clone()?);
    let applied = apply_crds(&server, None, &servers.crds, &mut Vec::new()).await;
    applied.err().map(|error| format!("--crds: {error}"))
}

/// Resolves the kind of each watch. Must be called before the plugin's CRDs are applied to the embedded
/// server: it then serves exactly the built-in kinds and the given ones, so that a missing kind in a built-in group is a
/// mistake. Other groups may come from CRDs. Without a server, only the kinds of the plugin's own CRDs are
/// known.
async fn checked_watches(
    descriptor: &Descriptor,
    servers: &CheckServers,
    problems: &mut Vec<String>,
) -> Result<Vec<CheckedWatch>, CheckError> {
    let discovery = servers.discovery();
    let mut watches = Vec::new();
    for (position, watch) in descriptor.watches.iter().enumerate() {
        let own = descriptor.own_crd(&watch.api_version, &watch.kind);
        let kind = type_of(watch).map_err(CheckError::refused)?;
        let Some(discovery) = &discovery else {
            let served = if own.is_some() { Availability::ByOwnCrd } else { Availability::Unverified };
            let (plural, namespaced) = own.map(|crd| (crd.plural.to_owned(), crd.namespaced)).unzip();
            watches.push(CheckedWatch::new(watch, served, plural, namespaced));
            continue;
        };
        let resolved = discovery.resolve(kind, watch.resource.as_deref(), Freshness::Cached).await;
        let (served, plural, namespaced) = match resolved {
            Ok(resource) => {
                problems.extend(check_namespaces(watch, &resource).err().map(|problem| problem.to_string()));
                (Availability::Yes, Some(resource.plural), Some(resource.namespaced))
            }
            Err(DiscoveryError::NotServed { .. }) if own.is_some() => {
                let (plural, namespaced) = own.map(|crd| (crd.plural.to_owned(), crd.namespaced)).unzip();
                (Availability::ByOwnCrd, plural, namespaced)
            }
            Err(error @ DiscoveryError::NotServed { .. }) => {
                let kinds = discovery.kinds(kind).await.map_err(CheckError::server)?;
                if servers.cluster.is_none() && kinds.is_empty() {
                    (Availability::Unverified, None, None)
                } else {
                    problems.push(format!(
                        "watches[{position}] ({:?}): {error}{}",
                        watch.name,
                        kinds_hint(&kinds)
                    ));
                    (Availability::No, None, None)
                }
            }
            Err(error) => return Err(CheckError::server(error)),
        };
        watches.push(CheckedWatch::new(watch, served, plural, namespaced));
    }
    Ok(watches)
}

/// Returns a problem for each trigger `namespace` that can never find an object, as far as the scopes are known.
fn namespace_trigger_problems(watches: &[CheckedWatch]) -> Vec<String> {
    let problem = |checked: &CheckedWatch| {
        let Some(Trigger::Namespace { watch: target }) = &checked.watch.trigger else { return None };
        let target_namespaced = watches.iter().find(|other| other.watch.name == *target)?.namespaced?;
        check_namespace_trigger(&checked.watch, checked.namespaced?, target, target_namespaced).err()
    };
    watches.iter().filter_map(problem).map(|problem| problem.to_string()).collect()
}

fn kinds_hint(kinds: &[String]) -> String {
    if kinds.is_empty() { String::new() } else { format!("; there are: {}", kinds.join(", ")) }
}
