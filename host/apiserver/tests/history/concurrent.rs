//! Writers at the same time, in several threads.

use futures::future::join_all;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use std::sync::Arc;

use crate::api::{Api, core, version};

/// How often two writers meet.
const ROUNDS: usize = 200;
/// How many writers count at the same time.
const COUNTERS: usize = 4;
/// How far each of them counts.
const INCREMENTS: usize = 50;

fn path() -> String {
    core("configmaps/a")
}

async fn start() -> Api {
    let api = Api::new();
    let body = json!({"metadata": {"name": "a"}, "data": {"count": "0"}});
    api.post(&core("configmaps"), &body).await.ok();
    api
}

fn share(api: &Api) -> Api {
    Api { server: api.server.clone() }
}

/// Starts one request in a task for each body, all at the same time. Returns the code of each response.
async fn send_together(api: &Api, method: Method, path: &str, bodies: Vec<Value>) -> Vec<u16> {
    let barrier = Arc::new(Barrier::new(bodies.len()));
    let tasks = bodies.into_iter().map(|body| {
        let (api, barrier, method, path) =
            (share(api), Arc::clone(&barrier), method.clone(), path.to_owned());
        tokio::spawn(async move {
            barrier.wait().await;
            api.send(method, &path, "application/json", body.to_string().into()).await.code
        })
    });
    join_all(tasks).await.into_iter().map(|code| code.expect("no panic")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_of_two_updates_of_the_same_version_succeeds() {
    let api = start().await;
    for round in 0..ROUNDS {
        let read = api.get(&path()).await.ok();
        let update = |writer: usize| {
            let mut body = read.clone();
            body["data"] = json!({"writer": format!("{round}-{writer}")});
            body
        };
        let before = api.server.revision();
        let codes = send_together(&api, Method::PUT, &path(), vec![update(0), update(1)]).await;
        let winner = codes.iter().position(|code| *code == 200).expect("one succeeds");
        assert_eq!(codes[1 - winner], 409, "{codes:?}");
        let after = api.get(&path()).await.ok();
        assert_eq!(after["data"], update(winner)["data"]);
        assert_eq!(version(&after), (before + 1).to_string(), "one version for one success");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_of_two_creations_of_a_name_succeeds() {
    let api = start().await;
    for round in 0..ROUNDS {
        let body = |writer: usize| json!({"metadata": {"name": format!("x{round}")}, "data": {"writer": writer.to_string()}});
        let codes = send_together(&api, Method::POST, &core("configmaps"), vec![body(0), body(1)]).await;
        let winner = codes.iter().position(|code| *code == 201).expect("one succeeds");
        assert_eq!(codes[1 - winner], 409, "{codes:?}");
        let made = api.get(&core(&format!("configmaps/x{round}"))).await.ok();
        assert_eq!(made["data"], body(winner)["data"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_without_a_version_all_take_effect() {
    let api = start().await;
    for round in 0..ROUNDS {
        let bodies: Vec<_> =
            (0..2).map(|writer| json!({"data": {format!("w{writer}"): round.to_string()}})).collect();
        let tasks = bodies.iter().map(|body| {
            let (api, body) = (share(&api), body.clone());
            tokio::spawn(async move { api.merge(&path(), &body).await.ok() })
        });
        for task in join_all(tasks).await {
            task.expect("no panic");
        }
        let data = api.get(&path()).await.ok()["data"].clone();
        assert_eq!((&data["w0"], &data["w1"]), (&json!(round.to_string()), &json!(round.to_string())));
    }
}

/// Increments the counter once: reads it and writes it back, again if another writer was faster.
async fn increment(api: &Api) {
    loop {
        let mut read = api.get(&path()).await.ok();
        let count: usize =
            read["data"]["count"].as_str().and_then(|text| text.parse().ok()).expect("a number");
        read["data"]["count"] = json!((count + 1).to_string());
        let answer = api.put(&path(), &read).await;
        if answer.code == 200 {
            return;
        }
        answer.fails(409, "Conflict");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_increment_of_concurrent_writers_is_lost_and_each_is_one_event_in_order() {
    let api = start().await;
    let mut watch = api.watch(&core(&format!("configmaps?resourceVersion={}", api.server.revision()))).await;
    let counters = (0..COUNTERS).map(|_| {
        let api = share(&api);
        tokio::spawn(async move {
            for _ in 0..INCREMENTS {
                increment(&api).await;
            }
        })
    });
    for counter in join_all(counters).await {
        counter.expect("no panic");
    }
    let mut last = 0;
    for count in 1..=COUNTERS * INCREMENTS {
        let event = watch.next().await.expect("an event");
        assert_eq!(
            (&event["type"], &event["object"]["data"]["count"]),
            (&json!("MODIFIED"), &json!(count.to_string()))
        );
        let revision: u64 = version(&event["object"]).parse().expect("a number");
        assert!(revision > last, "{revision} after {last}");
        last = revision;
    }
    assert_eq!(last, api.server.revision(), "no event is left");
}
