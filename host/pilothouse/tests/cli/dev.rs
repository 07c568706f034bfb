//! `pilothouse dev --build`.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::binary::{assert_fails, names, pilothouse, wait_for};
use crate::project;

/// A running `pilothouse dev --build project`. Its output goes to the files `stdout` and `stderr` in the folder.
struct Dev<'a> {
    child: Child,
    folder: &'a Path,
}

impl Drop for Dev<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'a> Dev<'a> {
    fn start(folder: &'a Path) -> Self {
        let file = |name: &str| fs::File::create(folder.join(name)).expect("a file");
        let child = pilothouse(folder)
            .args(["dev", "--build", "project", "--listen", "127.0.0.1:0", "--log-format", "json"])
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .stdin(Stdio::null())
            .spawn()
            .expect("it starts");
        Self { child, folder }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("stderr")).unwrap_or_default()
    }

    async fn wait_for_log(&self, text: &str) {
        wait_for(text, || self.log(), || async { self.log().contains(text).then_some(()) }).await;
    }

    /// Returns the plugin from `/api/plugins`, or null if there is none yet.
    async fn plugin(&self) -> Value {
        let stdout = fs::read_to_string(self.folder.join("stdout")).unwrap_or_default();
        let Some(url) = stdout.lines().find_map(|line| line.strip_prefix("status      ")) else {
            return Value::Null;
        };
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
        let uri = format!("{url}api/plugins").parse().expect("a URL");
        let Ok(answer) = client.get(uri).await else { return Value::Null };
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        let answer: Value = serde_json::from_slice(&body).expect("JSON");
        answer["plugins"][0].clone()
    }

    async fn wait_for_running(&self, version: &str) -> Value {
        let condition = format!("version {version}");
        wait_for(
            &condition,
            || self.log(),
            || async {
                let plugin = self.plugin().await;
                (plugin["version"] == version && plugin["state"] == "running").then_some(plugin)
            },
        )
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_save_is_built_and_loaded_and_a_failed_build_keeps_the_running_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let project = folder.path().join("project");
    project::write(&project, "saved", &project::source("1"));
    let mut dev = Dev::start(folder.path());
    dev.wait_for_running("1").await;
    assert_eq!(names(&folder.path().join("plugins")), ["saved.wasm"]);
    dev.wait_for_log("described as 1").await;

    fs::write(project.join("src/lib.rs"), "fn broken( {").expect("written");
    dev.wait_for_log("build failed: ").await;
    dev.wait_for_log("error: this file contains an unclosed delimiter").await;
    let plugin = dev.plugin().await;
    assert_eq!(
        (&plugin["version"], &plugin["generation"], &plugin["error"]),
        (&"1".into(), &1.into(), &"".into())
    );

    fs::write(project.join("src/lib.rs"), project::source("2")).expect("written");
    let plugin = dev.wait_for_running("2").await;
    assert_eq!(plugin["generation"], 2);
    dev.wait_for_log("described as 2").await;

    assert!(Command::new("kill").arg(dev.child.id().to_string()).status().expect("kill runs").success());
    assert!(dev.child.wait().expect("it ends").success());
    assert_eq!(names(&folder.path().join("plugins")), ["saved.wasm"], "no temporary file is left");
}

#[test]
fn a_folder_without_a_project_is_a_usage_error() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_fails(folder.path(), &["dev", "--build", "."], 2, &["no Cargo.toml", "pilothouse new"]);
}
