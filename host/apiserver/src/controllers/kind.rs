//! The built-in kinds that controllers read and write.

use crate::registry::Endpoint;

/// A built-in kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    CertificateSigningRequest,
    ConfigMap,
    ControllerRevision,
    CronJob,
    DaemonSet,
    Deployment,
    EndpointSlice,
    Endpoints,
    Event,
    HorizontalPodAutoscaler,
    Job,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    StorageClass,
    ValidatingAdmissionPolicy,
    VolumeAttributesClass,
}

impl Kind {
    pub(super) const ALL: [Self; 24] = [
        Self::CertificateSigningRequest,
        Self::ConfigMap,
        Self::ControllerRevision,
        Self::CronJob,
        Self::DaemonSet,
        Self::Deployment,
        Self::EndpointSlice,
        Self::Endpoints,
        Self::Event,
        Self::HorizontalPodAutoscaler,
        Self::Job,
        Self::Namespace,
        Self::Node,
        Self::PersistentVolume,
        Self::PersistentVolumeClaim,
        Self::Pod,
        Self::PodDisruptionBudget,
        Self::ReplicaSet,
        Self::ReplicationController,
        Self::Service,
        Self::StatefulSet,
        Self::StorageClass,
        Self::ValidatingAdmissionPolicy,
        Self::VolumeAttributesClass,
    ];

    /// Returns the kind that an endpoint stores, or `None` if controllers do not use it.
    pub(super) fn of(endpoint: &Endpoint) -> Option<Self> {
        let resource = &endpoint.resource;
        Self::ALL.into_iter().find(|kind| {
            let (group, _, plural) = kind.resource();
            resource.names.plural == plural && resource.group == group
        })
    }

    /// Returns the group, version and plural name.
    pub(super) fn resource(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::CertificateSigningRequest => ("certificates.k8s.io", "v1", "certificatesigningrequests"),
            Self::ConfigMap => ("", "v1", "configmaps"),
            Self::ControllerRevision => ("apps", "v1", "controllerrevisions"),
            Self::CronJob => ("batch", "v1", "cronjobs"),
            Self::DaemonSet => ("apps", "v1", "daemonsets"),
            Self::Deployment => ("apps", "v1", "deployments"),
            Self::EndpointSlice => ("discovery.k8s.io", "v1", "endpointslices"),
            Self::Endpoints => ("", "v1", "endpoints"),
            Self::Event => ("", "v1", "events"),
            Self::HorizontalPodAutoscaler => ("autoscaling", "v2", "horizontalpodautoscalers"),
            Self::Job => ("batch", "v1", "jobs"),
            Self::Namespace => ("", "v1", "namespaces"),
            Self::Node => ("", "v1", "nodes"),
            Self::PersistentVolume => ("", "v1", "persistentvolumes"),
            Self::PersistentVolumeClaim => ("", "v1", "persistentvolumeclaims"),
            Self::Pod => ("", "v1", "pods"),
            Self::PodDisruptionBudget => ("policy", "v1", "poddisruptionbudgets"),
            Self::ReplicaSet => ("apps", "v1", "replicasets"),
            Self::ReplicationController => ("", "v1", "replicationcontrollers"),
            Self::Service => ("", "v1", "services"),
            Self::StatefulSet => ("apps", "v1", "statefulsets"),
            Self::StorageClass => ("storage.k8s.io", "v1", "storageclasses"),
            Self::ValidatingAdmissionPolicy => {
                ("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies")
            }
            Self::VolumeAttributesClass => ("storage.k8s.io", "v1", "volumeattributesclasses"),
        }
    }

    /// Returns `apiVersion`.
    pub(super) fn api_version(self) -> String {
        match self.resource() {
            ("", version, _) => version.to_owned(),
            (group, version, _) => format!("{group}/{version}"),
        }
    }

    /// Returns `kind`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CertificateSigningRequest => "CertificateSigningRequest",
            Self::ConfigMap => "ConfigMap",
            Self::ControllerRevision => "ControllerRevision",
            Self::CronJob => "CronJob",
            Self::DaemonSet => "DaemonSet",
            Self::Deployment => "Deployment",
            Self::EndpointSlice => "EndpointSlice",
            Self::Endpoints => "Endpoints",
            Self::Event => "Event",
            Self::HorizontalPodAutoscaler => "HorizontalPodAutoscaler",
            Self::Job => "Job",
            Self::Namespace => "Namespace",
            Self::Node => "Node",
            Self::PersistentVolume => "PersistentVolume",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::Pod => "Pod",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::ReplicaSet => "ReplicaSet",
            Self::ReplicationController => "ReplicationController",
            Self::Service => "Service",
            Self::StatefulSet => "StatefulSet",
            Self::StorageClass => "StorageClass",
            Self::ValidatingAdmissionPolicy => "ValidatingAdmissionPolicy",
            Self::VolumeAttributesClass => "VolumeAttributesClass",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::storage::{HistoryLimits, Storage};

    #[test]
    fn every_kind_is_served_under_its_names() {
        let storage = Storage::new(HistoryLimits { events: 1, bytes: 1 }, 1);
        let registry = Registry::built_in(&storage);
        for kind in Kind::ALL {
            let (group, version, plural) = kind.resource();
            let endpoint = registry.endpoint(group, version, plural).unwrap_or_else(|| panic!("{kind:?}"));
            assert_eq!((endpoint.kind(), &endpoint.api_version), (kind.name(), &kind.api_version()));
            assert_eq!(Kind::of(endpoint), Some(kind));
        }
    }
}
