//! Case 8: forgets after five minutes what it has created.
//!
//! The plugin remembers the Pods that it created, and creates no more until its cache shows them or five minutes have passed. If the watch
//! of Pods is later than that, it creates them again. Pilothouse shows a plugin its own writes at once, which hides the bug unless the
//! answer of a create is lost.
//!
//! Source: <https://github.com/kubernetes/kubernetes/issues/129795>

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_sdk::jiff::Timestamp;
use pilothouse_sdk::serde_json::json;
use pilothouse_sdk::{Context, Error, Outcome, Plugin, Request, clock};

use super::slow_cache::{describe, fill_by_ordinal, metadata, read, replicas};
use crate::{Case, kit};

/// How long the wrong twin waits for what it created.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// What was created for a group and was not in the cache since.
struct Expectation {
    names: Vec<String>,
    since: Timestamp,
}

/// See the module.
#[derive(Default)]
pub struct Expectations {
    /// The expectations of the wrong twin by the key of the group.
    expected: RefCell<BTreeMap<String, Expectation>>,
}

impl Case for Expectations {
    const NAME: &'static str = "expectations";

    fn describe(plugin: Plugin) -> Plugin {
        describe(plugin).stateful()
    }

    fn wrong(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let mut expected = self.expected.borrow_mut();
        let Some((group, pods)) = read(ctx, request)? else {
            expected.remove(&request.key.to_string());
            return Ok(Outcome::Done);
        };
        let now = clock::now();
        let entry = expected.entry(request.key.to_string());
        let expectation = entry.or_insert_with(|| Expectation { names: Vec::new(), since: now });
        expectation.names.retain(|name| !pods.iter().any(|pod| pod.key().name == *name));
        let age = Duration::try_from(now.duration_since(expectation.since)).unwrap_or_default();
        if !expectation.names.is_empty() && age < TIMEOUT {
            return Ok(Outcome::RequeueAfter(TIMEOUT - age));
        }
        *expectation = Expectation { names: Vec::new(), since: now };
        for _ in pods.len()..replicas(&group) {
            let name = json!({"generateName": format!("{}-", request.key.name)});
            let pod = ctx.client().untyped().create(&kit::pod(&metadata(&group, name)), "")?;
            expectation.names.push(pod.key().name);
        }
        for pod in pods.iter().skip(replicas(&group)) {
            kit::delete_by_uid(ctx, pod)?;
        }
        Ok(if expectation.names.is_empty() { Outcome::Done } else { Outcome::RequeueAfter(TIMEOUT) })
    }

    fn right(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        // A memory of what was created helps only until the next restart; names that follow from the group always help.
        fill_by_ordinal(ctx, request)
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::testing::Host;
    use pilothouse_sdk::{ObjectKey, Reconciler};

    use super::super::slow_cache::GROUPS;
    use super::*;
    use crate::{Right, Wrong};

    fn created<P: Reconciler>() -> (usize, Outcome) {
        let host = Host::<P>::new();
        host.put_json(json!({
            "apiVersion": "catalogue.pilothouse.dev/v1", "kind": "Group", "spec": {"replicas": 2},
            "metadata": {"name": "a", "namespace": "default", "uid": "u1"},
        }));
        let key = ObjectKey::new("default", "a");
        host.reconcile(GROUPS, &key).expect("a reconcile");
        let outcome = host.reconcile(GROUPS, &key).expect("a reconcile");
        (host.writes().len(), outcome)
    }

    #[test]
    fn without_faults_both_twins_create_the_pods_once() {
        assert_eq!(created::<Wrong<Expectations>>(), (2, Outcome::Done));
        assert_eq!(created::<Right<Expectations>>(), (2, Outcome::Done));
    }
}
