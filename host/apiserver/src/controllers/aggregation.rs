//! ClusterRole aggregation, after `k8s.io/kubernetes/pkg/controller/clusterroleaggregation`.

use std::sync::Arc;

use pilothouse_model::LabelSelector;
use serde_json::Value;
use tokio::time::Instant;

use super::queue::Queue;
use super::{Controller, MANAGER, Observation};
use crate::access::{GROUP, PolicyRule};
use crate::request::options::WriteOptions;
use crate::rest::verbs::update::{self, UpdateTarget, update};
use crate::state::State;
use crate::storage::StoredObject;

/// Sets the rules of each ClusterRole with an `aggregationRule` to those of the roles that its selectors match.
#[derive(Default)]
pub(super) struct Aggregation {
    queue: Queue<()>,
}

impl Controller for Aggregation {
    fn observe(&mut self, observation: &Observation<'_>) {
        let endpoint = observation.endpoint;
        if endpoint.group == GROUP && endpoint.resource.names.plural == "clusterroles" {
            self.queue.add((), observation.due);
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.queue.next_due()
    }

    fn run(&mut self, state: &State, now: Instant) {
        if !self.queue.take_due(now, 1).is_empty() {
            aggregate(state);
        }
    }
}

/// Updates the aggregated roles whose rules are out of date. Returns whether there were any, in which case roles that
/// aggregate these may be out of date, too.
pub(crate) fn aggregate(state: &State) -> bool {
    let registry = state.registry();
    let Some(roles) = registry.endpoint(GROUP, "v1", "clusterroles") else { return false };
    let (all_roles, _) = roles.resource.table.list(None);
    let mut any = false;
    for role in &all_roles {
        let value = role.value();
        let Some(selectors) = value["aggregationRule"]["clusterRoleSelectors"].as_array() else { continue };
        let rules = aggregated_rules(role, selectors, &all_roles);
        if PolicyRule::parse_all(&value["rules"]) == rules {
            continue;
        }
        let rules: Vec<Value> = rules.iter().map(PolicyRule::to_value).collect();
        let options = WriteOptions::internal(MANAGER);
        let written = update(state, roles, ("", &role.name), UpdateTarget::Object, &options, |old| {
            let mut value = old.clone();
            value["rules"] = rules.clone().into();
            Ok(update::ProposedUpdate { value, applied: false, retry: true })
        });
        match written {
            Ok(_) => any = true,
            // The role may have been deleted.
            Err(error) => tracing::debug!(%error, role = &*role.name, "cannot update an aggregated role"),
        }
    }
    any
}

/// Returns the rules of the other roles that the selectors match, without duplicates, ordered by role name.
fn aggregated_rules(role: &StoredObject, selectors: &[Value], all: &[Arc<StoredObject>]) -> Vec<PolicyRule> {
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in selectors.iter().filter_map(|selector| LabelSelector::from_json(selector).ok()) {
        for part in all.iter().filter(|part| part.name != role.name) {
            if !selector.matches(|key| part.labels.get(key)) {
                continue;
            }
            for rule in PolicyRule::parse_all(&part.value()["rules"]) {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
    }
    rules
}
