//! `pilothouse run`: runs plugins against a Kubernetes cluster.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pilothouse_controller::GrantMode;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::host::{HostFlags, engine as host_engine, require_directory, run as run_host};
use super::listen;
use crate::cli::{AuthMode, CacheCompression, CompilerMode, Run};
use crate::{CommandError, CommandResult, cluster, input_file, output, shutdown};

/// The host's configuration file (`--config`).
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct HostConfig {
    /// Whether the host applies the CRDs of plugins, unless a sidecar says otherwise. Default: false, because in a shared cluster
    /// this is the operator's decision.
    #[serde(default)]
    pub(super) grant_crds: bool,
    /// Default grants: what a plugin may access when its sidecar does not say.
    #[serde(default)]
    pub(super) grants: GrantMode,
    /// Settings of the object cache.
    #[serde(default)]
    pub(super) cache: CacheConfig,
    /// How a watch obtains its initial state.
    #[serde(default)]
    pub(super) lists: ListMode,
    /// Traces of reconciles.
    #[cfg(feature = "traces")]
    #[serde(default)]
    pub(super) tracing: crate::traces::TracingConfig,
    /// Plugins that come from registries.
    #[cfg(feature = "registry")]
    #[serde(default)]
    pub(super) plugins: Vec<pilothouse_registry::PluginEntry>,
    /// What concerns all registries.
    #[cfg(feature = "registry")]
    #[serde(default)]
    pub(super) registries: pilothouse_registry::RegistrySettings,
    /// Objects of the kind `Plugin`, whose plugins are run, too.
    #[cfg(feature = "registry")]
    #[serde(default)]
    pub(super) plugin_resource: super::plugin_resource::PluginResourceConfig,
}

impl HostConfig {
    /// Whether plugins may come from elsewhere than the plugins directory.
    pub(super) fn has_other_sources(&self) -> bool {
        #[cfg(feature = "registry")]
        return !self.plugins.is_empty() || self.plugin_resource.enabled;
        #[cfg(not(feature = "registry"))]
        false
    }
}

/// How a watch obtains its initial state. API servers compress plain lists but not streams, so the faster mode depends on the link.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) enum ListMode {
    /// A streaming list (WatchList), or a plain list if the server does not support streaming.
    #[default]
    Streaming,
    /// A plain list before the watch.
    Plain,
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CacheConfig {
    /// Compression of cached objects in memory.
    #[serde(default)]
    pub(super) compression: CacheCompression,
}

pub(crate) async fn run(flags: Run) -> CommandResult {
    let shutdown = shutdown::on_signal()?;
    let config = read_config(flags.config.as_deref())?;
    let cache_compression = flags.cache.cache_compression.unwrap_or(config.cache.compression).options()?;
    #[cfg(feature = "traces")]
    let traces = crate::traces::TraceSettings::resolve(&flags.traces, &config.tracing)?;
    let (clients, api_server) =
        cluster::connect(flags.kubeconfig.as_deref(), flags.context.as_deref()).await?;
    require_directory(&flags.plugins)?;
    let listener = listen::bind("--listen", flags.listen).await?;
    let address = listen::local_address(&listener)?;
    if flags.auth.is_none() && !address.ip().to_canonical().is_loopback() {
        tracing::warn!(
            "everyone who reaches {address} can read the status, the logs and the metrics: --auth kubernetes lets the API server decide who \
             may, --auth none accepts it"
        );
    }
    output::print_line(format_args!("plugins     {}", flags.plugins.display()));
    output::print_line(format_args!("status      http://{address}/"));
    #[cfg_attr(not(feature = "registry"), expect(unused_mut, reason = "only registries add metrics here"))]
    let mut metrics = Registry::default();
    #[cfg(feature = "registry")]
    let (provided, plugin_resource) = super::registry::source::start(
        config.registries,
        config.plugins,
        &config.plugin_resource,
        flags.cache.cache_dir.clone().or_else(super::compile::default_cache_dir),
        &mut metrics,
        shutdown.clone(),
    )
    .await?
    .map_or((None, None), |started| (Some(started.provided), started.plugin_resource));
    #[cfg(not(feature = "registry"))]
    let (provided, plugin_resource) = (None, None);
    let host = HostFlags {
        plugins: flags.plugins,
        provided,
        allowed_hosts: flags.hosts.allowed_hosts,
        auth: flags.auth.unwrap_or(AuthMode::None),
        api_server,
        grant_crds: config.grant_crds,
        grants: flags.grants.map_or(config.grants, GrantMode::from),
        engine: host_engine(flags.cache.cache_dir, CompilerMode::Optimizing)?,
        cache_compression,
        streaming_lists: config.lists == ListMode::Streaming,
        plugin_resource,
        #[cfg(feature = "traces")]
        traces,
        recording: flags.recording.record,
        shadows: flags.shadows.shadow,
        startup: Arc::default(),
        metrics,
        test: flags.test,
    };
    run_host(host, clients, listener, shutdown).await
}

/// The maximum size of a configuration file in bytes.
pub(super) const MAX_CONFIG: u64 = 4 << 20;

/// Members of the configuration that need a Cargo feature, each with it, if this build does not have the feature.
const LEFT_OUT: &[(&str, &str)] = &[
    #[cfg(not(feature = "registry"))]
    ("pluginResource", "registry"),
    #[cfg(not(feature = "registry"))]
    ("plugins", "registry"),
    #[cfg(not(feature = "registry"))]
    ("registries", "registry"),
    #[cfg(not(feature = "traces"))]
    ("tracing", "traces"),
];

/// Returns the error for a configuration with one of the members `left_out`, which would otherwise be called unknown.
fn left_out_member(path: &Path, text: &str, left_out: &[(&str, &str)]) -> Option<CommandError> {
    let members: BTreeMap<String, IgnoredAny> = serde_saphyr::from_str(text).ok()?;
    let (member, feature) = left_out.iter().find(|(member, _)| members.contains_key(*member))?;
    Some(CommandError::left_out(&format!("`{member}` of --config {}", path.display()), feature))
}

/// Reads the configuration file. Without one, returns the defaults.
pub(super) fn read_config(path: Option<&Path>) -> Result<HostConfig, CommandError> {
    let Some(path) = path else { return Ok(HostConfig::default()) };
    let config_error = |problem: String, remedy: &str| {
        CommandError::Usage(format!("--config {}: {problem}; {remedy}", path.display()))
    };
    let text = input_file::read_text_or_pipe(path, MAX_CONFIG)
        .map_err(|problem| config_error(problem, "give the path of a readable YAML file"))?;
    if let Some(error) = left_out_member(path, &text, LEFT_OUT) {
        return Err(error);
    }
    #[cfg_attr(not(feature = "registry"), expect(unused_mut, reason = "only entries of plugins are changed"))]
    let mut config: HostConfig = pilothouse_yaml::from_str(&text).map_err(|problem| {
        config_error(problem, "see \"pilothouse run\" in docs/cli.md for the supported fields")
    })?;
    #[cfg(feature = "registry")]
    config
        .plugin_resource
        .other_namespaces()
        .map_err(|problem| config_error(problem, "write names of namespaces, or [\"*\"] for all"))?;
    #[cfg(feature = "registry")]
    super::configured_entries::set_sidecar_problems(path, &text, &mut config.plugins);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::published_schema;

    #[test]
    fn the_published_schema_of_the_configuration_matches_the_types() {
        let schema = with_sidecars(schemars::schema_for!(HostConfig).to_value());
        published_schema::assert_is_published(
            "host-config.schema.json",
            "Pilothouse host configuration",
            schema,
        );
    }

    /// Describes the sidecars of `plugins` by the schema of sidecars, which their type, a map, does not have.
    fn with_sidecars(mut schema: Value) -> Value {
        let mut sidecar = pilothouse_controller::sidecar::schema();
        let members = sidecar.as_object_mut().expect("a schema");
        members.retain(|name, _| name != "$schema" && name != "title");
        let definitions = members.remove("$defs").expect("definitions");
        let known = schema["$defs"].as_object_mut().expect("definitions");
        for (name, definition) in definitions.as_object().expect("definitions") {
            let previous = known.insert(name.clone(), definition.clone());
            assert!(previous.is_none_or(|previous| previous == *definition), "two types {name}");
        }
        known.insert("Sidecar".to_owned(), sidecar);
        let member = &mut known["PluginEntry"]["properties"]["sidecar"];
        let description = member["description"].take();
        *member =
            json!({"description": description, "anyOf": [{"$ref": "#/$defs/Sidecar"}, {"type": "null"}]});
        schema
    }

    #[cfg(all(feature = "registry", feature = "traces"))]
    #[test]
    fn the_schema_of_the_configuration_is_as_strict_as_its_reader_where_it_can_be() {
        let schema = with_sidecars(schemars::schema_for!(HostConfig).to_value());
        let definition = |name: &str| schema["$defs"][name]["properties"].clone();
        let sidecar = &schema["$defs"]["Sidecar"];
        assert_eq!(sidecar["additionalProperties"], false);
        assert_eq!(
            (&sidecar["properties"]["workers"]["minimum"], &sidecar["properties"]["workers"]["maximum"]),
            (&json!(1), &json!(64))
        );
        let ratio = &definition("TracingConfig")["sampleRatio"];
        assert_eq!((ratio["minimum"].as_f64(), ratio["maximum"].as_f64()), (Some(0.0), Some(1.0)));
        let accepts = |member: &Value, text: &str| {
            let pattern = member["pattern"].as_str().expect("a pattern");
            regex::Regex::new(pattern).expect("a pattern").is_match(text)
        };
        let plugin = definition("PluginEntry");
        for (member, accepted, refused) in [
            (&plugin["poll"], &["10s", "5m", "1h", "090s"][..], &["1s", "09s", "0m", "5", "soon"][..]),
            (&plugin["name"], &["a", "a-1"], &["A", "a_b", ""]),
            (&plugin["image"], &["r.example/a:1", "oci://r.example/t/a:1"], &["a", ""]),
            (
                &definition("TracingConfig")["endpoint"],
                &["http://c:4318", "https://c"],
                &["ftp://x", "c:4318"],
            ),
            (&sidecar["properties"]["serviceAccount"], &["shop/robot"], &["x", "/x", "a/b/c"]),
        ] {
            for text in accepted {
                assert!(accepts(member, text), "{text}: {member}");
            }
            for text in refused {
                assert!(!accepts(member, text), "{text}: {member}");
            }
        }
    }

    #[test]
    fn a_member_that_needs_a_feature_is_an_error_that_names_the_feature() {
        let left_out = |text: &str| left_out_member(Path::new("ph.yaml"), text, &[("plugins", "registry")]);
        let Some(CommandError::Usage(error)) = left_out("grants: explicit\nplugins: []\n") else {
            panic!("a build without the feature cannot honour it");
        };
        assert!(error.contains("without `plugins` of --config ph.yaml"), "{error}");
        assert!(error.contains("--features registry"), "{error}");
        for text in ["", "grants: explicit", "cache: {plugins: 1}", "plugins", "]"] {
            assert!(left_out(text).is_none(), "{text}");
        }
    }

    #[test]
    fn configuration_fields_are_optional_and_have_defaults() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.yaml");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("written");
            let config = read_config(Some(&path)).expect("a configuration");
            (config.grant_crds, config.cache.compression)
        };
        assert_eq!(read("{}"), (false, CacheCompression::None));
        assert_eq!(read("grantCrds: true\ncache: {}\n"), (true, CacheCompression::None));
        assert_eq!(read("cache:\n  compression: zstd\n"), (false, CacheCompression::Zstd));
        assert_eq!(read("cache: {compression: none}"), (false, CacheCompression::None));
        let defaults = read_config(None).expect("no file");
        assert_eq!(
            (defaults.cache.compression, defaults.lists),
            (CacheCompression::None, ListMode::Streaming)
        );
        assert_eq!(defaults.grants, GrantMode::Declared);
        #[cfg(feature = "registry")]
        {
            let text = "plugins: [{name: p, image: 'oci://r.example/p:1', sidecar: {workers: 2}}]\nregistries: {onViolation: stop}";
            std::fs::write(&path, text).expect("written");
            let config = read_config(Some(&path)).expect("a configuration");
            assert_eq!((config.plugins[0].name.as_str(), config.plugins[0].poll.as_deref()), ("p", None));
            assert_eq!(config.registries.on_violation, pilothouse_registry::OnViolation::Stop);
            assert!(!config.plugin_resource.enabled, "objects are not followed by default");
            std::fs::write(&path, "pluginResource: {enabled: true, namespaces: [a/b]}").expect("written");
            let Err(CommandError::Usage(text)) = read_config(Some(&path)) else { panic!("a wrong name") };
            assert!(text.contains("pluginResource.namespaces"), "{text}");
        }
        std::fs::write(&path, "grants: explicit").expect("written");
        assert_eq!(read_config(Some(&path)).expect("a configuration").grants, GrantMode::Explicit);
        std::fs::write(&path, "lists: plain").expect("written");
        assert_eq!(read_config(Some(&path)).expect("a configuration").lists, ListMode::Plain);
    }
}
