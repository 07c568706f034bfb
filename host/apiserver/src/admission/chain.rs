//! The order of mutating admission, as in kube-apiserver: the built-in plugins, policies and webhooks, and all of them once more if a policy or a webhook
//! changed the object (`k8s.io/apiserver/pkg/admission/reinvocation.go`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::Active;
use super::policies::WRITE_BUDGET;
use super::request::WriteRequest;
use super::{is_policy, mutating, mutating_policies};
use crate::admission_plugins::AdmissionPlugin;
use crate::status::Status;

/// The built-in admission plugins for one write.
pub(crate) trait BuiltIn: Sync {
    /// Lets the plugins change the new object.
    ///
    /// # Errors
    /// A plugin refuses the write.
    fn admit(&self, object: &mut Value) -> Result<(), Status>;

    /// Completes an object that a policy or a webhook changed: decodes it and sets its defaults.
    ///
    /// # Errors
    /// The object is malformed.
    fn complete(&self, object: &mut Value) -> Result<(), Status>;
}

/// No plugins, for writes of objects that none is for.
pub(crate) struct NoBuiltIn;

impl BuiltIn for NoBuiltIn {
    fn admit(&self, _: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    fn complete(&self, _: &mut Value) -> Result<(), Status> {
        Ok(())
    }
}

/// Which policies or webhooks are called again in the second round.
#[derive(Debug)]
pub(super) struct Reinvocation<K> {
    /// Those that may be called again and were called since the last change.
    called: BTreeSet<K>,
    /// Those that were called before a later change.
    outdated: BTreeSet<K>,
    /// The object after the last call.
    output: Option<Value>,
}

impl<K: Ord> Reinvocation<K> {
    pub(super) fn new() -> Self {
        Self { called: BTreeSet::new(), outdated: BTreeSet::new(), output: None }
    }

    /// Begins the second round: if others changed the object since the last call, all that may be called again are.
    fn begin_again(&mut self, object: Option<&Value>) {
        if self.output.as_ref() != object {
            self.outdated.append(&mut self.called);
        }
    }

    /// Whether this one is called in a round.
    pub(super) fn is_due(&self, key: &K, is_second_round: bool) -> bool {
        !is_second_round || self.outdated.contains(key)
    }

    /// Lets all that may be called again, and were called, be called in the second round.
    pub(super) fn call_all_again(&mut self) {
        self.outdated.append(&mut self.called);
    }

    /// Records a call.
    pub(super) fn record(&mut self, key: K, is_reinvoked: bool, changed: bool) {
        if changed {
            self.call_all_again();
        }
        if is_reinvoked {
            self.called.insert(key);
        }
    }
}

/// Lets all plugins, policies and webhooks change the new object of a write.
///
/// # Errors
/// One of them refuses the write, or failed.
pub(super) async fn mutate(
    active: &Active<'_>,
    write: &WriteRequest<'_>,
    new: &mut Option<Value>,
    old: Option<&Value>,
    built_in: &dyn BuiltIn,
) -> Result<(), Status> {
    let (mut policies, mut webhooks) = (Reinvocation::new(), Reinvocation::new());
    let mut budget = WRITE_BUDGET;
    let plugins = active.control.plugins;
    let evaluates_policies =
        !is_policy(write.endpoint) && plugins.acts(AdmissionPlugin::MutatingAdmissionPolicy);
    let calls_webhooks =
        active.calls_webhooks(write) && plugins.acts(AdmissionPlugin::MutatingAdmissionWebhook);
    for is_second_round in [false, true] {
        if let Some(object) = new {
            built_in.admit(object)?;
        }
        let mut is_changed = false;
        if evaluates_policies {
            if is_second_round {
                policies.begin_again(new.as_ref());
            }
            let round = (&mut policies, is_second_round);
            is_changed |=
                mutating_policies::mutate(active, write, (&mut *new, old), built_in, round, &mut budget)
                    .await?;
            policies.output.clone_from(new);
        }
        if calls_webhooks {
            if is_second_round {
                webhooks.begin_again(new.as_ref());
            }
            let round = (&mut webhooks, is_second_round);
            is_changed |= mutating::mutate(active, write, (&mut *new, old), built_in, round).await?;
            webhooks.output.clone_from(new);
        }
        if !is_changed {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls webhooks 0, 1, …, each given as (may be called again, changes the object), and returns those of the second round.
    fn second_round(webhooks: &[(bool, bool)]) -> Vec<usize> {
        let mut reinvocation = Reinvocation::new();
        for (index, (is_reinvoked, changed)) in webhooks.iter().enumerate() {
            reinvocation.record(index, *is_reinvoked, *changed);
        }
        (0..webhooks.len()).filter(|index| reinvocation.is_due(index, true)).collect()
    }

    #[test]
    fn webhooks_are_called_again_if_a_later_one_changed_the_object() {
        type Case = (&'static [(bool, bool)], &'static [usize]);
        let cases: [Case; 5] = [
            (&[(true, false), (false, false)], &[]),
            (&[(true, false), (false, true)], &[0]),
            (&[(false, true), (true, true)], &[]),
            (&[(true, true), (true, true), (true, true)], &[0, 1]),
            (&[(true, false), (true, false), (false, true), (true, false)], &[0, 1]),
        ];
        for (webhooks, expected) in cases {
            assert_eq!(second_round(webhooks), expected, "{webhooks:?}");
        }
    }

    #[test]
    fn webhooks_are_called_again_if_others_changed_the_object_meanwhile() {
        let mut reinvocation = Reinvocation::new();
        reinvocation.record(0, true, true);
        reinvocation.record(1, false, false);
        reinvocation.output = Some(Value::from(1));
        reinvocation.begin_again(Some(&Value::from(1)));
        assert!(!reinvocation.is_due(&0, true));
        reinvocation.begin_again(Some(&Value::from(2)));
        assert!(reinvocation.is_due(&0, true) && !reinvocation.is_due(&1, true));
    }
}
