//! ResourceQuotas: the admission plugin, after `k8s.io/apiserver/pkg/admission/plugin/resourcequota`, and the usage that the controller writes.
//!
//! As in Kubernetes, a quota limits nothing until the controller has written its status, and a write that uses something adds it to `status.used`
//! before the object is stored. If the object cannot be stored, that is taken back.

mod amounts;
mod usage;

use jiff::Timestamp;
use serde_json::Value;

pub(crate) use amounts::Amounts;
pub(crate) use usage::{Evaluator, requests_of_pod};

use crate::admission::{Operation, WriteRequest};
use crate::admission_plugins::AdmissionPlugin;
use crate::meta;
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::rest::verbs::update::{ProposedUpdate, UpdateTarget, update_unchecked};
use crate::state::State;
use crate::status::Status;

/// The field manager of the usage that writes add.
const MANAGER: &str = "kube-apiserver";

/// What a write added to the usage of quotas.
#[derive(Default)]
pub(in crate::rest) struct Charge {
    namespace: String,
    /// By the names of the quotas.
    added: Vec<(String, Amounts)>,
}

impl Charge {
    /// Takes back what was added, because the object was not stored.
    pub(in crate::rest) fn take_back(self, state: &State) {
        for (quota, added) in &self.added {
            let changed = change_usage(state, &self.namespace, quota, |old| {
                Ok(Some(Amounts::read(&old["status"]["used"]).taken_back(added)))
            });
            if let Err(error) = changed {
                tracing::debug!(%error, quota, "cannot take back the usage of a write that failed");
            }
        }
    }
}

/// Checks a write against all quotas of its namespace, and then adds what it uses to their usage.
///
/// # Errors
/// 403 if a quota refuses the write.
pub(in crate::rest) fn charge(
    state: &State,
    write: &WriteRequest<'_>,
    new: &Value,
    old: Option<&Value>,
) -> Result<Charge, Status> {
    let endpoint = write.endpoint;
    let mut charge = Charge { namespace: write.namespace.to_owned(), added: Vec::new() };
    let is_limited = !write.namespace.is_empty() && endpoint.resource.namespaced;
    if !is_limited || !state.plugins.acts(AdmissionPlugin::ResourceQuota) {
        return Ok(charge);
    }
    let registry = state.registry();
    let Some(quotas) = registry.endpoint("", "v1", "resourcequotas") else { return Ok(charge) };
    let table = &quotas.resource.table;
    if table.count(Some(write.namespace)) == 0 {
        return Ok(charge);
    }
    let evaluator = Evaluator::of(endpoint);
    if !handles(&evaluator, write, new, old) {
        return Ok(charge);
    }
    let now = state.clock.now();
    let usage = evaluator.usage(new, now);
    let increase = old.map(|old| usage.without(&evaluator.usage(old, now)));
    let request = Request { write, evaluator, new, old, usage, increase };
    let quotas: Vec<Value> = table.list(Some(write.namespace)).0.iter().map(|quota| quota.value()).collect();
    let affected = request.check(&quotas)?;
    if write.dry_run {
        return Ok(charge);
    }
    for quota in affected {
        let name = meta::text(quota, "name");
        let mut added = None;
        let result = change_usage(state, write.namespace, name, |current| {
            // Checked again, because another write may have charged the quota since.
            added = if request.is_limited_by(current)? { request.addition(current)? } else { None };
            Ok(added.as_ref().map(|added| {
                let mut used = Amounts::read(&current["status"]["used"]);
                used.add(added);
                used
            }))
        });
        if let Err(status) = result {
            charge.take_back(state);
            return Err(status);
        }
        charge.added.extend(added.map(|added| (name.to_owned(), added)));
    }
    Ok(charge)
}

/// Whether a write can change what an object uses.
fn handles(evaluator: &Evaluator, write: &WriteRequest<'_>, new: &Value, old: Option<&Value>) -> bool {
    match (evaluator, write.subresource, write.operation) {
        (_, "", Operation::Create) | (Evaluator::Pods, "resize", Operation::Update) => true,
        (Evaluator::Pods, "", Operation::Update) => {
            old.is_some_and(|old| usage::is_terminating(old) != usage::is_terminating(new))
        }
        (Evaluator::Services | Evaluator::Claims, "", Operation::Update)
        | (Evaluator::Claims, "status", Operation::Update) => true,
        _ => false,
    }
}

/// Writes the usage of a quota; nothing if `usage` returns `None`.
fn change_usage(
    state: &State,
    namespace: &str,
    name: &str,
    mut usage: impl FnMut(&Value) -> Result<Option<Amounts>, Status>,
) -> Result<(), Status> {
    let registry = state.registry();
    let Some(quotas) = registry.endpoint("", "v1", "resourcequotas") else { return Ok(()) };
    let usage = std::cell::RefCell::new(&mut usage);
    let options = WriteOptions::internal(MANAGER);
    let result =
        update_unchecked(state, quotas, (namespace, name), UpdateTarget::Status, &options, |current| {
            let mut value = current.clone();
            if let Some(used) = (*usage.borrow_mut())(current)? {
                value["status"]["used"] = used.to_value();
            }
            meta::metadata_mut(&mut value).remove("resourceVersion");
            Ok(ProposedUpdate { value, applied: false, retry: true })
        });
    match result {
        // The quota was deleted meanwhile.
        Err(status) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}

/// A write that a quota may be for.
struct Request<'a> {
    write: &'a WriteRequest<'a>,
    evaluator: Evaluator,
    new: &'a Value,
    old: Option<&'a Value>,
    /// What the new object uses.
    usage: Amounts,
    /// What the new object uses more than the old one; `None` if there is no old one.
    increase: Option<Amounts>,
}

impl Request<'_> {
    /// Checks the write against all quotas, in the order of Kubernetes. Returns those whose usage the write increases.
    fn check<'q>(&self, quotas: &'q [Value]) -> Result<Vec<&'q Value>, Status> {
        let mut limiting = Vec::new();
        for quota in quotas {
            if self.is_limited_by(quota)? {
                limiting.push(quota);
            }
        }
        let negative = self.usage.negative();
        if !negative.is_empty() {
            let names = negative.join(",");
            return Err(self.forbidden(&format!("quota usage is negative for resource(s): {names}")));
        }
        let mut affected = Vec::new();
        for quota in limiting {
            if self.addition(quota)?.is_some() {
                affected.push(quota);
            }
        }
        Ok(affected)
    }

    /// Whether a quota is for the object.
    ///
    /// # Errors
    /// 403 if the object lacks resources that the quota limits, or the usage of the quota is not known.
    fn is_limited_by(&self, quota: &Value) -> Result<bool, Status> {
        let (status, name) = (&quota["status"], meta::text(quota, "name"));
        let (hard, used) = (Amounts::read(&status["hard"]), Amounts::read(&status["used"]));
        if !self.evaluator.matches(quota, &hard, self.new) {
            return Ok(false);
        }
        let limited = hard.masked(|name| self.evaluator.uses(name));
        if let Some(problem) = self.evaluator.missing(self.new, &limited) {
            return Err(self.forbidden(&format!("failed quota: {name}: {problem}")));
        }
        if limited.names().any(|name| used.get(name).is_none()) {
            let names = limited.names().collect::<Vec<_>>().join(",");
            return Err(self.forbidden(&format!("status unknown for quota: {name}, resources: {names}")));
        }
        Ok(true)
    }

    /// Returns what the write adds to the usage of a quota that is for the object; `None` if nothing.
    ///
    /// # Errors
    /// 403 if the quota would be exceeded.
    fn addition(&self, quota: &Value) -> Result<Option<Amounts>, Status> {
        let (status, name) = (&quota["status"], meta::text(quota, "name"));
        let (hard, used) = (Amounts::read(&status["hard"]), Amounts::read(&status["used"]));
        let was_limited = self.old.is_some_and(|old| self.evaluator.matches(quota, &hard, old));
        let delta = self.increase.as_ref().filter(|_| was_limited).unwrap_or(&self.usage);
        let requested = delta.clone().nonzero().masked(|name| hard.get(name).is_some());
        if requested.is_empty() {
            return Ok(None);
        }
        let mut after = used.masked(|name| requested.get(name).is_some());
        after.add(&requested);
        let exceeded = after.above(&hard);
        // As in Kubernetes, an update of a status is charged, but never refused: it says what has happened.
        if !exceeded.is_empty() && self.write.subresource != "status" {
            let only = |amounts: &Amounts| amounts.masked(|name| exceeded.iter().any(|known| known == name));
            return Err(self.forbidden(&format!(
                "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
                only(&requested),
                only(&used),
                only(&hard)
            )));
        }
        Ok(Some(requested))
    }

    fn forbidden(&self, problem: &str) -> Status {
        Status::forbidden(self.write.endpoint.resource_ref(), meta::text(self.new, "name"), problem)
    }
}

/// Returns the status that a quota should have: its limits, and what the objects of its namespace use of them.
pub(crate) fn status_of(state: &State, quota: &Value) -> Value {
    let namespace = meta::text(quota, "namespace");
    let hard = Amounts::read(&quota["spec"]["hard"]);
    let mut used = Amounts::read(&quota["status"]["used"]);
    let now = state.clock.now();
    for endpoint in state.registry().preferred_endpoints() {
        if !endpoint.resource.namespaced || endpoint.resource.strategy.is_review {
            continue;
        }
        let evaluator = Evaluator::of(&endpoint);
        let tracked = hard.masked(|name| evaluator.uses(name));
        if tracked.is_empty() {
            continue;
        }
        let measured = measure(&endpoint, &evaluator, namespace, &quota["spec"], now);
        for name in tracked.names() {
            used.set(name, measured.get(name).unwrap_or_default());
        }
    }
    let used = used.masked(|name| hard.get(name).is_some());
    serde_json::json!({"hard": quota["spec"]["hard"], "used": used.to_value()})
}

/// Returns what the objects of a namespace use that are in the scopes of a quota.
fn measure(
    endpoint: &Endpoint,
    evaluator: &Evaluator,
    namespace: &str,
    spec: &Value,
    now: Timestamp,
) -> Amounts {
    let mut sum = Amounts::default();
    if let Some(name) = evaluator.only_counts() {
        // No object is read, because none is in a scope or all are.
        if evaluator.is_in_scopes(spec, &Value::Null) {
            sum = evaluator.usage_of_count(name, endpoint.resource.table.count(Some(namespace)));
        }
        return sum;
    }
    for object in endpoint.resource.table.list(Some(namespace)).0 {
        let value = object.value();
        if evaluator.is_in_scopes(spec, &value) {
            sum.add(&evaluator.usage(&value, now));
        }
    }
    sum
}
