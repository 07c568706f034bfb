use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;

use super::{Change, Controller, MANAGER};
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::rest::create::create;
use crate::rest::kinds;
use crate::server::State;

const NAME: &str = "default";

/// Gives every namespace its `default` service account, again when it was deleted.
#[derive(Default)]
pub(super) struct Accounts {
    lacking: BTreeSet<Box<str>>,
}

impl Controller for Accounts {
    fn observe(&mut self, endpoint: &Arc<Endpoint>, change: Change<'_>) {
        match change {
            Change::Present(object) if kinds::is_namespace(endpoint) && !object.deleting => {
                self.lacking.insert(object.name.clone());
            }
            Change::Gone(object)
                if endpoint.group.is_empty()
                    && endpoint.resource.names.plural == "serviceaccounts"
                    && &*object.name == NAME =>
            {
                self.lacking.insert(object.namespace.clone());
            }
            _ => {}
        }
    }

    fn act(&mut self, state: &State) {
        let registry = state.registry();
        let Some(accounts) = registry.endpoint("", "v1", "serviceaccounts") else { return };
        for namespace in std::mem::take(&mut self.lacking) {
            if accounts.resource.table.get(&namespace, NAME).is_some() {
                continue;
            }
            let account = json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME},
            });
            // The namespace may be ending, or gone: then it needs no account.
            if let Err(error) =
                create(state, accounts, Some(&namespace), account, &WriteOptions::internal(MANAGER))
            {
                tracing::debug!(%error, %namespace, "no default service account");
            }
        }
    }
}
