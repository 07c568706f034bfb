//! Dynamic admission: webhooks, ValidatingAdmissionPolicies and MutatingAdmissionPolicies, which change or refuse writes.
//!
//! A write calls [`Admission::mutate`] before it is validated and [`Admission::validate`] before it is stored, like kube-apiserver. What is
//! configured is compiled when it changes ([`cache`]); without a configuration, a write neither waits nor allocates anything here.
//!
//! - `rules`, `criteria`, `conditions`: which writes a webhook or a policy is for.
//! - `chain`: the order of mutating admission, to which the caller adds the built-in plugins.
//! - `webhook`, `review`, `call`, `mutating`, `validating`: webhooks.
//! - `policy`, `params`, `policies`, `evaluation`: ValidatingAdmissionPolicies. `mutating_policies`, `mutation`: MutatingAdmissionPolicies.
//! - `notes`: warnings and audit annotations. `audit`: those of policies.
//! - `environment`, `expressions`, `authorizer`: what CEL expressions can refer to, and their evaluation.
//! - `validation`: the validation of the configurations themselves.

mod audit;
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
mod notes;
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

use serde_json::Value;
use tokio::time::{Instant, timeout_at};

pub(crate) use cache::GROUP;
use cache::{Cache, Configuration};
pub(crate) use chain::{BuiltIn, NoBuiltIn};
pub(crate) use notes::{AuditAnnotations, Notes};
pub(crate) use request::{Objects, Operation, WriteRequest};

use crate::access::Access;
use crate::admission_plugins::{AdmissionPlugin, AdmissionPlugins};
use crate::registry::{Endpoint, Registry};
use crate::status::Status;
use crate::storage::{Storage, Table};
use crate::user::User;
use crate::webhooks::WebhookClient;

/// The time that admission may take for one write, the same as kube-apiserver's limit of a mutating request.
const WRITE_TIMEOUT: Duration = Duration::from_secs(34);

/// The admission of a server.
pub(crate) struct AdmissionControl {
    cache: Cache,
    namespaces: Arc<Table>,
    client: Arc<WebhookClient>,
    plugins: AdmissionPlugins,
}

impl AdmissionControl {
    pub(crate) fn new(storage: &Storage, client: Arc<WebhookClient>, plugins: AdmissionPlugins) -> Self {
        Self { cache: Cache::new(storage), namespaces: storage.table("", "namespaces"), client, plugins }
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
            notes: Notes::default(),
        });
        Admission { active, notes: Notes::default() }
    }
}

/// The admission of one request.
pub(crate) struct Admission<'a> {
    active: Option<Active<'a>>,
    /// Those of the built-in plugins while nothing is configured.
    notes: Notes,
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
    notes: Notes,
}

impl Admission<'_> {
    /// Returns the admission that allows everything.
    pub(crate) fn bypassed() -> Admission<'static> {
        Admission { active: None, notes: Notes::default() }
    }

    /// Returns what was recorded so far.
    pub(crate) fn notes(&self) -> &Notes {
        self.active.as_ref().map_or(&self.notes, |active| &active.notes)
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
        if !is_policy(write.endpoint)
            && active.control.plugins.acts(AdmissionPlugin::ValidatingAdmissionPolicy)
        {
            policies::validate(active, write, objects).await?;
        }
        if !active.calls_webhooks(write)
            || !active.control.plugins.acts(AdmissionPlugin::ValidatingAdmissionWebhook)
        {
            return Ok(());
        }
        let validation = validating::validate(active, write, objects);
        timeout_at(active.deadline, validation).await.unwrap_or_else(|_| Err(timed_out()))
    }

    /// Takes the warnings so far.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        self.notes().take_warnings()
    }

    /// Takes the annotations of the audit event so far.
    pub(crate) fn take_annotations(&self) -> AuditAnnotations {
        self.notes().take_annotations()
    }
}

impl Active<'_> {
    /// Whether webhooks are called for a write. Their own configurations are exempt, so that a broken webhook can be removed.
    fn calls_webhooks(&self, write: &WriteRequest<'_>) -> bool {
        !self.skips_webhooks && write.endpoint.group != GROUP
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
