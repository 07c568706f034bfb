//! Publishes the CA certificate of the server in every namespace, after
//! `k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher`.

use serde_json::json;
use tokio::time::Instant;

use super::queue::Queue;
use super::{Change, Controller, MANAGER, Observation};
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::rest::kinds::strategy;
use crate::rest::verbs::create::create;
use crate::rest::verbs::update::{ProposedUpdate, UpdateTarget, update};
use crate::state::State;

const NAME: &str = "kube-root-ca.crt";

/// Creates the ConfigMap `kube-root-ca.crt` of every namespace, and recreates it when it is deleted. One with the certificate of an earlier
/// process is updated.
pub(super) struct RootCaPublisher {
    /// The certificate in PEM; `None` if there is none to publish.
    certificate: Option<String>,
    /// Namespaces whose ConfigMap may be missing.
    pending: Queue<Box<str>>,
}

impl RootCaPublisher {
    pub(super) fn new(certificate: Option<String>) -> Self {
        Self { certificate, pending: Queue::default() }
    }
}

impl Controller for RootCaPublisher {
    fn observe(&mut self, observation: &Observation<'_>) {
        if self.certificate.is_none() {
            return;
        }
        match observation.change {
            Change::Applied(object) if strategy::is_namespace(observation.endpoint) && !object.deleting => {
                self.pending.add(object.name.clone(), observation.due);
            }
            Change::Deleted(object)
                if observation.endpoint.is_core("configmaps") && &*object.name == NAME =>
            {
                self.pending.add(object.namespace.clone(), observation.due);
            }
            _ => {}
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.pending.next_due()
    }

    fn run(&mut self, state: &State, now: Instant) {
        let pending = self.pending.take_due(now, usize::MAX);
        let Some(certificate) = self.certificate.as_deref().filter(|_| !pending.is_empty()) else { return };
        let registry = state.registry();
        let Some(maps) = registry.endpoint("", "v1", "configmaps") else { return };
        for namespace in pending {
            if let Some(current) = maps.resource.table.get(&namespace, NAME) {
                if current.value()["data"]["ca.crt"] != *certificate {
                    replace_certificate(state, maps, &namespace, certificate);
                }
                continue;
            }
            let description = "Contains a CA bundle that can be used to verify the kube-apiserver when using \
                               internal endpoints such as the internal service IP or kubernetes.default.svc. \
                               No other usage is guaranteed across distributions of Kubernetes clusters.";
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": NAME, "annotations": {"kubernetes.io/description": description}},
                "data": {"ca.crt": certificate},
            });
            // The namespace may be terminating or deleted; then it needs no certificate.
            if let Err(error) = create(state, maps, Some(&namespace), map, &WriteOptions::internal(MANAGER)) {
                tracing::debug!(%error, %namespace, "cannot publish the CA certificate");
            }
        }
    }
}

/// Writes the certificate into the ConfigMap of a namespace.
fn replace_certificate(state: &State, maps: &Endpoint, namespace: &str, certificate: &str) {
    let options = WriteOptions::internal(MANAGER);
    let updated = update(state, maps, (namespace, NAME), UpdateTarget::Object, &options, |old| {
        let mut value = old.clone();
        value["data"]["ca.crt"] = certificate.into();
        Ok(ProposedUpdate { value, applied: false, retry: true })
    });
    if let Err(error) = updated {
        tracing::debug!(%error, namespace, "cannot replace the CA certificate");
    }
}
