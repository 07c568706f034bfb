//! `pilothouse status`: shows the plugins of a running host.

use std::time::Duration;

use pilothouse_controller::{HostMemoryStatus, LoadProgress, PluginStatus, printable};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::sleep;

use super::remote;
use crate::cli::Status;
use crate::{CommandError, CommandResult, output, summary};

/// How often `--watch` queries the host.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
struct Plugins {
    plugins: Vec<PluginStatus>,
}

pub(crate) async fn run(flags: Status) -> CommandResult {
    if let Some(plugin) = &flags.plugin {
        remote::check_plugin_name(plugin)?;
    }
    if flags.json {
        return print_json(&flags).await;
    }
    let (mut shown, mut is_first) = (Table::default(), true);
    loop {
        let plugins = query(&flags).await?;
        let mut table = Table::of(&plugins);
        if flags.plugin.is_some() {
            table.problems.extend(plugins.iter().filter_map(source));
        }
        if is_first && table.is_empty() {
            output::print_line("no plugins; copy a .wasm file into the host's plugins directory");
        }
        for line in table.lines_since(&shown) {
            if !output::print_line(line) {
                return Ok(());
            }
        }
        if !flags.watch {
            return Ok(());
        }
        (shown, is_first) = (table, false);
        sleep(WATCH_INTERVAL).await;
    }
}

/// Prints the response unchanged, or the part of it that is about one plugin.
async fn print_json(flags: &Status) -> CommandResult {
    let text = remote::get_text(&flags.server.server, "/api/plugins").await?;
    let Some(name) = &flags.plugin else {
        output::print_line(text);
        return Ok(());
    };
    let response: Value = serde_json::from_str(&text).map_err(|error| not_a_host(flags, &error))?;
    let plugin = response["plugins"].as_array().into_iter().flatten().find(|plugin| plugin["name"] == **name);
    output::print_line(format_args!("{:#}", plugin.ok_or_else(|| unknown_plugin(name))?));
    Ok(())
}

/// Returns the status of the plugins that the flags select.
async fn query(flags: &Status) -> Result<Vec<PluginStatus>, CommandError> {
    let text = remote::get_text(&flags.server.server, "/api/plugins").await?;
    let Plugins { mut plugins } = serde_json::from_str(&text).map_err(|error| not_a_host(flags, &error))?;
    if let Some(name) = &flags.plugin {
        plugins.retain(|plugin| plugin.name == *name);
        if plugins.is_empty() {
            return Err(unknown_plugin(name));
        }
    }
    Ok(plugins)
}

fn not_a_host(flags: &Status, error: &serde_json::Error) -> CommandError {
    let server = &flags.server.server;
    CommandError::Failure(format!("{server}: the response is not that of a Pilothouse host: {error}"))
}

fn unknown_plugin(name: &str) -> CommandError {
    CommandError::Failure(format!("the host has no plugin {name:?}; `pilothouse status` lists its plugins"))
}

const HEADER: [&str; 9] =
    ["NAME", "VERSION", "STATE", "GENERATION", "QUEUE", "BACKOFF", "RECONCILES", "ERRORS", "HOST-MEMORY"];

/// What is shown about some plugins: a row for each, and below their problems, canaries and sources, and the progress while the host loads plugins.
#[derive(Debug, Default)]
struct Table {
    rows: Vec<Vec<String>>,
    problems: Vec<String>,
}

impl Table {
    fn of(plugins: &[PluginStatus]) -> Self {
        let problems = plugins.iter().flat_map(|plugin| {
            let name = printable(&plugin.name).to_string();
            let problems = summary::problems(plugin).into_iter();
            problems.map(move |problem| format!("{name}: {}", printable(&problem)))
        });
        let progress = Some(LoadProgress::of(plugins)).filter(|progress| !progress.is_complete());
        let progress = progress.map(|progress| progress.to_string());
        let problems = problems.chain(plugins.iter().filter_map(canary)).chain(progress).collect();
        Self { rows: plugins.iter().map(row).collect(), problems }
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the lines that differ from those of the table that is shown. The header comes only at first.
    fn lines_since(&self, shown: &Self) -> Vec<String> {
        let header = HEADER.map(str::to_owned).to_vec();
        let rows: Vec<Vec<String>> = std::iter::once(header).chain(self.rows.iter().cloned()).collect();
        let mut aligned = output::align(&rows).into_iter();
        let header = aligned.next().filter(|_| shown.is_empty() && !self.is_empty());
        let rows = self.rows.iter().zip(aligned).filter(|(row, _)| !shown.rows.contains(row));
        let problems = self.problems.iter().filter(|problem| !shown.problems.contains(problem));
        header.into_iter().chain(rows.map(|(_, line)| line)).chain(problems.cloned()).collect()
    }
}

fn row(plugin: &PluginStatus) -> Vec<String> {
    let reconciles = plugin.counters.get("reconciles").copied().unwrap_or_default();
    vec![
        printable(&plugin.name).to_string(),
        if plugin.version.is_empty() { "-".to_owned() } else { printable(&plugin.version).to_string() },
        summary::state(plugin).to_owned(),
        plugin.generation.to_string(),
        plugin.queue_depth.to_string(),
        plugin.keys_in_backoff.to_string(),
        reconciles.to_string(),
        summary::errors(plugin).to_string(),
        host_memory(&plugin.host_memory),
    ]
}

/// Returns a line about what a plugin from a registry is made of; `None` for others.
fn source(plugin: &PluginStatus) -> Option<String> {
    let source = plugin.source.as_ref()?;
    Some(format!("{}: it comes from {}", printable(&plugin.name), printable(&source.to_string())))
}

/// Returns a line about the plugin's canary; `None` without one.
fn canary(plugin: &PluginStatus) -> Option<String> {
    let canary = plugin.rollout.as_ref()?.canary.as_ref()?;
    let keys = summary::canary_keys(canary);
    let (name, version, keys) = (printable(&plugin.name), printable(&canary.version), printable(&keys));
    let digest = canary.digest.get(..12).unwrap_or_default();
    Some(format!("{name}: its canary {version} ({digest}) reconciles the keys of {keys}"))
}

/// Returns the memory that the host holds for a plugin and its limit, such as `3/64Mi`. Returns `-` for an older host, which does not
/// report it.
fn host_memory(memory: &HostMemoryStatus) -> String {
    match memory.limit {
        0 => "-".to_owned(),
        limit => format!("{}/{}Mi", memory.used.div_ceil(1 << 20), limit >> 20),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plugin(name: &str, members: &Value) -> PluginStatus {
        let mut plugin = json!({
            "name": name, "version": "1", "state": "running", "generation": 1, "error": "", "digest": "", "queueDepth": 0,
            "counters": {"reconciles": 5, "errors": 2},
        });
        plugin.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
        serde_json::from_value(plugin).expect("a status")
    }

    #[test]
    fn host_memory_is_shown_in_whole_mebibytes() {
        let memory =
            |used, limit| host_memory(&HostMemoryStatus { used, limit, ..HostMemoryStatus::default() });
        assert_eq!(memory(0, 64 << 20), "0/64Mi");
        assert_eq!(memory(1, 64 << 20), "1/64Mi");
        assert_eq!(memory(70 << 20, 64 << 20), "70/64Mi");
        assert_eq!(memory(0, 0), "-");
    }

    #[test]
    fn control_characters_in_plugin_text_are_escaped() {
        let plugin = plugin("p", &json!({"version": "1\u{1b}[2J\n\u{9b}\u{202e}"}));
        assert_eq!(row(&plugin)[1], r"1\u{1b}[2J\n\u{9b}\u{202e}");
    }

    #[test]
    fn the_source_of_a_plugin_is_one_line() {
        let origin = |digest: &str| json!({"source": {"image": "r.example/p:1", "digest": digest, "decision": "signed by ci"}});
        let line = |digest: &str| source(&plugin("p", &origin(digest))).expect("a line");
        assert_eq!(line("sha256:1"), "p: it comes from r.example/p:1 (sha256:1): signed by ci");
        assert_eq!(line(""), "p: it comes from r.example/p:1, of which the host has no version yet");
        assert_eq!(source(&plugin("p", &json!({}))), None);
    }

    #[test]
    fn a_failing_plugin_is_distinguished_from_one_that_works() {
        let last = json!({"time": "T", "watch": "foos", "key": "shop/a", "message": "401"});
        let failing = json!({"failing": true, "consecutiveErrors": 3, "keysInBackoff": 2, "lastError": last});
        let lines =
            Table::of(&[plugin("bad", &failing), plugin("good", &json!({}))]).lines_since(&Table::default());
        let expected = [
            "NAME   VERSION   STATE     GENERATION   QUEUE   BACKOFF   RECONCILES   ERRORS   HOST-MEMORY",
            "bad    1         failing   1            0       2         5            2        -",
            "good   1         running   1            0       0         5            2        -",
            "bad: 3 errors in a row, 2 keys in backoff; the last error at foos shop/a, T: 401",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_canary_is_shown_with_its_keys() {
        let lines = |members: &Value| {
            let mut canary =
                json!({"digest": "ab".repeat(32), "version": "2.0", "reconciles": 5, "errors": 0});
            canary.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
            let rollout = json!({"rollout": {"versions": [], "canary": canary}});
            Table::of(&[plugin("a", &rollout)]).lines_since(&Table::default())
        };
        let percent = lines(&json!({"percent": 10}));
        let expected = "a: its canary 2.0 (abababababab) reconciles the keys of 10 % of the namespaces";
        assert_eq!(percent.last().map(String::as_str), Some(expected));
        let namespaces = lines(&json!({"namespaces": ["shop", "test"]}));
        assert!(namespaces.last().expect("a line").ends_with("the namespaces shop, test"), "{namespaces:?}");
    }

    #[test]
    fn the_progress_is_shown_while_plugins_are_loaded() {
        let compiling = plugin("b", &json!({"state": "compiling"}));
        let first = Table::of(&[plugin("a", &json!({})), compiling]);
        let lines = first.lines_since(&Table::default());
        assert_eq!(lines.last().map(String::as_str), Some("plugins loaded: 1 of 2"));
        let loaded = Table::of(&[plugin("a", &json!({})), plugin("b", &json!({}))]);
        assert!(!loaded.lines_since(&first).iter().any(|line| line.contains("loaded")));
    }

    #[test]
    fn a_watch_prints_only_what_changed() {
        let first = Table::of(&[plugin("a", &json!({})), plugin("b", &json!({}))]);
        assert_eq!(first.lines_since(&first), Vec::<String>::new());
        let second = Table::of(&[plugin("a", &json!({})), plugin("b", &json!({"error": "it is torn"}))]);
        assert_eq!(second.lines_since(&first), ["b: it is torn"]);
        let third = Table::of(&[plugin("a", &json!({"generation": 2})), plugin("b", &json!({}))]);
        let changed = third.lines_since(&second);
        assert!(changed.len() == 1 && changed[0].starts_with("a "), "{changed:?}");
    }
}
