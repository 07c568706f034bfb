//! What the embedded API server and the default controllers of a world do not simulate, by resource. A result that touches one of them says so:
//! what a plugin does about it in a cluster, the simulation cannot show.

use std::collections::BTreeSet;

use crate::run::{Author, Event, EventKind};

/// Something that a cluster does and the world does not.
struct Gap {
    /// The resource as `plural.group`.
    resource: &'static str,
    /// What is missing.
    text: &'static str,
    /// The built-in controller of the server that does it if the scenario names it in `controllers`.
    controller: Option<&'static str>,
}

const fn always(resource: &'static str, text: &'static str) -> Gap {
    Gap { resource, text, controller: None }
}

const fn without(controller: &'static str, resource: &'static str, text: &'static str) -> Gap {
    Gap { resource, text, controller: Some(controller) }
}

/// The table, in the order of the resources.
const GAPS: [Gap; 28] = [
    always("apiservices.apiregistration.k8s.io", "APIService: requests are not passed on to its Service"),
    without(
        "certificatesigningrequest-signing-controller",
        "certificatesigningrequests.certificates.k8s.io",
        "CertificateSigningRequest: nobody signs it",
    ),
    without(
        "clusterrole-aggregation-controller",
        "clusterroles.rbac.authorization.k8s.io",
        "ClusterRole: the rules of an aggregated role are not filled in",
    ),
    without("cronjob-controller", "cronjobs.batch", "CronJob: no controller creates its Jobs"),
    without("daemonset-controller", "daemonsets.apps", "DaemonSet: no controller creates its Pods"),
    without("deployment-controller", "deployments.apps", "Deployment: no controller creates its ReplicaSets"),
    always(
        "horizontalpodautoscalers.autoscaling",
        "HorizontalPodAutoscaler: there are no metrics, so it only keeps the replicas in its range",
    ),
    always("ingresses.networking.k8s.io", "Ingress: no controller, so its status stays empty"),
    without("job-controller", "jobs.batch", "Job: no controller creates its Pods"),
    always("limitranges", "LimitRange: not enforced"),
    always(
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "MutatingWebhookConfiguration: webhooks are not called",
    ),
    always("networkpolicies.networking.k8s.io", "NetworkPolicy: not enforced"),
    always("nodes", "Node: no cloud provider, and no eviction"),
    always(
        "persistentvolumeclaims",
        "PersistentVolumeClaim: no volume is provisioned, so it stays Pending; a deleted one does not wait for its Pods",
    ),
    always("persistentvolumes", "PersistentVolume: it is not bound"),
    without(
        "disruption-controller",
        "poddisruptionbudgets.policy",
        "PodDisruptionBudget: no controller computes its status, so evictions are not limited as in a cluster",
    ),
    without("kubelet", "pods", "Pod: it does not start, because there is no kubelet"),
    without("scheduler", "pods", "Pod: it is not scheduled"),
    without("replicaset-controller", "replicasets.apps", "ReplicaSet: no controller creates its Pods"),
    without(
        "replicationcontroller-controller",
        "replicationcontrollers",
        "ReplicationController: no controller creates its Pods",
    ),
    always("resourcequotas", "ResourceQuota: not enforced"),
    always("resourceclaims.resource.k8s.io", "ResourceClaim: no device is allocated"),
    without("serviceaccount-controller", "serviceaccounts", "ServiceAccount: `default` is not created"),
    without("endpointslice-controller", "services", "Service: no EndpointSlices, and no load balancer"),
    without("statefulset-controller", "statefulsets.apps", "StatefulSet: no controller creates its Pods"),
    always(
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration: webhooks are not called",
    ),
    always("volumeattachments.storage.k8s.io", "VolumeAttachment: nothing is attached"),
    always("volumesnapshots.snapshot.storage.k8s.io", "VolumeSnapshot: no snapshot is taken"),
];

/// Returns what is not simulated of the objects that plugins, actors and scenarios wrote. `runs` says whether a built-in controller runs.
pub(crate) fn touched(events: &[Event], runs: impl Fn(&str) -> bool) -> BTreeSet<&'static str> {
    let mut written = BTreeSet::new();
    for event in events {
        if let EventKind::Request(request) = &event.kind
            && request.changed
            && matches!(request.author, Author::Plugin(_) | Author::Actor(_))
        {
            written.insert(request.resource.as_str());
        }
    }
    let is_touched = |gap: &&Gap| written.contains(gap.resource) && !gap.controller.is_some_and(&runs);
    GAPS.iter().filter(is_touched).map(|gap| gap.text).collect()
}

#[cfg(test)]
mod tests {
    use pilothouse_apiserver::Controllers;
    use serde_json::json;

    use super::*;
    use crate::testing::RunBuilder;

    #[test]
    fn what_was_written_and_has_no_controller_is_named() {
        let mut run = RunBuilder::new();
        run.actor("user", "create", "resourcequotas", "a/quota", Some(json!({})));
        run.start("a/x");
        run.write("create", "deployments.apps", "a/x", Some(json!({})));
        run.write("create", "configmaps", "a/x", Some(json!({})));
        let events = run.finish().events;
        let found = |runs: bool| touched(&events, |_| runs).into_iter().collect::<Vec<_>>();
        assert_eq!(
            found(false),
            ["Deployment: no controller creates its ReplicaSets", "ResourceQuota: not enforced"]
        );
        assert_eq!(found(true), ["ResourceQuota: not enforced"]);
    }

    #[test]
    fn the_controllers_of_the_table_exist() {
        for name in GAPS.iter().filter_map(|gap| gap.controller) {
            assert!(Controllers::names().any(|known| known == name), "{name}");
        }
    }
}
