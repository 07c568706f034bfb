//! The kind of a watch: which resource serves it, and whether the watch fits its scope.

use pilothouse_model::{GroupVersionKind, ResourceType};
use tokio::time::sleep;

use super::super::authorization::{LoadAuthorization, crd_not_granted};
use super::super::{LoadProblem, LoadStep, RECHECK_INTERVAL, Report};
use crate::client::{DiscoveryError, Freshness};
use crate::config::descriptor::{Descriptor, Watch};
use crate::lifecycle::WaitingFor;

/// Returns the resource that serves the kind of a watch. Waits until the kind is served, and reports at intervals that it is not.
pub(super) async fn resolve(
    authorization: &LoadAuthorization<'_>,
    descriptor: &Descriptor,
    watch: &Watch,
    report: &Report,
) -> Result<ResourceType, LoadProblem> {
    let kind = type_of(watch)?;
    let own_crd =
        descriptor.own_crd(&watch.api_version, &watch.kind).filter(|_| !authorization.applies_crds());
    loop {
        match authorization
            .services
            .discovery
            .resolve(kind, watch.resource.as_deref(), Freshness::Fresh)
            .await
        {
            Ok(resource) => {
                check_namespaces(watch, &resource)?;
                return Ok(resource);
            }
            Err(error @ DiscoveryError::InvalidList { .. }) => return Err(error.into()),
            Err(error) => {
                let name = watch.name.clone();
                report(LoadStep::Waiting(match (&error, own_crd) {
                    (DiscoveryError::NotServed { .. }, Some(crd)) => {
                        let problem = crd_not_granted(watch, &authorization.sidecar_location(), crd.name);
                        WaitingFor::CrdGrant { watch: name, problem }
                    }
                    _ => WaitingFor::Kind { watch: name, problem: error.to_string() },
                }));
            }
        }
        sleep(RECHECK_INTERVAL).await;
    }
}

/// Parses the type that a watch names. Descriptors with an invalid type have been refused before.
pub(crate) fn type_of(watch: &Watch) -> Result<GroupVersionKind<'_>, LoadProblem> {
    let read = GroupVersionKind::parse(&watch.api_version, &watch.kind);
    read.map_err(|error| LoadProblem::Informer { watch: watch.name.clone(), problem: error.to_string() })
}

/// Errors if a watch restricts a cluster-scoped kind to namespaces; a Role could not grant that either.
pub(crate) fn check_namespaces(watch: &Watch, resource: &ResourceType) -> Result<(), LoadProblem> {
    if resource.namespaced || watch.namespaces.is_empty() {
        return Ok(());
    }
    Err(LoadProblem::ClusterScoped { watch: watch.name.clone(), kind: watch.kind.clone() })
}
