use std::sync::Arc;

use pilothouse_model::LabelSelector;
use serde_json::Value;

use super::{Change, Controller, MANAGER};
use crate::access::{GROUP, Rule};
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::rest::update::{self, Part, update};
use crate::server::State;
use crate::storage::Stored;

/// Gathers into a ClusterRole with an `aggregationRule` the rules of those that its selectors match.
#[derive(Default)]
pub(super) struct Aggregation {
    changed: bool,
}

impl Controller for Aggregation {
    fn observe(&mut self, endpoint: &Arc<Endpoint>, _: Change<'_>) {
        self.changed |= endpoint.group == GROUP && endpoint.resource.names.plural == "clusterroles";
    }

    fn act(&mut self, state: &State) {
        if std::mem::take(&mut self.changed) {
            aggregate(state);
        }
    }
}

/// Writes the roles whose gathered rules are not those that they have. Whether there were any: a role may be part of
/// another.
pub(crate) fn aggregate(state: &State) -> bool {
    let registry = state.registry();
    let Some(roles) = registry.endpoint(GROUP, "v1", "clusterroles") else { return false };
    let (present, _) = roles.resource.table.list(None);
    let mut any = false;
    for role in &present {
        let value = role.value();
        let Some(selectors) = value["aggregationRule"]["clusterRoleSelectors"].as_array() else { continue };
        let rules = gathered(role, selectors, &present);
        if Rule::read_all(&value["rules"]) == rules {
            continue;
        }
        let rules: Vec<Value> = rules.iter().map(Rule::to_value).collect();
        let options = WriteOptions::internal(MANAGER);
        let written = update(state, roles, ("", &role.name), Part::Main, &options, |old| {
            let mut value = old.clone();
            value["rules"] = rules.clone().into();
            Ok(update::Change { value, applied: false, retry: true })
        });
        match written {
            Ok(_) => any = true,
            // It may be gone.
            Err(error) => tracing::debug!(%error, role = &*role.name, "its rules were not gathered"),
        }
    }
    any
}

/// The rules of the other roles that the selectors match, each once, in the order of names.
fn gathered(role: &Stored, selectors: &[Value], all: &[Arc<Stored>]) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for selector in selectors.iter().filter_map(|selector| LabelSelector::from_json(selector).ok()) {
        for part in all.iter().filter(|part| part.name != role.name) {
            if !selector.matches(|key| part.labels.get(key)) {
                continue;
            }
            for rule in Rule::read_all(&part.value()["rules"]) {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
    }
    rules
}
