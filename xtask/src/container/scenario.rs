//! What the plugins do in the container, so that their permissions are used.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::sandbox::Container;
use super::scripts::{results, scripts};
use crate::demo::Api;

const FOO: &str = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos/example-foo";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/example-foo";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces";

/// A scenario, with the administrator's access to the API server.
pub(super) struct Scenario<'a> {
    pub(super) api: &'a Api,
    /// URL of the status port.
    pub(super) status: &'a str,
    /// The namespace of the host.
    pub(super) namespace: &'a str,
    pub(super) manifest: &'a str,
    /// The file of the sample controller in the image.
    pub(super) plugin: &'a Path,
    /// The name of the acceptance plugin.
    pub(super) acceptance: &'static str,
    pub(super) tokens: Tokens,
}

/// Tokens for the status port.
pub(super) struct Tokens {
    /// Of an account that may read metrics.
    pub(super) metrics: String,
    /// Of an account that may read everything.
    pub(super) status: String,
    /// Of an account that may read nothing.
    pub(super) stranger: String,
}

impl Scenario<'_> {
    /// Runs the steps one after the other.
    ///
    /// # Errors
    /// Errors if the host or the plugin does not do what is expected.
    pub(super) fn run(&self, container: &mut Container) -> Result<()> {
        self.wait_until_ready(container)?;
        container.require_seccomp()?;
        println!("container-test: the host is ready, and has a seccomp filter");
        self.reconcile()?;
        self.lose_responses()?;
        self.repeat_events()?;
        self.reload()?;
        self.perform_scripts()?;
        self.read_status()?;
        container.check()
    }

    fn wait_until_ready(&self, container: &mut Container) -> Result<()> {
        let container = std::cell::RefCell::new(container);
        self.api.wait("the host to be ready", |_| {
            container.borrow_mut().check()?;
            Ok((self.status_code("/readyz", None) == Some(200)).then_some(()))
        })
    }

    /// Creates a Foo, deletes its Deployment, and changes both.
    fn reconcile(&self) -> Result<()> {
        let api = self.api;
        // The CRD is served once the plugin has brought it.
        api.wait("the kind Foo", |api| Ok(api.apply(FOO, self.manifest).ok()))?;
        let first = self.deployment("its Deployment", |_| true)?;
        api.delete(DEPLOYMENT)?;
        let uid = &first["metadata"]["uid"];
        self.deployment("the Deployment to be created again", |found| found["metadata"]["uid"] != *uid)?;
        api.merge(FOO, &json!({"spec": {"replicas": 2}}))?;
        self.deployment("the Deployment to be scaled", |found| found["spec"]["replicas"] == 2)?;
        api.wait("the status of the Foo", |api| {
            let object = api.get(FOO)?.unwrap_or_default();
            Ok((object["status"]["availableReplicas"] == 2).then_some(()))
        })?;
        println!("container-test: the plugin has reconciled its objects");
        Ok(())
    }

    /// Changes the Foo. Its Deployment and its status are then updated without responses that say so, and the host gets both objects to learn
    /// what became of the writes.
    fn lose_responses(&self) -> Result<()> {
        for (group, resource) in [("apps", "deployments"), ("samplecontroller.k8s.io", "foos")] {
            let fault = json!({
                "verb": "update", "group": group, "resource": resource, "name": "example-foo", "code": 500, "afterwards": true,
            });
            self.api.post("/debug/faults", &fault)?;
        }
        self.api.merge(FOO, &json!({"spec": {"replicas": 3}}))?;
        self.deployment("the Deployment to be scaled", |found| found["spec"]["replicas"] == 3)?;
        self.api.wait("the status of the Foo", |api| {
            let object = api.get(FOO)?.unwrap_or_default();
            Ok((object["status"]["availableReplicas"] == 3).then_some(()))
        })
    }

    /// Changes the Foo until one of the Events about it is a series.
    fn repeat_events(&self) -> Result<()> {
        let replicas = std::cell::Cell::new(1);
        self.api.wait("an Event that is repeated", |api| {
            replicas.set(replicas.get() % 3 + 1);
            api.merge(FOO, &json!({"spec": {"replicas": replicas.get()}}))?;
            self.has_series("default")
        })
    }

    /// Replaces the plugin's file twice by the same version with another digest, so that the second Event about it repeats the first.
    fn reload(&self) -> Result<()> {
        let wasm = fs::read(self.plugin).with_context(|| format!("read {}", self.plugin.display()))?;
        for number in [1, 2] {
            let before = self.loads();
            self.replace_plugin(&another_version(&wasm, number))?;
            self.api.wait("the next version of the plugin", |_| {
                Ok(self.loads().filter(|loads| Some(*loads) > before))
            })?;
        }
        let condition = "an Event about the plugin that is repeated";
        self.api.wait(condition, |_| self.has_series(self.namespace))?;
        println!("container-test: the host has reloaded the plugin");
        Ok(())
    }

    /// Makes the acceptance plugin perform each of its scripts.
    fn perform_scripts(&self) -> Result<()> {
        let path = format!("/api/logs?plugin={}", self.acceptance);
        let log = || self.status_text(&path, Some(&self.tokens.status)).unwrap_or_default();
        for (number, script) in scripts().iter().enumerate() {
            let seen = results(&log()).len();
            let (path, config_map) = script.config_map(number);
            self.api.post(&path, &config_map)?;
            self.api.wait(&format!("the result of {script:?}"), |_| {
                Ok(script.is_done(&log(), seen)?.then_some(()))
            })?;
        }
        println!("container-test: the acceptance plugin has used every verb");
        Ok(())
    }

    fn replace_plugin(&self, wasm: &[u8]) -> Result<()> {
        let unfinished = self.plugin.with_extension("unfinished");
        fs::write(&unfinished, wasm)
            .and_then(|()| fs::rename(&unfinished, self.plugin))
            .with_context(|| format!("replace {}", self.plugin.display()))
    }

    /// Returns how often the host has loaded the plugin.
    fn loads(&self) -> Option<u64> {
        let name = self.plugin.file_stem()?.to_str()?;
        let metrics = self.status_text("/metrics", Some(&self.tokens.metrics))?;
        let sample = format!("pilothouse_plugin_reloads_total{{controller=\"{name}\",result=\"loaded\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&sample)?.parse().ok())
    }

    /// Reads the status port as users whom the API server allows and refuses.
    fn read_status(&self) -> Result<()> {
        let Tokens { metrics, status, stranger } = &self.tokens;
        for (path, token, expected) in [
            ("/metrics", Some(metrics), 200),
            ("/metrics", Some(stranger), 403),
            ("/metrics", None, 401),
            ("/api/plugins", Some(metrics), 403),
            ("/api/plugins", Some(status), 200),
            ("/healthz", None, 200),
        ] {
            let code = self.status_code(path, token.map(String::as_str));
            ensure!(code == Some(expected), "the status port answered {path} with {code:?}, not {expected}");
        }
        // The host lists the object, because it is not cached.
        let name = self.plugin.file_stem().unwrap_or_default().to_string_lossy();
        let explanation =
            self.status_text(&format!("/api/explain?plugin={name}&key=default/absent"), Some(status));
        let explanation = explanation.context("the status port explains nothing")?;
        ensure!(explanation.contains("\"NoSuchObject\""), "an absent object is explained so: {explanation}");
        println!("container-test: the status port asks the API server who may read it");
        Ok(())
    }

    /// Waits until the Deployment satisfies a condition.
    fn deployment(&self, condition: &str, is_met: impl Fn(&Value) -> bool) -> Result<Value> {
        self.api.wait(condition, |api| Ok(api.get(DEPLOYMENT)?.filter(|found| is_met(found))))
    }

    fn has_series(&self, namespace: &str) -> Result<Option<()>> {
        let events = self.api.get(&format!("{EVENTS}/{namespace}/events"))?.unwrap_or_default();
        let mut events = events["items"].as_array().into_iter().flatten();
        Ok(events.any(|event| event["series"]["count"].as_u64() > Some(1)).then_some(()))
    }

    fn status_code(&self, path: &str, token: Option<&str>) -> Option<u16> {
        Some(self.status_response(path, token).ok()?.status().as_u16())
    }

    fn status_text(&self, path: &str, token: Option<&str>) -> Option<String> {
        self.status_response(path, token).ok()?.into_body().read_to_string().ok()
    }

    fn status_response(
        &self,
        path: &str,
        token: Option<&str>,
    ) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let mut request = ureq::Agent::new_with_config(config).get(format!("{}{path}", self.status));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.call()
    }
}

/// Returns the plugin with another custom section, and so with another digest.
fn another_version(wasm: &[u8], number: u8) -> Vec<u8> {
    const NAME: &[u8] = b"version";
    let section = [&[0, NAME.len() as u8 + 2, NAME.len() as u8], NAME, &[number]].concat();
    [wasm, &section].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_has_a_custom_section_more() {
        let other = another_version(b"\0asm", 3);
        assert_eq!(other, b"\0asm\0\x09\x07version\x03");
    }
}
