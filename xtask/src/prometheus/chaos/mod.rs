//! The chaos run: makes every kind of trouble on purpose, and waits until each alert of the chart has fired.
//!
//! [`table`] says what provokes each alert. The rules are those of the chart with durations of which a minute is a second ([`shorten`]);
//! expressions and thresholds are the same. Prometheus scrapes two hosts: one with bad [`plugins`], whose plugins come from a folder and from a
//! [`registry`], and one that does not reach its API server. Then the API server ends, and then the hosts.

mod host;
mod plugins;
mod registry;
mod table;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use self::host::Host;
use self::plugins::{Plugins, RUNNING};
use self::registry::Registry;
use self::table::{EXCEPTIONS, PROVOCATIONS, Provocation, Trouble};
use super::panels;
use super::server::{Prometheus, Target};
use super::shorten::shorten;
use crate::chart::Server;
use crate::demo::Api;
use crate::running_host::HostFiles;
use crate::{loopback, monitoring};

/// The label `host` of the host with the bad plugins, and of the one that does not reach its API server.
const LOADED: &str = "loaded";
const STARTING: &str = "starting";
/// How long the alerts of one trouble may take to fire. The slowest needs three tries of a registry, or 25 s of a call.
const TIMEOUT: Duration = Duration::from_secs(300);
/// How long the plugins may take to load; a debug build compiles slowly on a busy machine.
const LOAD_TIMEOUT: Duration = Duration::from_secs(600);
/// How many polls pass between two versions of the broken file.
const POLLS_PER_FILE: u64 = 20;

/// Returns whether bubblewrap is installed, which gives the host a memory limit of its own.
pub(super) fn is_possible() -> bool {
    Command::new("bwrap").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Runs the host `binary` into trouble. `conformance` is the file of that example, `folder` one for this run.
///
/// # Errors
/// Errors if an alert has no provocation, or does not fire in time.
pub(super) fn run(root: &Path, binary: &Path, conformance: &Path, folder: &Path) -> Result<()> {
    let alerts = root.join(monitoring::ALERTS);
    let alerts = fs::read_to_string(&alerts).with_context(|| format!("read {}", alerts.display()))?;
    let problems = table::problems(&alerts);
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    let rules = write(folder, "alerts.yaml", &shorten(&alerts)?)?;

    let server = Server::start_with(binary, folder, &[OsStr::new("--enable-faults")])?;
    let api = Api::of_kubeconfig(server.kubeconfig())?;
    for verb in ["list", "watch"] {
        let fault =
            json!({"verb": verb, "group": "", "resource": "secrets", "code": 500, "count": 1_000_000});
        api.post("/debug/faults", &fault)?;
    }
    let plugins = Plugins::install(root, &folder.join("plugins"), conformance)?;
    let registry = Registry::start()?;
    let loaded = start_loaded(binary, folder, server.kubeconfig(), &registry)?;
    let starting = start_starting(binary, folder)?;
    let targets = [
        Target { status: loaded.status(), host: LOADED },
        Target { status: starting.status(), host: STARTING },
    ];
    let prometheus = Prometheus::start(folder, &rules, &targets)?;

    let run = Run::start(&prometheus);
    wait_for_plugins(&prometheus)?;
    plugins.provoke(&api)?;
    run.wait(Trouble::BadPlugins, |poll| {
        if poll % POLLS_PER_FILE == 0 {
            plugins.break_again(poll)?;
        }
        limit_memory(&prometheus, &loaded)
    })?;
    panels::wait_for_delivery(&prometheus)?;
    drop(server);
    run.wait(Trouble::ApiServerEnds, |_| Ok(()))?;
    drop((loaded, starting));
    run.wait(Trouble::HostsEnd, |_| Ok(()))?;
    run.print();
    Ok(())
}

/// Starts the host with the bad plugins, and with plugins of a registry: one was not pushed, and one has no signatures. The host asks for both at
/// each poll, however long the other plugins take to load; it would ask a registry that does not exist more and more rarely.
fn start_loaded(binary: &Path, folder: &Path, kubeconfig: &Path, registry: &Registry) -> Result<Host> {
    let poll = "10s";
    let policy = write(folder, "policy.yaml", &registry.policy())?;
    let config = json!({
        "plugins": [
            {"name": "absent", "image": format!("{}/plugins/absent:1", registry.address()), "poll": poll},
            {"name": "unverified", "image": registry.image(), "poll": poll},
        ],
        "registries": {
            "cacheDir": folder.join("oci"), "policy": policy, "plainHttp": [registry.address()],
        },
    });
    // JSON is YAML.
    let config = write(folder, "host.yaml", &config.to_string())?;
    let (plugins, folder) = (folder.join("plugins"), folder.join(LOADED));
    Host::start(&HostFiles { binary, folder: &folder, kubeconfig, plugins: &plugins, config: &config })
}

/// Starts a host without plugins, whose API server does not exist.
fn start_starting(binary: &Path, folder: &Path) -> Result<Host> {
    let kubeconfig = write(folder, "no-server", &kubeconfig_of(&loopback::free_address()?))?;
    let (plugins, config) = (folder.join("no-plugins"), write(folder, "starting.yaml", "{}")?);
    fs::create_dir_all(&plugins).with_context(|| format!("create {}", plugins.display()))?;
    let folder = folder.join(STARTING);
    Host::start(&HostFiles {
        binary,
        folder: &folder,
        kubeconfig: &kubeconfig,
        plugins: &plugins,
        config: &config,
    })
}

fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let file = folder.join(name);
    fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    Ok(file)
}

/// Waits until Prometheus knows that the plugins run which objects will provoke, so that it has seen their counters at 0.
fn wait_for_plugins(prometheus: &Prometheus) -> Result<()> {
    let waited = prometheus.api().wait_up_to(LOAD_TIMEOUT, "the plugins to run", |_| {
        let running = prometheus.query("pilothouse_plugin_state{state=\"running\"} == 1");
        let is_running = |name: &&str| running.iter().any(|series| series["metric"]["controller"] == **name);
        Ok(RUNNING.iter().all(is_running).then_some(()))
    });
    waited.with_context(|| format!("the log of Prometheus is {}", prometheus.log().display()))
}

/// Keeps the memory limit of the host a little above of what it uses.
fn limit_memory(prometheus: &Prometheus, host: &Host) -> Result<()> {
    let number = |metric: &str| {
        let series = prometheus.query(&format!("{metric}{{host=\"{LOADED}\"}}"));
        series.first().and_then(|series| series["value"][1].as_str()?.parse::<f64>().ok())
    };
    let used = number("process_resident_memory_bytes");
    let Some((used, limit)) = used.zip(number("pilothouse_memory_limit_bytes")) else { return Ok(()) };
    if (0.88..0.96).contains(&(used / limit)) {
        return Ok(());
    }
    host.limit_memory((used * 1.1) as u64)
}

/// Returns a kubeconfig for an API server without TLS.
fn kubeconfig_of(address: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "gone", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "gone", "context": {"cluster": "gone", "user": "nobody"}}],
        "current-context": "gone",
    })
    .to_string()
}

/// The alerts that have fired.
struct Run<'a> {
    prometheus: &'a Prometheus,
    /// When the current trouble began; the first one does so with the hosts.
    begun: Cell<Instant>,
    /// After how many seconds of its trouble each alert has fired.
    fired: RefCell<BTreeMap<&'static str, u64>>,
}

impl<'a> Run<'a> {
    fn start(prometheus: &'a Prometheus) -> Self {
        Self { prometheus, begun: Cell::new(now()), fired: RefCell::default() }
    }

    /// Waits until all alerts of a trouble have fired. Calls `continue_trouble` meanwhile with the number of the poll.
    fn wait(&self, trouble: Trouble, continue_trouble: impl Fn(u64) -> Result<()>) -> Result<()> {
        let polls = Cell::new(0);
        let waited = self.prometheus.api().wait_up_to(TIMEOUT, "the alerts to fire", |_| {
            continue_trouble(polls.replace(polls.get() + 1))?;
            let firing = self.prometheus.query("count_over_time(ALERTS{alertstate=\"firing\"}[1h])");
            let is_of_trouble = |provocation: &&Provocation| provocation.trouble == trouble;
            let has_fired_before = |alert| self.fired.borrow().contains_key(alert);
            let all: Vec<_> = PROVOCATIONS.iter().filter(is_of_trouble).collect();
            let missing = all.iter().filter(|provocation| !has_fired_before(provocation.alert));
            let fired: Vec<_> = missing.filter(|provocation| has_fired(provocation, &firing)).collect();
            for provocation in fired {
                let after = self.begun.get().elapsed().as_secs();
                println!("chaos: {} has fired after {after} s", provocation.alert);
                self.fired.borrow_mut().insert(provocation.alert, after);
            }
            Ok(all.iter().all(|provocation| has_fired_before(provocation.alert)).then_some(()))
        });
        self.begun.set(now());
        let Err(error) = waited else { return Ok(()) };
        self.print();
        bail!("{error}: see the table; the log of Prometheus is {}", self.prometheus.log().display())
    }

    fn print(&self) {
        println!("{}", report(&self.fired.borrow()));
    }
}

/// Returns whether the series of fired alerts have one with the label of a provocation.
fn has_fired(provocation: &Provocation, fired: &[Value]) -> bool {
    let (name, value) = provocation.label;
    fired
        .iter()
        .map(|series| &series["metric"])
        .any(|labels| labels["alertname"] == provocation.alert && (name.is_empty() || labels[name] == value))
}

/// Returns the table of all alerts.
fn report(fired: &BTreeMap<&'static str, u64>) -> String {
    let mut text = format!("{:30} | {:11} | by\n", "alert", "fired after");
    for Provocation { alert, label: (name, value), by, .. } in &PROVOCATIONS {
        let after = fired.get(alert).map_or_else(|| "NOT FIRED".to_owned(), |seconds| format!("{seconds} s"));
        let label = if name.is_empty() { String::new() } else { format!(" ({name}=\"{value}\")") };
        text.push_str(&format!("{alert:30} | {after:11} | {by}{label}\n"));
    }
    for (alert, reason) in EXCEPTIONS {
        text.push_str(&format!("{alert:30} | {:11} | {reason}\n", "not tried"));
    }
    text
}

#[expect(clippy::disallowed_methods, reason = "a run of real processes takes real time")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_of_another_cause_does_not_count() {
        let provocation = PROVOCATIONS.iter().find(|provocation| provocation.label.1 == "trapping");
        let provocation = provocation.expect("a provocation");
        let series =
            |alert: &str, controller: &str| json!({"metric": {"alertname": alert, "controller": controller}});
        assert!(has_fired(provocation, &[series("Other", "a"), series(provocation.alert, "trapping")]));
        assert!(!has_fired(provocation, &[series("Other", "trapping"), series(provocation.alert, "other")]));
        assert!(!has_fired(provocation, &[]));
    }

    #[test]
    fn the_table_shows_what_has_not_fired() {
        let text = report(&BTreeMap::from([("PilothouseDown", 7)]));
        assert_eq!(text.matches("NOT FIRED").count(), PROVOCATIONS.len() - 1);
        assert!(text.contains("PilothouseDown                 | 7 s         | all hosts end\n"), "{text}");
        assert!(text.contains("PilothouseTaskPanicked         | not tried   | it shows"), "{text}");
    }
}
