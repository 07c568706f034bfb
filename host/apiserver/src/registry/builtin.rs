//! The table of built-in kinds.

use std::sync::{Arc, OnceLock};

use super::{
    Conversion, Endpoint, EndpointDefinition, Names, Resource, ResourceDefinition, ScalePaths, Strategy,
};
use crate::schema::Schema;
use crate::storage::Storage;

/// A row of [`ROWS`].
struct Row {
    version: (&'static str, &'static str),
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    status: bool,
    scale: bool,
    fields: &'static [&'static str],
    flags: &'static [Flag],
}

/// A setting of [`Strategy`] that differs from the default.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flag {
    CreateOnUpdate,
    ConditionalUpdate,
    Generation,
    Review,
    OrphansByDefault,
    ReturnsDeleted,
    ReadOnly,
}

use Flag::{
    ConditionalUpdate, CreateOnUpdate, Generation, OrphansByDefault, ReadOnly, ReturnsDeleted, Review,
};

const fn namespaced(version: (&'static str, &'static str), kind: &'static str, plural: &'static str) -> Row {
    Row {
        version,
        kind,
        plural,
        short: &[],
        categories: &[],
        namespaced: true,
        status: false,
        scale: false,
        fields: &[],
        flags: &[],
    }
}

const fn cluster(version: (&'static str, &'static str), kind: &'static str, plural: &'static str) -> Row {
    Row { namespaced: false, ..namespaced(version, kind, plural) }
}

impl Row {
    const fn short(self, short: &'static [&'static str]) -> Self {
        Self { short, ..self }
    }

    /// Adds the category `all`, so that `kubectl get all` lists the kind.
    const fn in_all(self) -> Self {
        Self { categories: &["all"], ..self }
    }

    const fn categories(self, categories: &'static [&'static str]) -> Self {
        Self { categories, ..self }
    }

    const fn status(self) -> Self {
        Self { status: true, ..self }
    }

    const fn scale(self) -> Self {
        Self { scale: true, ..self }
    }

    const fn fields(self, fields: &'static [&'static str]) -> Self {
        Self { fields, ..self }
    }

    const fn flags(self, flags: &'static [Flag]) -> Self {
        Self { flags, ..self }
    }
}

const CORE: (&str, &str) = ("", "v1");
const APPS: (&str, &str) = ("apps", "v1");
const BATCH: (&str, &str) = ("batch", "v1");
const RBAC: (&str, &str) = ("rbac.authorization.k8s.io", "v1");
const NETWORKING: (&str, &str) = ("networking.k8s.io", "v1");
const AUTHORIZATION: (&str, &str) = ("authorization.k8s.io", "v1");
const AUTHENTICATION: (&str, &str) = ("authentication.k8s.io", "v1");
const STORAGE: (&str, &str) = ("storage.k8s.io", "v1");
const ADMISSION: (&str, &str) = ("admissionregistration.k8s.io", "v1");
const CERTIFICATES: (&str, &str) = ("certificates.k8s.io", "v1");
const DEVICES: (&str, &str) = ("resource.k8s.io", "v1");
const FLOW_CONTROL: (&str, &str) = ("flowcontrol.apiserver.k8s.io", "v1");
const REGISTRATION: (&str, &str) = ("apiregistration.k8s.io", "v1");

/// The category of the kinds that extend the API.
const EXTENSIONS: &[&str] = &["api-extensions"];

const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];
const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

/// The built-in kinds. Names, short names, categories and subresources are those of `kubectl api-resources` in
/// Kubernetes 1.36; selectable fields are those of `k8s.io/kubernetes/pkg/apis/*/v1/conversion.go`.
const ROWS: &[Row] = &[
    namespaced(CORE, "ConfigMap", "configmaps").short(&["cm"]),
    namespaced(CORE, "Endpoints", "endpoints").short(&["ep"]).flags(&[CreateOnUpdate]),
    namespaced(CORE, "Event", "events").short(&["ev"]).fields(EVENT_FIELDS).flags(&[CreateOnUpdate]),
    namespaced(CORE, "LimitRange", "limitranges").short(&["limits"]).flags(&[CreateOnUpdate]),
    cluster(CORE, "Namespace", "namespaces")
        .short(&["ns"])
        .status()
        .fields(&["status.phase"])
        .flags(&[ReturnsDeleted]),
    cluster(CORE, "Node", "nodes").short(&["no"]).status().fields(&["spec.unschedulable"]),
    cluster(CORE, "PersistentVolume", "persistentvolumes").short(&["pv"]).status().flags(&[ReturnsDeleted]),
    namespaced(CORE, "PersistentVolumeClaim", "persistentvolumeclaims")
        .short(&["pvc"])
        .status()
        .flags(&[ReturnsDeleted]),
    namespaced(CORE, "Pod", "pods")
        .short(&["po"])
        .in_all()
        .status()
        .fields(POD_FIELDS)
        .flags(&[ReturnsDeleted, Generation]),
    namespaced(CORE, "PodTemplate", "podtemplates").flags(&[ReturnsDeleted, Generation]),
    namespaced(CORE, "ReplicationController", "replicationcontrollers")
        .short(&["rc"])
        .in_all()
        .status()
        .scale()
        .fields(&["status.replicas"])
        .flags(&[Generation, OrphansByDefault]),
    namespaced(CORE, "ResourceQuota", "resourcequotas").short(&["quota"]).status().flags(&[ReturnsDeleted]),
    namespaced(CORE, "Secret", "secrets").fields(&["type"]),
    namespaced(CORE, "Service", "services")
        .short(&["svc"])
        .in_all()
        .status()
        .fields(&["spec.clusterIP", "spec.type"])
        .flags(&[CreateOnUpdate, ReturnsDeleted]),
    namespaced(CORE, "ServiceAccount", "serviceaccounts").short(&["sa"]).flags(&[ReturnsDeleted]),
    namespaced(APPS, "ControllerRevision", "controllerrevisions"),
    namespaced(APPS, "DaemonSet", "daemonsets").short(&["ds"]).in_all().status().flags(&[Generation]),
    namespaced(APPS, "Deployment", "deployments")
        .short(&["deploy"])
        .in_all()
        .status()
        .scale()
        .flags(&[Generation]),
    namespaced(APPS, "ReplicaSet", "replicasets")
        .short(&["rs"])
        .in_all()
        .status()
        .scale()
        .flags(&[Generation]),
    namespaced(APPS, "StatefulSet", "statefulsets")
        .short(&["sts"])
        .in_all()
        .status()
        .scale()
        .flags(&[Generation]),
    namespaced(BATCH, "CronJob", "cronjobs").short(&["cj"]).in_all().status().flags(&[Generation]),
    namespaced(BATCH, "Job", "jobs")
        .in_all()
        .status()
        .fields(&["status.successful"])
        .flags(&[Generation, OrphansByDefault]),
    namespaced(("autoscaling", "v2"), "HorizontalPodAutoscaler", "horizontalpodautoscalers")
        .short(&["hpa"])
        .in_all()
        .status(),
    namespaced(("coordination.k8s.io", "v1"), "Lease", "leases").flags(&[CreateOnUpdate, ConditionalUpdate]),
    namespaced(("discovery.k8s.io", "v1"), "EndpointSlice", "endpointslices").flags(&[Generation]),
    namespaced(("policy", "v1"), "PodDisruptionBudget", "poddisruptionbudgets")
        .short(&["pdb"])
        .status()
        .flags(&[Generation, ConditionalUpdate]),
    namespaced(NETWORKING, "Ingress", "ingresses").short(&["ing"]).status().flags(&[Generation]),
    cluster(NETWORKING, "IngressClass", "ingressclasses").flags(&[Generation]),
    cluster(NETWORKING, "IPAddress", "ipaddresses").short(&["ip"]),
    cluster(NETWORKING, "ServiceCIDR", "servicecidrs").status(),
    namespaced(NETWORKING, "NetworkPolicy", "networkpolicies").short(&["netpol"]).flags(&[Generation]),
    cluster(RBAC, "ClusterRole", "clusterroles").flags(&[CreateOnUpdate]),
    cluster(RBAC, "ClusterRoleBinding", "clusterrolebindings").flags(&[CreateOnUpdate]),
    namespaced(RBAC, "Role", "roles").flags(&[CreateOnUpdate]),
    namespaced(RBAC, "RoleBinding", "rolebindings").flags(&[CreateOnUpdate]),
    cluster(("scheduling.k8s.io", "v1"), "PriorityClass", "priorityclasses")
        .short(&["pc"])
        .flags(&[Generation]),
    cluster(STORAGE, "StorageClass", "storageclasses").short(&["sc"]).flags(&[ReturnsDeleted]),
    cluster(STORAGE, "CSIDriver", "csidrivers").flags(&[ReturnsDeleted, ConditionalUpdate]),
    cluster(STORAGE, "CSINode", "csinodes").flags(&[ReturnsDeleted]),
    cluster(STORAGE, "VolumeAttachment", "volumeattachments").status().flags(&[ReturnsDeleted]),
    namespaced(STORAGE, "CSIStorageCapacity", "csistoragecapacities").flags(&[ReturnsDeleted]),
    cluster(STORAGE, "VolumeAttributesClass", "volumeattributesclasses")
        .short(&["vac"])
        .flags(&[ReturnsDeleted]),
    cluster(("node.k8s.io", "v1"), "RuntimeClass", "runtimeclasses").flags(&[CreateOnUpdate]),
    cluster(DEVICES, "DeviceClass", "deviceclasses").flags(&[ReturnsDeleted, Generation]),
    namespaced(DEVICES, "ResourceClaim", "resourceclaims").status().flags(&[ReturnsDeleted]),
    namespaced(DEVICES, "ResourceClaimTemplate", "resourceclaimtemplates").flags(&[ReturnsDeleted]),
    cluster(DEVICES, "ResourceSlice", "resourceslices")
        .fields(&["spec.nodeName", "spec.driver"])
        .flags(&[ReturnsDeleted, Generation]),
    cluster(FLOW_CONTROL, "FlowSchema", "flowschemas").status().flags(&[Generation]),
    cluster(FLOW_CONTROL, "PriorityLevelConfiguration", "prioritylevelconfigurations")
        .status()
        .flags(&[Generation]),
    cluster(("apiextensions.k8s.io", "v1"), "CustomResourceDefinition", "customresourcedefinitions")
        .short(&["crd", "crds"])
        .categories(EXTENSIONS)
        .status()
        .flags(&[Generation, ConditionalUpdate, ReturnsDeleted]),
    cluster(ADMISSION, "MutatingAdmissionPolicy", "mutatingadmissionpolicies")
        .categories(EXTENSIONS)
        .flags(&[Generation, ConditionalUpdate]),
    cluster(ADMISSION, "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings")
        .categories(EXTENSIONS)
        .flags(&[Generation, ConditionalUpdate]),
    cluster(ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations")
        .categories(EXTENSIONS)
        .flags(&[Generation, ConditionalUpdate]),
    cluster(ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies")
        .categories(EXTENSIONS)
        .status()
        .flags(&[Generation, ConditionalUpdate]),
    cluster(ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings")
        .categories(EXTENSIONS)
        .flags(&[Generation, ConditionalUpdate]),
    cluster(ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations")
        .categories(EXTENSIONS)
        .flags(&[Generation, ConditionalUpdate]),
    cluster(CERTIFICATES, "CertificateSigningRequest", "certificatesigningrequests")
        .short(&["csr"])
        .status()
        .fields(&["spec.signerName"]),
    cluster(REGISTRATION, "APIService", "apiservices")
        .categories(EXTENSIONS)
        .status()
        .flags(&[ConditionalUpdate]),
    cluster(CORE, "ComponentStatus", "componentstatuses").short(&["cs"]).flags(&[ReadOnly]),
    namespaced(CORE, "Binding", "bindings").flags(&[Review]),
    cluster(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews").flags(&[Review]),
    cluster(AUTHENTICATION, "TokenReview", "tokenreviews").flags(&[Review]),
    cluster(AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews").flags(&[Review]),
    cluster(AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews").flags(&[Review]),
    cluster(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews").flags(&[Review]),
    namespaced(AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews").flags(&[Review]),
];

/// The warning of responses about Endpoints.
const ENDPOINTS_WARNING: &str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

/// The definitions of the built-in kinds. They are the same in all servers of a process: a simulation starts thousands.
static DEFINITIONS: OnceLock<Vec<Definition>> = OnceLock::new();

/// A built-in kind.
struct Definition {
    resource: Arc<ResourceDefinition>,
    endpoints: Vec<Arc<EndpointDefinition>>,
}

/// Creates the endpoints of all built-in kinds.
pub(super) fn endpoints(storage: &Storage) -> Vec<Endpoint> {
    let definitions = DEFINITIONS.get_or_init(|| ROWS.iter().map(Row::definition).collect());
    let of = |definition: &Definition| {
        let table = storage.table(&definition.resource.group, &definition.resource.names.plural);
        let resource = Arc::new(Resource::new(Arc::clone(&definition.resource), table));
        let endpoint = move |endpoint: &Arc<EndpointDefinition>| {
            Endpoint::new(Arc::clone(endpoint), Arc::clone(&resource))
        };
        definition.endpoints.iter().map(endpoint).collect::<Vec<_>>()
    };
    definitions.iter().flat_map(of).collect()
}

impl Row {
    fn definition(&self) -> Definition {
        let resource = self.resource();
        let mut endpoints = vec![self.endpoint(&resource)];
        match self.plural {
            "endpoints" => endpoints[0].deprecation = Some(ENDPOINTS_WARNING.to_owned()),
            "events" => {
                let mut endpoint = EndpointDefinition::new("events.k8s.io", "v1", &resource);
                endpoint.conversion = Conversion::Events;
                endpoint.schema = Schema::builtin("events.k8s.io", "v1", "Event");
                endpoints.push(endpoint);
            }
            "horizontalpodautoscalers" => {
                let mut endpoint = EndpointDefinition::new("autoscaling", "v1", &resource);
                endpoint.conversion = Conversion::Autoscaling;
                endpoint.schema = Schema::builtin("autoscaling", "v1", "HorizontalPodAutoscaler");
                endpoint.has_status = true;
                endpoints.push(endpoint);
            }
            _ => {}
        }
        Definition { resource: Arc::new(resource), endpoints: endpoints.into_iter().map(Arc::new).collect() }
    }

    fn resource(&self) -> ResourceDefinition {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let has = |flag| self.flags.contains(&flag);
        ResourceDefinition {
            group: self.version.0.into(),
            names: Names {
                plural: self.plural.into(),
                singular: self.kind.to_lowercase(),
                kind: self.kind.into(),
                list_kind: format!("{}List", self.kind),
                short: owned(self.short),
                categories: owned(self.categories),
            },
            namespaced: self.namespaced,
            selectable: owned(self.fields),
            strategy: Strategy {
                create_on_update: has(CreateOnUpdate),
                conditional_update: has(ConditionalUpdate),
                tracks_generation: has(Generation),
                is_review: has(Review),
                orphans_by_default: has(OrphansByDefault),
                returns_deleted: has(ReturnsDeleted),
                is_read_only: has(ReadOnly),
            },
            custom: None,
        }
    }

    fn endpoint(&self, resource: &ResourceDefinition) -> EndpointDefinition {
        let (group, version) = self.version;
        let mut endpoint = EndpointDefinition::new(group, version, resource);
        endpoint.schema = Schema::builtin(group, version, self.kind);
        endpoint.has_status = self.status;
        if self.kind == "ComponentStatus" {
            endpoint.deprecation = Some("v1 ComponentStatus is deprecated in v1.19+".into());
        }
        endpoint.scale = self.scale.then(|| ScalePaths {
            spec_replicas: "spec.replicas".into(),
            status_replicas: "status.replicas".into(),
            selector: None,
        });
        endpoint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::HistoryLimits;

    #[test]
    fn every_built_in_kind_has_a_schema() {
        let storage = Storage::new(HistoryLimits { events: 1, bytes: 1 }, 1);
        for endpoint in endpoints(&storage) {
            assert!(endpoint.schema.is_some(), "{} {}", endpoint.api_version, endpoint.kind());
        }
    }
}
