use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Change, Controller};
use crate::registry::Endpoint;
use crate::rest::delete::{DeleteOptions, delete};
use crate::server::State;

/// Ends pods as a kubelet would: one that is assigned to a node and being deleted is reported as stopped at once.
#[derive(Default)]
pub(super) struct Pods {
    ending: BTreeSet<(Box<str>, Box<str>, Box<str>)>,
}

impl Controller for Pods {
    fn observe(&mut self, endpoint: &Arc<Endpoint>, change: Change<'_>) {
        if !endpoint.group.is_empty() || endpoint.resource.names.plural != "pods" {
            return;
        }
        if let Change::Present(pod) = change
            && pod.deleting
        {
            self.ending.insert((pod.namespace.clone(), pod.name.clone(), pod.uid.clone()));
        }
    }

    fn act(&mut self, state: &State) {
        let registry = state.registry();
        let Some(pods) = registry.endpoint("", "v1", "pods") else { return };
        for (namespace, name, uid) in std::mem::take(&mut self.ending) {
            let options = DeleteOptions {
                grace_period: Some(0),
                uid: Some(uid.to_string()),
                ..DeleteOptions::default()
            };
            if let Err(error) = delete(state, pods, (&namespace, &name), &options) {
                tracing::debug!(%error, %namespace, %name, "the pod was gone already");
            }
        }
    }
}
