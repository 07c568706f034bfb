//! `pilothouse envtest`, and the programs in its folder.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::binary::{assert_fails, assert_succeeds, wait_for};
use crate::host::get;

/// A program of the folder that runs. Dropping this kills it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Creates the folder `assets` and returns what is printed: its path.
fn assets(folder: &Path) -> String {
    let printed = assert_succeeds(folder, &["envtest", "assets"]).stdout;
    printed.trim_end().to_owned()
}

#[test]
fn folder_has_the_programs_that_envtest_asks_for_their_flags() {
    let folder = tempfile::tempdir().expect("a folder");
    let assets = assets(folder.path());
    assert_eq!(Path::new(&assets), folder.path().join("assets").canonicalize().expect("it exists"));
    for name in ["kube-apiserver", "etcd"] {
        let output = Command::new(Path::new(&assets).join(name)).arg("--help").output().expect("it runs");
        let help = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{help}");
        // envtest would pass this flag if the help contained it.
        assert!(!help.contains("--insecure-port"), "{help}");
    }
}

#[tokio::test]
async fn etcd_reports_that_it_is_healthy() {
    let folder = tempfile::tempdir().expect("a folder");
    let assets = assets(folder.path());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let child = Command::new(Path::new(&assets).join("etcd"))
        .arg(format!("--listen-client-urls=http://{address}"))
        .args(["--data-dir=unused", "--listen-peer-urls=http://127.0.0.1:0", "--unsafe-no-fsync=true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let _etcd = Running(child);
    let url = format!("http://{address}/health");
    let health = wait_for("an answer of /health", String::new, || get(&url)).await;
    assert_eq!(health.body, r#"{"health":"true","reason":""}"#);
}

#[test]
fn kube_apiserver_without_its_certificate_names_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = Path::new(&assets(folder.path())).join("kube-apiserver");
    let output = Command::new(program)
        .current_dir(folder.path())
        .args(["--cert-dir=none", "--secure-port=0", "--bind-address=127.0.0.1", "--v=1"])
        .output()
        .expect("it runs");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("--tls-cert-file none/apiserver.crt") && text.contains("--v=1"), "{text}");
}

#[test]
fn file_in_place_of_a_link_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("assets")).expect("created");
    std::fs::write(folder.path().join("assets/etcd"), "a program").expect("written");
    assert_fails(folder.path(), &["envtest", "assets"], 2, &["assets/etcd", "exists and is no link"]);
}
