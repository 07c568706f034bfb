//! Calls validating webhooks, all at the same time, after `k8s.io/apiserver/pkg/admission/plugin/webhook/validating`.

use futures::FutureExt;
use futures::stream::{self, StreamExt};

use super::Active;
use super::call::{CallError, Invocation, call, plan};
use super::request::{Objects, WriteRequest};
use super::review;
use super::webhook::Webhook;
use crate::status::Status;

/// How many webhooks are called for one write at the same time.
const MAX_PARALLEL: usize = 16;

/// Asks the webhooks whether a write is allowed. If several deny it, the error is that of the first in their order.
pub(super) async fn validate(
    active: &Active<'_>,
    write: &WriteRequest<'_>,
    objects: Objects<'_>,
) -> Result<(), Status> {
    let mut planned = Vec::new();
    for webhook in &active.configuration.validating {
        if let Some(invocation) = plan(active, webhook, write, objects).await? {
            planned.push((webhook, invocation));
        }
    }
    let mut calls = Vec::with_capacity(planned.len());
    for (webhook, invocation) in &planned {
        calls.push(ask(active, webhook, write, invocation).boxed());
    }
    let results: Vec<Result<(), Status>> = stream::iter(calls).buffered(MAX_PARALLEL).collect().await;
    results.into_iter().collect()
}

async fn ask(
    active: &Active<'_>,
    webhook: &Webhook,
    write: &WriteRequest<'_>,
    invocation: &Invocation,
) -> Result<(), Status> {
    let decision = call(active, webhook, write, invocation, false).await;
    let decision = decision.and_then(|decision| {
        decision
            .outcome
            .map(drop)
            .map_err(|status| CallError::Refused(review::denial(&webhook.name, &status)))
    });
    match decision {
        Ok(()) => Ok(()),
        Err(error) => error.into_status(webhook).map_or(Ok(()), Err),
    }
}
