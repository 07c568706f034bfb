//! The controller of default service accounts.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;

use super::{Change, Controller, MANAGER};
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::rest::create::create;
use crate::rest::strategy;
use crate::state::State;

const NAME: &str = "default";

/// Creates the `default` service account of every namespace, and recreates it when it is deleted.
#[derive(Default)]
pub(super) struct ServiceAccounts {
    /// Namespaces whose account may be missing.
    pending: BTreeSet<Box<str>>,
}

impl Controller for ServiceAccounts {
    fn observe(&mut self, endpoint: &Arc<Endpoint>, change: Change<'_>) {
        match change {
            Change::Applied(object) if strategy::is_namespace(endpoint) && !object.deleting => {
                self.pending.insert(object.name.clone());
            }
            Change::Deleted(object)
                if endpoint.group.is_empty()
                    && endpoint.resource.names.plural == "serviceaccounts"
                    && &*object.name == NAME =>
            {
                self.pending.insert(object.namespace.clone());
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, state: &State) {
        let registry = state.registry();
        let Some(accounts) = registry.endpoint("", "v1", "serviceaccounts") else { return };
        for namespace in std::mem::take(&mut self.pending) {
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
