//! Measures the memory that a stuck subscriber costs. It compares resident memory before and after a million updates, a million recreations
//! of one name, and a million creations and deletions of distinct names; each with a healthy subscriber alone and with a stuck one beside it.
//!
//! `cargo bench -p pilothouse-bench --bench stuck` prints a table. Each line is measured in its own process, so that no line includes the
//! memory of another.

use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use pilothouse_bench::{pod_json, pods};
use pilothouse_informer::{
    ByteStream, Failure, InformerKey, InformerOptions, InformerRegistry, ListParams, ListWatch,
    SubscribeOptions, Subscription, WatchParams,
};
use tokio::sync::Notify;

const OBJECTS: usize = 1_000;
const STEPS: usize = 1_000_000;
const STEPS_PER_CHUNK: usize = 5;
const SCENARIOS: [&str; 3] = ["updates", "one name", "distinct names"];

/// A server that lists the objects, and then sends the events of a scenario as fast as they are read.
struct ScenarioServer {
    scenario: String,
    begin: Arc<Notify>,
}

/// A Pod whose name, UID and version are filled in for each event. Generating each Pod would take longer than reading it.
struct Template(String);

impl Template {
    fn new() -> Self {
        Self(pod_json(7_777_777, 8_888_888))
    }

    fn pod(&self, name: usize, uid: usize, version: usize) -> String {
        let pod = self.0.replace("web-7777777", &format!("web-{name}"));
        pod.replace("000007777777", &format!("{uid:012}")).replace("8888888", &version.to_string())
    }

    fn event(&self, kind: &str, name: usize, uid: usize, version: usize) -> String {
        format!("{{\"type\":\"{kind}\",\"object\":{}}}\n", self.pod(name, uid, version))
    }

    fn step(&self, scenario: &str, step: usize) -> String {
        let version = 2 + 2 * step;
        match scenario {
            "updates" => self.event("MODIFIED", step % OBJECTS, step % OBJECTS, version),
            "one name" => {
                let uid = |incarnation: usize| if incarnation == 0 { 0 } else { OBJECTS + incarnation };
                self.event("DELETED", 0, uid(step), version)
                    + &self.event("ADDED", 0, uid(step + 1), version + 1)
            }
            _ => {
                let number = OBJECTS + step;
                self.event("ADDED", number, number, version)
                    + &self.event("DELETED", number, number, version + 1)
            }
        }
    }
}

/// Returns the number of events of a scenario.
fn events(scenario: &str) -> usize {
    if scenario == "updates" { STEPS } else { 2 * STEPS }
}

#[async_trait]
impl ListWatch for ScenarioServer {
    async fn list(&self, _: &ListParams) -> Result<ByteStream, Failure> {
        let template = Template::new();
        let items: Vec<_> = (0..OBJECTS).map(|number| template.pod(number, number, 1)).collect();
        let list = format!(r#"{{"metadata":{{"resourceVersion":"1"}},"items":[{}]}}"#, items.join(","));
        Ok(futures::stream::iter([Ok(Bytes::from(list))]).boxed())
    }

    async fn watch(&self, _: &WatchParams) -> Result<ByteStream, Failure> {
        let (scenario, begin) = (self.scenario.clone(), Arc::clone(&self.begin));
        let beginning = futures::stream::once(async move {
            begin.notified().await;
            Ok(Bytes::new())
        });
        let template = Template::new();
        let chunks = (0..STEPS).step_by(STEPS_PER_CHUNK).map(move |first| {
            Ok(Bytes::from(
                (first..first + STEPS_PER_CHUNK).map(|at| template.step(&scenario, at)).collect::<String>(),
            ))
        });
        Ok(beginning.chain(futures::stream::iter(chunks)).chain(futures::stream::pending()).boxed())
    }
}

/// Returns the resident memory of this process in kB.
fn resident_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux's /proc");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

async fn take(subscription: &Subscription, mut count: usize) {
    while count > 0 {
        count -= subscription.next_batch().await.expect("the informer runs").len();
    }
}

/// Runs a scenario with a healthy subscriber and, if `with_stuck`, one that stops in the middle of the first list.
async fn run(scenario: String, with_stuck: bool) {
    let begin = Arc::new(Notify::new());
    let factory = {
        let (scenario, begin) = (scenario.clone(), Arc::clone(&begin));
        move |_: &InformerKey| -> Arc<dyn ListWatch> {
            Arc::new(ScenarioServer { scenario: scenario.clone(), begin: Arc::clone(&begin) })
        }
    };
    let options = InformerOptions::default().with_streaming_list(false).with_seed(1);
    let registry = InformerRegistry::new(factory, options);
    let healthy = registry.subscribe(pods(), SubscribeOptions::default()).expect("a runtime");
    let stuck = with_stuck.then(|| {
        let options = SubscribeOptions::default().with_batch(OBJECTS / 3);
        registry.subscribe(pods(), options).expect("a runtime")
    });
    take(&healthy, OBJECTS).await;
    if let Some(stuck) = &stuck {
        stuck.next_batch().await.expect("the informer runs");
    }
    let before = resident_memory();
    begin.notify_one();
    take(&healthy, events(&scenario)).await;
    let backlog: usize =
        registry.informers()[0].subscribers.iter().map(|subscriber| subscriber.backlog).sum();
    let after = resident_memory();
    let subscribers = if with_stuck { "with a stuck one" } else { "healthy alone" };
    println!("{scenario:>14} | {subscribers:>16} | {before:>10} | {after:>10} | {backlog:>7}");
}

fn main() {
    if let Ok(scenario) = std::env::var("SCENARIO") {
        let with_stuck = std::env::var_os("STUCK").is_some();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        // In a task, as real subscribers run, so that it takes turns with the informer.
        return runtime.block_on(async { tokio::spawn(run(scenario, with_stuck)).await.expect("no panic") });
    }
    println!("      scenario |      subscribers | before, kB |  after, kB | backlog");
    for scenario in SCENARIOS {
        for with_stuck in [false, true] {
            let mut child = Command::new(std::env::current_exe().expect("this program"));
            child.env("SCENARIO", scenario);
            if with_stuck {
                child.env("STUCK", "1");
            }
            assert!(child.status().expect("this program again").success());
        }
    }
}
