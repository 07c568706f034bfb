//! Webhooks of the stored configurations, ready to be called.

use std::time::Duration;

use serde_json::Value;

use super::conditions::{Conditions, FailurePolicy};
use super::criteria::Criteria;
use super::environment::Environment;
use super::review::ReviewVersion;
use crate::webhooks::Destination;

/// The time that a webhook has if its configuration names none, in seconds.
const DEFAULT_TIMEOUT: u64 = 10;
/// The longest time that a configuration may give a webhook, in seconds.
const MAX_TIMEOUT: u64 = 30;

/// A webhook of a configuration.
pub(crate) struct Webhook {
    pub(super) name: String,
    /// Where it is, or why it cannot be called.
    pub(super) destination: Result<Destination, String>,
    pub(super) criteria: Criteria,
    pub(super) conditions: Conditions,
    pub(super) failure_policy: FailurePolicy,
    pub(super) timeout: Duration,
    /// Whether it is called again after a later webhook changed the object.
    pub(super) is_reinvoked: bool,
    /// Whether it may be called for a dry run.
    pub(super) allows_dry_run: bool,
    pub(super) review_version: Option<ReviewVersion>,
}

impl Webhook {
    /// Reads the webhooks of a configuration, which was validated when it was written. One that cannot be read is logged and left out.
    pub(super) fn parse_all(configuration: &Value) -> Vec<Self> {
        let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
        webhooks
            .filter_map(|webhook| {
                let parsed = Self::parse(webhook);
                if let Err(problem) = &parsed {
                    let name = webhook["name"].as_str().unwrap_or_default();
                    tracing::warn!(
                        webhook = name,
                        problem,
                        "ignoring an admission webhook that cannot be read"
                    );
                }
                parsed.ok()
            })
            .collect()
    }

    fn parse(webhook: &Value) -> Result<Self, String> {
        let timeout = webhook["timeoutSeconds"].as_u64().unwrap_or(DEFAULT_TIMEOUT);
        Ok(Self {
            name: webhook["name"].as_str().unwrap_or_default().to_owned(),
            destination: Destination::parse(&webhook["clientConfig"]),
            criteria: Criteria::of_webhook(webhook)?,
            conditions: Conditions::parse(&webhook["matchConditions"], &Environment::of_conditions(false))?,
            failure_policy: FailurePolicy::parse(&webhook["failurePolicy"]),
            timeout: Duration::from_secs(timeout.clamp(1, MAX_TIMEOUT)),
            is_reinvoked: webhook["reinvocationPolicy"] == "IfNeeded",
            allows_dry_run: matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            review_version: ReviewVersion::first_known(&webhook["admissionReviewVersions"]),
        })
    }
}
