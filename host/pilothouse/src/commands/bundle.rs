//! `pilothouse bundle`: collects what a bug report needs, without secrets. `crate::bundle` redacts and packs what this module collects.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::StreamExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::remote;
use super::run::{HostConfig, MAX_CONFIG, read_config};
use crate::bundle::{
    BundleOptions, EnvironmentFacts, Form, MAX_BUNDLE, Material, assemble, environment_facts, stuck_keys,
};
use crate::cli::Bundle;
use crate::{CommandError, CommandResult, cluster, host_facts, input_file, output, plugin_check};

/// The maximum size of one response or file in bytes.
const MAX_FILE: usize = 16 << 20;
/// The maximum number of plugins whose keys, sidecar and check are collected.
const MAX_PLUGINS: usize = 1_000;
/// As many keys as the host returns.
const MAX_KEYS: usize = 10_000;
/// The maximum number of stuck keys that are explained, in total and of one plugin.
const MAX_EXPLAINED: usize = 100;
const MAX_EXPLAINED_PER_PLUGIN: usize = 10;
/// The maximum number of missing files that are named when the bundle was written.
const MAX_NAMED: usize = 10;
/// How long the plugins' files are checked, in total. With it, a bundle takes about as long as the interval between its two snapshots.
const CHECK_TIME: Duration = Duration::from_secs(8);
/// The token of a pod's service account.
const POD_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

#[expect(clippy::disallowed_methods, reason = "a bundle says when it was made, and its key is random")]
pub(crate) async fn run(flags: Bundle) -> CommandResult {
    check_output(flags.output.as_deref())?;
    let mut material = Material::default();
    add_process(&mut material);
    add_kubeconfig(&flags, &mut material);
    let config = add_config(flags.config.as_deref(), &mut material);
    #[cfg(feature = "registry")]
    if let Some(Ok(text)) = config.registries.credentials.as_deref().map(read_text) {
        material.add_registry_credentials(&text);
    }
    let host = add_host(&flags, &mut material).await?;
    // Between the two snapshots of the metrics, so that the bundle takes no longer than the interval or the checks.
    let mut plugins = add_plugin_files(&flags.plugins, &mut material);
    if let Some(host) = &host {
        // There may be no time to check all of them.
        plugins.sort_by_key(|path| host.running.contains(plugin_name(path).as_str()));
    }
    Box::pin(add_checks(&flags, &config, plugins, &mut material)).await;
    if let Some(host) = host {
        tokio::time::sleep_until(host.metrics_taken + flags.interval).await;
        add_latest(&flags, &mut material).await;
    }
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let options = BundleOptions {
        unredacted: flags.unredacted,
        anonymise: flags.anonymise.then(rand::random),
        created,
        max_bytes: MAX_BUNDLE,
    };
    let left_out: Vec<_> = material.left_out.iter().map(|left_out| left_out.what.clone()).collect();
    let bytes = assemble(material, &options)
        .map_err(|error| CommandError::Failure(format!("cannot make the bundle: {error}")))?;
    write(flags.output, created, &bytes, &left_out)
}

/// Errors if the folder of the file does not exist: collecting takes seconds.
fn check_output(output: Option<&Path>) -> CommandResult {
    let folder = output.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    match (output, folder) {
        (Some(path), Some(folder)) if !folder.is_dir() => Err(CommandError::Failure(format!(
            "cannot write {}: {} is no directory; give another path with -o",
            path.display(),
            folder.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes the bundle to a new file, or to standard output. For a file, prints what the bundle lacks.
fn write(output: Option<PathBuf>, created: u64, bytes: &[u8], left_out: &[String]) -> CommandResult {
    let path = output.unwrap_or_else(|| format!("pilothouse-bundle-{created}.tar.gz").into());
    let failed = |error: std::io::Error| {
        CommandError::Failure(format!("cannot write {}: {error}; give another path with -o", path.display()))
    };
    if path == Path::new("-") {
        return std::io::stdout().write_all(bytes).map_err(failed);
    }
    write_private(&path, bytes).map_err(failed)?;
    output::print_line(format_args!(
        "{} ({} KiB); read it before you publish it: logs and errors are free text",
        path.display(),
        bytes.len().div_ceil(1024)
    ));
    if !left_out.is_empty() {
        output::print_line(format_args!(
            "left out: {}; left-out.txt in the bundle says why",
            listed(left_out)
        ));
    }
    Ok(())
}

/// Writes a file that only its owner may read, also in place of one that others may read. Unlike the files of the host's
/// caches, it may be a device.
fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let is_special = path.metadata().is_ok_and(|metadata| !metadata.is_file());
    if is_special {
        // Such as /dev/stdout.
        return std::fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&partial)?;
    let written = file.write_all(bytes).and_then(|()| std::fs::rename(&partial, path));
    written.inspect_err(|_| {
        // If this fails, too, the first error says more.
        let _ = std::fs::remove_file(&partial);
    })
}

/// Joins names, of which the first [`MAX_NAMED`] are listed and the others counted.
fn listed(names: &[String]) -> String {
    let first = names.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Adds the version of this program and its environment.
fn add_process(material: &mut Material) {
    material.add("version.json", Form::Json, host_facts::build().to_string());
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
    let EnvironmentFacts { own, secrets } = environment_facts(variables);
    material.secrets.extend(secrets);
    for variable in ["HOSTNAME", "POD_NAMESPACE"] {
        material.names.extend(std::env::var(variable));
    }
    material.add("environment.txt", Form::Text, own.join("\n") + "\n");
}

/// Adds the credentials of the cluster as secrets.
fn add_kubeconfig(flags: &Bundle, material: &mut Material) {
    for path in kubeconfigs(flags) {
        let text = match read_text(&path) {
            Ok(text) => text,
            Err(_) if !path.exists() => continue,
            Err(problem) => {
                material.leave_out("the credentials of a kubeconfig from what is redacted", problem);
                continue;
            }
        };
        for file in material.add_kubeconfig(&text) {
            // As kubectl reads it: from the folder of the kubeconfig.
            let file = path.parent().unwrap_or(Path::new("")).join(file);
            material.secrets.extend(read_text(&file));
        }
    }
    let token_file = std::env::var_os("PILOTHOUSE_TOKEN_FILE").map(PathBuf::from);
    for file in token_file.into_iter().chain([PathBuf::from(POD_TOKEN)]) {
        material.secrets.extend(read_text(&file));
    }
}

/// Returns the kubeconfig files that a client would read. `KUBECONFIG` is a list.
fn kubeconfigs(flags: &Bundle) -> Vec<PathBuf> {
    match (&flags.kubeconfig, std::env::var_os("KUBECONFIG")) {
        (Some(path), _) => vec![path.clone()],
        (None, Some(list)) => {
            std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect()
        }
        (None, None) => {
            let home = std::env::var_os("HOME").map(PathBuf::from);
            home.map(|home| home.join(".kube/config")).into_iter().collect()
        }
    }
}

/// Adds the host's configuration. Returns it, or the defaults if there is none or it is invalid.
fn add_config(path: Option<&Path>, material: &mut Material) -> HostConfig {
    let Some(path) = path else {
        material.leave_out("config.yaml", "pass --config with the host's configuration file, if it has one");
        return HostConfig::default();
    };
    match read_text(path) {
        Ok(text) => material.add("config.yaml", Form::HostConfig, text),
        Err(problem) => material.leave_out("config.yaml", problem),
    }
    read_config(Some(path)).unwrap_or_else(|error| {
        material.leave_out("the effective configuration", text_of(error));
        HostConfig::default()
    })
}

/// What later steps need to know of a running host.
struct RunningHost {
    /// When the first snapshot of its metrics was taken.
    metrics_taken: Instant,
    /// The names of the plugins that run.
    running: BTreeSet<String>,
}

/// Adds what a running host serves on its status port. Returns `None` if no host answers.
///
/// # Errors
/// Returns a usage error if `--server` is no URL.
async fn add_host(flags: &Bundle, material: &mut Material) -> Result<Option<RunningHost>, CommandError> {
    let server = &flags.server.server;
    let first = match remote::get_up_to(server, "/metrics", MAX_FILE).await {
        Ok(metrics) => metrics,
        Err(error @ CommandError::Usage(_)) => return Err(error),
        Err(CommandError::Failure(problem)) => {
            material.leave_out("status, keys, informers, metrics and logs of a running host", problem);
            return Ok(None);
        }
    };
    let metrics_taken = Instant::now();
    material.add("metrics/1.txt", Form::Text, first);
    add_response(server, "/debug/host", ("host.json", Form::Json), material).await;
    add_response(server, "/debug/informers", ("informers.json", Form::Json), material).await;
    let mut running = BTreeSet::new();
    if let Some(status) = add_response(server, "/api/plugins", ("status.json", Form::Json), material).await {
        let status: Value = serde_json::from_str(&status).unwrap_or_default();
        running = running_plugins(&status);
        add_keys(server, &status, material).await;
    }
    Ok(Some(RunningHost { metrics_taken, running }))
}

/// Returns the names of the plugins that run, from the response of `/api/plugins`.
fn running_plugins(status: &Value) -> BTreeSet<String> {
    let plugins = status["plugins"].as_array().into_iter().flatten();
    let running = plugins.filter(|plugin| plugin["state"] == "running");
    running.filter_map(|plugin| plugin["name"].as_str()).map(str::to_owned).collect()
}

/// Adds the second snapshots of the metrics and of the process, and the log lines. The CPU times of the threads in both show which of them have worked
/// in between.
async fn add_latest(flags: &Bundle, material: &mut Material) {
    let server = &flags.server.server;
    add_response(server, "/metrics", ("metrics/2.txt", Form::Text), material).await;
    add_response(server, "/debug/host", ("host-2.json", Form::Json), material).await;
    add_response(server, "/api/logs", ("logs.ndjson", Form::JsonLines), material).await;
}

/// Adds the response to a GET request, and returns it.
async fn add_response(
    server: &str,
    path: &str,
    (file, form): (&str, Form),
    material: &mut Material,
) -> Option<String> {
    match remote::get_up_to(server, path, MAX_FILE).await {
        Ok(text) => {
            material.add(file, form, text.clone());
            Some(text)
        }
        Err(error) => {
            material.leave_out(file, text_of(error));
            None
        }
    }
}

/// Adds the pending keys of each plugin, and those that are stuck in a file of their own.
async fn add_keys(server: &str, status: &Value, material: &mut Material) {
    let names =
        status["plugins"].as_array().into_iter().flatten().filter_map(|plugin| plugin["name"].as_str());
    let mut stuck = Vec::new();
    let mut explained = String::new();
    for name in names.filter(|name| remote::check_plugin_name(name).is_ok()).take(MAX_PLUGINS) {
        let path = format!("/api/plugins/{name}/keys?limit={MAX_KEYS}");
        let file = format!("keys/{name}.json");
        let Some(text) = add_response(server, &path, (file.as_str(), Form::Json), material).await else {
            continue;
        };
        let found = stuck_keys(&serde_json::from_str(&text).unwrap_or_default());
        let room = MAX_EXPLAINED.saturating_sub(explained.lines().count());
        for key in found.iter().take(room.min(MAX_EXPLAINED_PER_PLUGIN)) {
            explained += &explanation(server, name, key, material).await;
        }
        if !found.is_empty() {
            stuck.push(json!({"plugin": name, "keys": found}));
        }
    }
    material.add("stuck-keys.json", Form::Json, Value::Array(stuck).to_string());
    material.add("explain.ndjson", Form::JsonLines, explained);
}

/// Returns why a key is stuck, as a line; "" if the host does not answer.
async fn explanation(server: &str, plugin: &str, key: &Value, material: &mut Material) -> String {
    let encoded = |member: &str| remote::percent_encoded(key[member].as_str().unwrap_or_default());
    let path = format!("/api/explain?plugin={plugin}&key={}&watch={}", encoded("key"), encoded("watch"));
    match remote::get_up_to(server, &path, MAX_FILE).await {
        // The document has one line: line breaks in its texts are escaped.
        Ok(text) => text.trim_end().replace('\n', " ") + "\n",
        Err(error) => {
            material.leave_out("an explanation in explain.ndjson", text_of(error));
            String::new()
        }
    }
}

/// Adds the list of the plugins' files, and their sidecars. Returns the paths of the plugins.
fn add_plugin_files(directory: &Path, material: &mut Material) -> Vec<PathBuf> {
    let entries = match directory.read_dir() {
        Ok(entries) => entries,
        Err(error) => {
            let reason =
                format!("{}: {error}; pass the host's plugins directory with --plugins", directory.display());
            material.leave_out("plugins, sidecars and checks", reason);
            return Vec::new();
        }
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).take(4 * MAX_PLUGINS).collect();
    paths.sort();
    let list: String = paths
        .iter()
        .map(|path| {
            let size =
                path.metadata().map_or_else(|error| error.to_string(), |found| found.len().to_string());
            format!("{size}\t{}\n", file_name(path))
        })
        .collect();
    material.add("plugins.txt", Form::Text, list);
    let stems = paths.iter().filter_map(|path| path.file_stem());
    material.names.extend(stems.map(|stem| stem.to_string_lossy().into_owned()));
    let with_extension = |extension: &'static str| {
        let is_one = move |path: &&PathBuf| path.extension().is_some_and(|found| found == extension);
        paths.iter().filter(is_one).take(MAX_PLUGINS)
    };
    for path in with_extension("yaml").chain(with_extension("yml")) {
        let file = format!("sidecars/{}", file_name(path));
        match read_text(path) {
            Ok(text) => material.add(file, Form::Sidecar, text),
            Err(problem) => material.leave_out(file, problem),
        }
    }
    paths.iter().filter(|path| plugin_check::is_plugin_file(path)).take(MAX_PLUGINS).cloned().collect()
}

/// Adds the report of `check` on each plugin, and the rights that they need.
async fn add_checks(flags: &Bundle, config: &HostConfig, plugins: Vec<PathBuf>, material: &mut Material) {
    let client = match cluster::optional_client(flags.kubeconfig.as_deref(), flags.context.as_deref()).await {
        Ok(Some(client)) => Some(client),
        Ok(None) => {
            let reason = "pass --kubeconfig to review in a cluster whether the plugins have their rights";
            material.leave_out("the review of rights", reason);
            None
        }
        Err(error) => {
            material.leave_out("the review of rights", text_of(error));
            None
        }
    };
    let host = (config.grant_crds, config.grants);
    let end = Instant::now() + CHECK_TIME;
    let mut checks = pin!(plugin_check::check_each(plugins, move |path| {
        let client = client.clone();
        async move { tokio::time::timeout_at(end, plugin_check::check_in(&path, client, host)).await }
    }));
    let mut rights = Vec::new();
    while let Some((path, result)) = checks.next().await {
        let name = plugin_name(&path);
        let file = format!("check/{name}.json");
        let report = match result {
            Ok(Ok(report)) => serde_json::to_value(&report).unwrap_or_default(),
            Ok(Err(error)) => json!({"runs": false, "problems": [text_of(error)]}),
            Err(_) => {
                material.leave_out(file, too_slow());
                continue;
            }
        };
        rights.push(json!({"plugin": name, "rights": report["rights"]}));
        material.add(file, Form::Json, report.to_string());
    }
    if !rights.is_empty() {
        material.add("rights.json", Form::Json, Value::Array(rights).to_string());
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    input_file::read_text(path, MAX_CONFIG).map_err(|problem| format!("{}: {problem}", path.display()))
}

/// Returns why the report on a plugin is missing when there was no time for it.
fn too_slow() -> String {
    format!(
        "the checks took longer than {} s; plugins that do not run are checked first, and `pilothouse check FILE` checks one",
        CHECK_TIME.as_secs()
    )
}

/// Returns the name that a host gives the plugin in a file.
fn plugin_name(path: &Path) -> String {
    file_name(path).trim_end_matches(".wasm").to_owned()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn text_of(error: CommandError) -> String {
    let (CommandError::Failure(text) | CommandError::Usage(text)) = error;
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_plugins_are_those_with_that_state() {
        let status = json!({"plugins": [
            {"name": "a", "state": "running"}, {"name": "b", "state": "failed"}, {"state": "running"}, 1,
        ]});
        assert_eq!(running_plugins(&status), BTreeSet::from(["a".to_owned()]));
        assert_eq!(running_plugins(&Value::Null), BTreeSet::new());
    }

    #[cfg(unix)]
    #[test]
    fn a_bundle_that_replaces_a_file_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bundle.tar.gz");
        std::fs::write(&path, "older and longer").expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).expect("changed");
        write_private(&path, b"new").expect("written");
        assert_eq!(std::fs::read(&path).expect("a file"), b"new");
        assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
        assert!(write_private(&folder.path().join("absent/bundle.tar.gz"), b"x").is_err());
    }

    #[test]
    fn many_missing_files_are_counted() {
        let names = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
        assert_eq!(listed(&names(3)), "0, 1, 2");
        assert_eq!(listed(&names(10)), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9");
        assert_eq!(listed(&names(1_000)), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 990 more");
    }
}
