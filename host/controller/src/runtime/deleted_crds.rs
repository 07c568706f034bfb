//! Re-creates CRDs that the running version installed and that somebody deleted.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_plugin::LogLevel;
use tokio::time::sleep;

use super::handle::{RunningVersionStatus, watch_error};
use crate::client::{apply_crds, missing_crd};
use crate::guest_host::PluginServices;
use crate::lifecycle::{Lifecycle, backoff};
use crate::load::LoadServices;
use crate::load::version::Version;

/// Between two checks. They send no request while all watches are connected.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Watches over the CRDs of this version until the future is dropped. A deleted CRD is applied again if the operator grants CRDs; otherwise
/// it is only reported.
pub(super) async fn restore(
    services: LoadServices,
    version: Arc<Version>,
    plugin: PluginServices,
    running_status: Arc<RunningVersionStatus>,
    lifecycle: Lifecycle,
) {
    let crds = &version.descriptor.crds;
    let mut failures = 0;
    loop {
        sleep(CHECK_INTERVAL).await;
        plugin.panics.inject_test_panic("CRDs");
        // A failing API server is reported by the watches.
        let deleted = match watch_error(&running_status) {
            Some(_) => missing_crd(&services.server, crds).await.unwrap_or_default(),
            None => None,
        };
        if deleted.is_some() {
            services.discovery.invalidate_crds(crds);
        }
        let Some(name) = deleted else {
            running_status.set_crd_problem(None);
            failures = 0;
            continue;
        };
        let sidecar_grants = plugin.current_grants.sidecar_grants();
        let is_granted =
            sidecar_grants.is_some_and(|sidecar_grants| sidecar_grants.crds.unwrap_or(services.grant_crds));
        let problem = match is_granted {
            false => {
                format!("the CRD {name} was deleted; apply it again, or grant it: {{grants: {{crds: true}}}}")
            }
            true => format!("the CRD {name} was deleted; it is being applied again"),
        };
        if running_status.set_crd_problem(Some(problem.clone())) {
            plugin.log.state(LogLevel::Warn, format_args!("{problem}"));
            lifecycle.warn("CRDDeleted", problem);
        }
        if !is_granted {
            continue;
        }
        let applied = {
            let _lock = services.crd_lock.lock().await;
            apply_crds(&services.server, Some(plugin.name.as_str()), crds, &mut Vec::new()).await
        };
        if let Err(error) = applied {
            let delay = backoff::delay(failures, plugin.environment.randomness.fraction());
            failures = failures.saturating_add(1);
            running_status.set_crd_problem(Some(format!(
                "the CRD {name} was deleted, and could not be applied again: {error}"
            )));
            sleep(delay).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use pilothouse_informer::{InformerKey, SubscribeOptions};
    use pilothouse_model::ResourceType;
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deleted_crd_is_applied_again_although_the_task_panicked() {
        let api = pilothouse_apiserver::ApiServer::builder().build();
        let client = kube::Client::new(api.service(), "default");
        let plugin = PluginServices::for_test("crds", client.clone());
        let services = LoadServices { grant_crds: true, ..LoadServices::for_test(client) };
        let pool =
            Version::test_pool(&plugin, "index.wat", pilothouse_plugin::InstanceLimits::default()).await;
        let mut version = Version::for_test(pool, Arc::default());
        version.descriptor.crds = vec![json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "foos.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]
            }
        })];
        let version = Arc::new(version);
        // The watch of a kind that is not served has an error, which makes the task look for the CRD.
        let key = InformerKey::new(ResourceType {
            group: "example.com".into(),
            version: "v1".into(),
            kind: "Foo".into(),
            plural: "foos".into(),
            namespaced: true,
        });
        let subscription = services.informers.subscribe(key, SubscribeOptions::default()).expect("open");
        let subscription = Arc::new(subscription);
        let status = Arc::new(RunningVersionStatus::of_subscription("foos", &subscription));
        let lifecycle = Lifecycle::begin(
            plugin.name.clone(),
            "default",
            Arc::clone(&plugin.metrics),
            plugin.events.clone(),
            Default::default(),
        );
        plugin.panics.arm("CRDs", 2);
        let start = || -> BoxFuture<'static, ()> {
            let (services, version, status) = (services.clone(), Arc::clone(&version), Arc::clone(&status));
            Box::pin(restore(services, version, plugin.clone(), status, lifecycle.clone()))
        };
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.example.com";
        let is_applied = async {
            while services.server.get(path).await.expect("an answer").is_none() {
                sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            biased;
            () = plugin.restart("CRDs", start) => unreachable!("it never ends"),
            () = is_applied => {}
        }
        assert_eq!(plugin.metrics.task_panics.get(), 2);
    }
}
