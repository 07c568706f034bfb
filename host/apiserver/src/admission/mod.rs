//! Dynamic admission: webhooks, ValidatingAdmissionPolicies and MutatingAdmissionPolicies, which change or refuse writes.
//!
//! A write calls [`Admission::mutate`] before it is validated and [`Admission::validate`] before it is stored, like kube-apiserver. What is
//! configured is compiled when it changes ([`cache`]); without a configuration, a write neither waits nor allocates anything here.
//!
//! - `rules`, `criteria`, `conditions`: which writes a webhook or a policy is for.
//! - `chain`: the order of mutating admission, to which the caller adds the built-in plugins.
//! - `webhook`, `review`, `call`, `mutating`, `validating`: webhooks.
//! - `policy`, `params`, `policies`, `evaluation`: ValidatingAdmissionPolicies. `mutating_policies`, `mutation`: MutatingAdmissionPolicies.
//! - `environment`, `expressions`, `authorizer`: what CEL expressions can refer to, and their evaluation.
//! - `validation`: the validation of the configurations themselves.

mod authorizer;
mod cache;
mod call;
mod chain;
mod conditions;
mod criteria;
mod environment;
mod evaluation;
mod expressions;
mod mutating;
mod mutating_policies;
mod mutation;
mod params;
mod policies;
mod policy;
mod request;
mod review;
mod rules;
mod validating;
pub(crate) mod validation;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

pub(crate) use cache::GROUP;
use cache::{Cache, Configuration};
pub(crate) use chain::{BuiltIn, NoBuiltIn};
pub(crate) use request::{Objects, Operation, WriteRequest};

use crate::access::Access;
use crate::registry::{Endpoint, Registry};
use crate::status::Status;
use crate::storage::{Storage, Table};
use crate::user::User;
use crate::webhooks::WebhookClient;

/// The time that admission may take for one write, the same as kube-apiserver's limit of a mutating request.
const WRITE_TIMEOUT: Duration = Duration::from_secs(34);
/// The bytes of warnings that one write may have, with [`WARNING_OVERHEAD`] for each.
const MAX_WARNINGS: usize = 16 << 10;
/// The bytes of a warning's header besides its text.
const WARNING_OVERHEAD: usize = 20;

/// The admission of a server.
pub(crate) struct AdmissionControl {
    cache: Cache,
    namespaces: Arc<Table>,
    client: Arc<WebhookClient>,
}

impl AdmissionControl {
    pub(crate) fn new(storage: &Storage, client: Arc<WebhookClient>) -> Self {
        Self { cache: Cache::new(storage), namespaces: storage.table("", "namespaces"), client }
    }

    /// Whether any write may need admission.
    pub(crate) fn is_configured(&self) -> bool {
        self.cache.read().is_some()
    }

    /// Begins the admission of a request. `options` are those of the request, as an object.
    pub(crate) fn begin<'a>(
        &'a self,
        access: &'a Access,
        registry: Arc<Registry>,
        user: Arc<User>,
        options: Value,
    ) -> Admission<'a> {
        let active = self.cache.read().map(|configuration| Active {
            control: self,
            access,
            configuration,
            registry,
            user,
            options,
            deadline: Instant::now() + WRITE_TIMEOUT,
            skips_webhooks: !self.client.is_enabled(),
            warnings: Mutex::default(),
        });
        Admission { active }
    }
}

/// The admission of one request.
pub(crate) struct Admission<'a> {
    active: Option<Active<'a>>,
}

/// The admission of one request while something is configured.
struct Active<'a> {
    control: &'a AdmissionControl,
    access: &'a Access,
    configuration: Arc<Configuration>,
    registry: Arc<Registry>,
    user: Arc<User>,
    options: Value,
    deadline: Instant,
    skips_webhooks: bool,
    warnings: Mutex<Vec<String>>,
}

impl Admission<'_> {
    /// Returns the admission that allows everything.
    pub(crate) fn bypassed() -> Admission<'static> {
        Admission { active: None }
    }

    /// Leaves the decision to policies, which need not be waited for.
    pub(crate) fn skip_webhooks(&mut self) {
        if let Some(active) = &mut self.active {
            active.skips_webhooks = true;
        }
    }

    /// Whether there is anything to do.
    pub(crate) fn is_active(&self) -> bool {
        self.active.is_some()
    }

    /// Lets the built-in plugins, policies and mutating webhooks change the new object of a write, which is `None` for a deletion.
    ///
    /// # Errors
    /// A plugin, a policy or a webhook refuses the write, or failed.
    pub(crate) async fn mutate(
        &self,
        write: &WriteRequest<'_>,
        new: &mut Option<Value>,
        old: Option<&Value>,
        built_in: &dyn BuiltIn,
    ) -> Result<(), Status> {
        let Some(active) = &self.active else {
            return new.as_mut().map_or(Ok(()), |object| built_in.admit(object));
        };
        let mutation = chain::mutate(active, write, new, old, built_in);
        if !active.calls_webhooks(write) {
            // Nothing waits, and there may be no timer.
            return mutation.await;
        }
        timeout_at(active.deadline, mutation).await.unwrap_or_else(|_| Err(timed_out()))
    }

    /// Asks policies and validating webhooks whether a write is allowed.
    ///
    /// # Errors
    /// A policy or a webhook refuses the write, or failed.
    pub(crate) async fn validate(
        &self,
        write: &WriteRequest<'_>,
        objects: Objects<'_>,
    ) -> Result<(), Status> {
        let Some(active) = &self.active else { return Ok(()) };
        if !is_policy(write.endpoint) {
            policies::validate(active, write, objects).await?;
        }
        if !active.calls_webhooks(write) {
            return Ok(());
        }
        let validation = validating::validate(active, write, objects);
        timeout_at(active.deadline, validation).await.unwrap_or_else(|_| Err(timed_out()))
    }

    /// Takes the warnings so far.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        self.active.as_ref().map(|active| std::mem::take(&mut *active.warnings.lock())).unwrap_or_default()
    }
}

impl Active<'_> {
    /// Whether webhooks are called for a write. Their own configurations are exempt, so that a broken webhook can be removed.
    fn calls_webhooks(&self, write: &WriteRequest<'_>) -> bool {
        !self.skips_webhooks && write.endpoint.group != GROUP
    }

    /// Adds warnings, as long as they are short together.
    fn warn(&self, texts: &[String]) {
        add_warnings(&mut self.warnings.lock(), texts);
    }
}

/// Adds the warnings that are not empty, up to [`MAX_WARNINGS`]. A webhook may return millions of short ones, and each takes a header.
fn add_warnings(warnings: &mut Vec<String>, texts: &[String]) {
    let bytes_of = |text: &String| text.len() + WARNING_OVERHEAD;
    let mut size: usize = warnings.iter().map(bytes_of).sum();
    for text in texts.iter().filter(|text| !text.is_empty()) {
        size += bytes_of(text);
        if size > MAX_WARNINGS {
            return;
        }
        warnings.push(text.clone());
    }
}

/// Whether the endpoint serves policies or bindings, which policies do not apply to.
fn is_policy(endpoint: &Endpoint) -> bool {
    endpoint.group == GROUP && endpoint.resource.names.plural.contains("admissionpolic")
}

fn timed_out() -> Status {
    let message = "Timeout: request did not complete within requested timeout - context deadline exceeded";
    Status::with_code(504, message, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_warnings_is_bounded_however_short_they_are() {
        let mut warnings = Vec::new();
        add_warnings(&mut warnings, &vec![String::new(); 100_000]);
        assert!(warnings.is_empty(), "empty warnings are left out");
        for _ in 0..2 {
            add_warnings(&mut warnings, &vec!["w".to_owned(); 100_000]);
        }
        assert_eq!(warnings.len(), MAX_WARNINGS / (1 + WARNING_OVERHEAD));
    }
}
