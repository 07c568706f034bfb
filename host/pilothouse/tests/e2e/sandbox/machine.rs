//! Access to files, environment variables, arguments, standard input, programs and clocks. The tests of the sandbox itself
//! (`host/plugin/tests/it/isolation.rs`) cover the network, because they can give a guest a component type.

use std::time::SystemTime;

use serde_json::json;

use super::{sidecar, wait_for_log};
use crate::harness::{Host, wat, wat_with};

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_has_no_files_environment_arguments_or_input_and_exit_only_ends_the_call() {
    let host = Host::start().await;
    let limits = "limits: {reconcileTimeout: 500ms}\n";
    // YAML with two fields. The value of `config` is JSON, which is valid YAML.
    host.write_sidecar("outside", &format!("{limits}config: {}\n", config(&host)));
    host.install_plugin("outside", &wat("outside"));
    host.wait_for_state("outside", "running").await;
    host.server.create_sandboxed("a", json!({})).await;
    // 08 is the error "bad file descriptor"; the others are counts.
    for line in
        ["prestat 08", "open    08", "unlink  08", "read    00", "environ 00", "args    00", "clock   08"]
    {
        wait_for_log(&host, "outside", line).await;
    }
    wait_for_log(&host, "outside", "exceeded limits.reconcileTimeout of 500ms").await;
    wait_for_log(&host, "outside", "reconcile exited with code 1: a plugin must return, not exit").await;
    assert_eq!(host.get("/healthz").await.0, 200);
}

fn config(host: &Host) -> String {
    let sidecar: serde_json::Value = serde_json::from_str(&sidecar(host, "maps", &json!({}))).expect("JSON");
    sidecar["config"].to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_that_run_programs_or_set_clocks_are_rejected() {
    let host = Host::start().await;
    let module = "(memory (export \"memory\") 1)";
    for (name, import, expected) in [
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
        host.install_plugin(name, &wat_with("done", &[(module, &format!("{import}\n  {module}"))]));
        let plugin = host.wait_for_state(name, "failed").await;
        let error = plugin["error"].as_str().expect("text");
        assert!(error.contains(expected), "{name}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "the host in another process has the system clock")]
async fn a_guest_sees_wall_clock_time_and_its_own_uptime() {
    let seconds = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let before = seconds();
    let host = Host::start().await;
    host.write_sidecar("clocks", &sidecar(&host, "maps", &json!({})));
    host.install_plugin("clocks", &wat("clocks"));
    host.wait_for_state("clocks", "running").await;
    host.server.create_sandboxed("a", json!({})).await;
    let seen = async |clock: &str| {
        let line = wait_for_log(&host, "clocks", clock).await;
        line.trim_start_matches(clock).parse::<u64>().expect("a number")
    };
    let (wall, monotonic) = (seen("wall ").await, seen("mono ").await);
    let after = seconds();
    assert!((before..=after).contains(&wall), "{wall} is not between {before} and {after}");
    // The monotonic clock must not be the machine's, which would reveal its uptime.
    assert!(
        monotonic <= after - before,
        "{monotonic} s, and the host is not older than {} s",
        after - before
    );
}
