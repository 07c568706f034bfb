//! The specification of the SDKs' fake clusters holds for a real API server, too.

use std::process::Command;

use crate::harness::ApiServer;

const CHECK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest-sdk/testing/check_server.py");

#[test]
fn the_cases_of_the_fake_cluster_hold_for_the_embedded_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = ApiServer::start("127.0.0.1:0", &folder.path().join("kubeconfig"), &["--insecure-http"]);
    let url = format!("http://{}", server.address);
    let output = Command::new("python3").args([CHECK, &url]).output().expect("python3 is installed");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("cases hold"), "{printed}");
}
