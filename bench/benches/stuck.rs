//! What a stuck subscriber costs in memory: resident memory before and after a million updates, and a million creations and
//! deletions of one name and of distinct names, with a healthy subscriber alone and with a stuck one beside it.
//!
//! `cargo bench -p pilothouse-bench --bench stuck` prints a table. Each line is a process of its own, so that no line has
//! the memory of another.

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
const STORIES: [&str; 3] = ["updates", "one name", "distinct names"];

/// Lists the objects, then tells its story as fast as it is read.
struct Teller {
    story: String,
    begin: Arc<Notify>,
}

/// The bench's pod with its name, UID and version to be filled in: to write each anew would take longer than to read it.
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

    fn step(&self, story: &str, step: usize) -> String {
        let version = 2 + 2 * step;
        match story {
            "updates" => self.event("MODIFIED", step % OBJECTS, step % OBJECTS, version),
            "one name" => {
                let uid = |life: usize| if life == 0 { 0 } else { OBJECTS + life };
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

/// How many events a story has.
fn events(story: &str) -> usize {
    if story == "updates" { STEPS } else { 2 * STEPS }
}

#[async_trait]
impl ListWatch for Teller {
    async fn list(&self, _: &ListParams) -> Result<ByteStream, Failure> {
        let template = Template::new();
        let items: Vec<_> = (0..OBJECTS).map(|number| template.pod(number, number, 1)).collect();
        let list = format!(r#"{{"metadata":{{"resourceVersion":"1"}},"items":[{}]}}"#, items.join(","));
        Ok(futures::stream::iter([Ok(Bytes::from(list))]).boxed())
    }

    async fn watch(&self, _: &WatchParams) -> Result<ByteStream, Failure> {
        let (story, begin) = (self.story.clone(), Arc::clone(&self.begin));
        let beginning = futures::stream::once(async move {
            begin.notified().await;
            Ok(Bytes::new())
        });
        let template = Template::new();
        let chunks = (0..STEPS).step_by(STEPS_PER_CHUNK).map(move |first| {
            Ok(Bytes::from(
                (first..first + STEPS_PER_CHUNK).map(|at| template.step(&story, at)).collect::<String>(),
            ))
        });
        Ok(beginning.chain(futures::stream::iter(chunks)).chain(futures::stream::pending()).boxed())
    }
}

/// Kilobytes.
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

/// Tells a story to a healthy subscriber, and to a stuck one that took a part of the first list.
async fn tell(story: String, with_stuck: bool) {
    let begin = Arc::new(Notify::new());
    let factory = {
        let (story, begin) = (story.clone(), Arc::clone(&begin));
        move |_: &InformerKey| -> Arc<dyn ListWatch> {
            Arc::new(Teller { story: story.clone(), begin: Arc::clone(&begin) })
        }
    };
    let options = InformerOptions { streaming_list: false, seed: Some(1), ..InformerOptions::default() };
    let registry = InformerRegistry::new(factory, options);
    let healthy = registry.subscribe(pods(), SubscribeOptions::default()).expect("a runtime");
    let stuck = with_stuck.then(|| {
        let options = SubscribeOptions { batch: OBJECTS / 3, ..SubscribeOptions::default() };
        registry.subscribe(pods(), options).expect("a runtime")
    });
    take(&healthy, OBJECTS).await;
    if let Some(stuck) = &stuck {
        stuck.next_batch().await.expect("the informer runs");
    }
    let before = resident_memory();
    begin.notify_one();
    take(&healthy, events(&story)).await;
    let waiting: usize =
        registry.informers()[0].subscribers.iter().map(|subscriber| subscriber.backlog).sum();
    let after = resident_memory();
    let who = if with_stuck { "with a stuck one" } else { "healthy alone" };
    println!("{story:>14} | {who:>16} | {before:>10} | {after:>10} | {waiting:>7}");
}

fn main() {
    if let Ok(story) = std::env::var("STORY") {
        let with_stuck = std::env::var_os("STUCK").is_some();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        // In a task, as subscribers are: they take turns with the informer.
        return runtime.block_on(async { tokio::spawn(tell(story, with_stuck)).await.expect("no panic") });
    }
    println!("         story |      subscribers | before, kB |  after, kB | waiting");
    for story in STORIES {
        for with_stuck in [false, true] {
            let mut child = Command::new(std::env::current_exe().expect("this program"));
            child.env("STORY", story);
            if with_stuck {
                child.env("STUCK", "1");
            }
            assert!(child.status().expect("this program again").success());
        }
    }
}
