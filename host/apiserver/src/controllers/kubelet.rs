//! The kubelet's part in the deletion of pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Change, Controller};
use crate::registry::Endpoint;
use crate::rest::delete::{DeleteOptions, delete};
use crate::state::State;

/// Completes the deletion of pods that are assigned to a node, as if their containers stopped at once.
#[derive(Default)]
pub(super) struct Kubelet {
    /// Namespace, name and UID of pods that are being deleted.
    terminating: BTreeSet<(Box<str>, Box<str>, Box<str>)>,
}

impl Controller for Kubelet {
    fn observe(&mut self, endpoint: &Arc<Endpoint>, change: Change<'_>) {
        if !endpoint.group.is_empty() || endpoint.resource.names.plural != "pods" {
            return;
        }
        if let Change::Applied(pod) = change
            && pod.deleting
        {
            self.terminating.insert((pod.namespace.clone(), pod.name.clone(), pod.uid.clone()));
        }
    }

    fn reconcile(&mut self, state: &State) {
        let registry = state.registry();
        let Some(pods) = registry.endpoint("", "v1", "pods") else { return };
        for (namespace, name, uid) in std::mem::take(&mut self.terminating) {
            let options = DeleteOptions {
                grace_period: Some(0),
                uid: Some(uid.to_string()),
                ..DeleteOptions::default()
            };
            if let Err(error) = delete(state, pods, (&namespace, &name), &options) {
                tracing::debug!(%error, %namespace, %name, "cannot delete a terminating pod");
            }
        }
    }
}
