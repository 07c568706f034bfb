//! The controller of default service accounts.

use serde_json::json;
use tokio::time::Instant;

use super::queue::Queue;
use super::{Change, Controller, MANAGER, Observation};
use crate::request::options::WriteOptions;
use crate::rest::kinds::strategy;
use crate::rest::verbs::create::create;
use crate::state::State;

const NAME: &str = "default";

/// Creates the `default` service account of every namespace, and recreates it when it is deleted.
#[derive(Default)]
pub(super) struct ServiceAccounts {
    /// Namespaces whose account may be missing.
    pending: Queue<Box<str>>,
}

impl Controller for ServiceAccounts {
    fn observe(&mut self, observation: &Observation<'_>) {
        let endpoint = observation.endpoint;
        match observation.change {
            Change::Applied(object) if strategy::is_namespace(endpoint) && !object.deleting => {
                self.pending.add(object.name.clone(), observation.due);
            }
            Change::Deleted(object)
                if endpoint.group.is_empty()
                    && endpoint.resource.names.plural == "serviceaccounts"
                    && &*object.name == NAME =>
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
        if pending.is_empty() {
            return;
        }
        let registry = state.registry();
        let Some(accounts) = registry.endpoint("", "v1", "serviceaccounts") else { return };
        for namespace in pending {
            if accounts.resource.table.get(&namespace, NAME).is_some() {
                continue;
            }
            let account = json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME},
            });
            // The namespace may be terminating or deleted; then it needs no account.
            if let Err(error) =
                create(state, accounts, Some(&namespace), account, &WriteOptions::internal(MANAGER))
            {
                tracing::debug!(%error, %namespace, "cannot create the default service account");
            }
        }
    }
}
