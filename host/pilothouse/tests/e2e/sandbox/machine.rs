//! Files, variables, arguments, input, programs, clocks. That there is no network is tested beside the sandbox itself
//! (`host/plugin/tests/it/outside.rs`), where a guest can be given a component type.

use std::time::SystemTime;

use serde_json::json;

use super::{is_said, sidecar};
use crate::harness::{Host, wat, wat_with};

#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_files_variables_arguments_or_input_and_exiting_ends_the_call_alone() {
    let host = Host::start().await;
    let limits = "limits: {reconcileTimeout: 500ms}\n";
    // YAML has JSON inside: two members, of which the config is one.
    host.sidecar("outside", &format!("{limits}config: {}\n", config(&host)));
    host.drop_in("outside", &wat("outside"));
    host.wait_for_state("outside", "running").await;
    host.server.sandboxed("a", json!({})).await;
    // 08: no such descriptor. The others are counts.
    for line in
        ["prestat 08", "open    08", "unlink  08", "read    00", "environ 00", "args    00", "clock   08"]
    {
        is_said(&host, "outside", line).await;
    }
    is_said(&host, "outside", "exceeded limits.reconcileTimeout of 500ms").await;
    is_said(&host, "outside", "reconcile exited with code 1: a plugin must return, not exit").await;
    assert_eq!(host.get("/healthz").await.0, 200);
}

fn config(host: &Host) -> String {
    let sidecar: serde_json::Value = serde_json::from_str(&sidecar(host, "maps", &json!({}))).expect("JSON");
    sidecar["config"].to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_run_programs_or_set_clocks_is_no_import_of_a_plugin() {
    let host = Host::start().await;
    let module = "(memory (export \"memory\") 1)";
    for (name, import, offered) in [
        ("exec", "(import \"env\" \"system\" (func (param i32) (result i32)))", "env"),
        (
            "fork",
            "(import \"wasi_snapshot_preview1\" \"proc_spawn\" (func (param i32) (result i32)))",
            "proc_spawn",
        ),
        (
            "skew",
            "(import \"wasi:clocks/wall-clock@0.2.6\" \"set\" (func (param i64 i32)))",
            "wasi:clocks/wall-clock",
        ),
    ] {
        host.drop_in(name, &wat_with("done", &[(module, &format!("{import}\n  {module}"))]));
        let plugin = host.wait_for_state(name, "failed").await;
        let error = plugin["error"].as_str().expect("text");
        assert!(error.contains(offered), "{name}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_clocks_it_sees_the_hosts_time_and_how_long_it_runs() {
    let seconds = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let before = seconds();
    let host = Host::start().await;
    host.sidecar("clocks", &sidecar(&host, "maps", &json!({})));
    host.drop_in("clocks", &wat("clocks"));
    host.wait_for_state("clocks", "running").await;
    host.server.sandboxed("a", json!({})).await;
    let seen = async |clock: &str| {
        let line = is_said(&host, "clocks", clock).await;
        line.trim_start_matches(clock).parse::<u64>().expect("a number")
    };
    let (wall, monotonic) = (seen("wall ").await, seen("mono ").await);
    let after = seconds();
    assert!((before..=after).contains(&wall), "{wall} is not between {before} and {after}");
    // Not the machine's, which would tell how long that has been up.
    assert!(
        monotonic <= after - before,
        "{monotonic} s, and the host is not older than {} s",
        after - before
    );
}
