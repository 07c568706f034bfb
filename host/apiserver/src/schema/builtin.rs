//! The schemas of the built-in kinds, generated from the types of `k8s-openapi`.

use std::sync::{Arc, OnceLock};

use k8s_openapi::schemars::{JsonSchema, SchemaGenerator};
use pilothouse_model::hash::HashMap;
use serde_json::{Map, Value};

use super::Schema;
use super::node::{Arena, NodeId, SchemaRef};
use super::parse::Parser;
use super::topology;

/// A built-in kind.
#[derive(Clone, Copy, Debug)]
pub struct BuiltinKind {
    /// The API group; empty for core.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Adds the kind's definition to a generator and returns its name.
    add_definition: fn(&mut SchemaGenerator) -> String,
}

/// The OpenAPI definitions of all built-in types, and the kinds among them.
#[derive(Debug)]
pub struct Definitions {
    /// The schemas by definition name, such as `io.k8s.api.core.v1.Pod`. References have the form
    /// `#/components/schemas/NAME`.
    pub schemas: Map<String, Value>,
    /// The kinds, each with the name of its definition.
    pub kinds: Vec<(BuiltinKind, String)>,
}

fn add_definition<T: JsonSchema>(generator: &mut SchemaGenerator) -> String {
    generator.subschema_for::<T>();
    T::schema_name().into_owned()
}

macro_rules! kinds {
    ($($group:literal $version:literal in $module:path { $($kind:ident),+ $(,)? })+) => {
        &[$($({
            use $module as module;
            BuiltinKind {
                group: $group,
                version: $version,
                kind: stringify!($kind),
                add_definition: add_definition::<module::$kind>,
            }
        }),+),+]
    };
}

/// All kinds with a built-in schema.
pub const KINDS: &[BuiltinKind] = kinds! {
    "" "v1" in k8s_openapi::api::core::v1 {
        Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume,
        PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
    }
    "apps" "v1" in k8s_openapi::api::apps::v1 { ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet }
    "batch" "v1" in k8s_openapi::api::batch::v1 { CronJob, Job }
    "autoscaling" "v1" in k8s_openapi::api::autoscaling::v1 { HorizontalPodAutoscaler, Scale }
    "autoscaling" "v2" in k8s_openapi::api::autoscaling::v2 { HorizontalPodAutoscaler }
    "networking.k8s.io" "v1" in k8s_openapi::api::networking::v1 {
        Ingress, IngressClass, IPAddress, NetworkPolicy, ServiceCIDR,
    }
    "policy" "v1" in k8s_openapi::api::policy::v1 { Eviction, PodDisruptionBudget }
    "rbac.authorization.k8s.io" "v1" in k8s_openapi::api::rbac::v1 {
        ClusterRole, ClusterRoleBinding, Role, RoleBinding,
    }
    "storage.k8s.io" "v1" in k8s_openapi::api::storage::v1 {
        CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
    }
    "scheduling.k8s.io" "v1" in k8s_openapi::api::scheduling::v1 { PriorityClass }
    "coordination.k8s.io" "v1" in k8s_openapi::api::coordination::v1 { Lease }
    "discovery.k8s.io" "v1" in k8s_openapi::api::discovery::v1 { EndpointSlice }
    "events.k8s.io" "v1" in k8s_openapi::api::events::v1 { Event }
    "node.k8s.io" "v1" in k8s_openapi::api::node::v1 { RuntimeClass }
    "resource.k8s.io" "v1" in k8s_openapi::api::resource::v1 {
        DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice,
    }
    "flowcontrol.apiserver.k8s.io" "v1" in k8s_openapi::api::flowcontrol::v1 {
        FlowSchema, PriorityLevelConfiguration,
    }
    "admissionregistration.k8s.io" "v1" in k8s_openapi::api::admissionregistration::v1 {
        MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
    }
    "certificates.k8s.io" "v1" in k8s_openapi::api::certificates::v1 { CertificateSigningRequest }
    "authentication.k8s.io" "v1" in k8s_openapi::api::authentication::v1 {
        SelfSubjectReview, TokenRequest, TokenReview,
    }
    "authorization.k8s.io" "v1" in k8s_openapi::api::authorization::v1 {
        LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
    }
    "apiextensions.k8s.io" "v1" in k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 {
        CustomResourceDefinition,
    }
    "apiregistration.k8s.io" "v1" in k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 { APIService }
};

/// Fields that the OpenAPI document requires and kube-apiserver does not.
const NOT_REQUIRED: [(&str, &str); 9] = [
    ("io.k8s.api.batch.v1.PodFailurePolicy", "rules"),
    ("io.k8s.api.core.v1.HTTPHeader", "value"),
    ("io.k8s.api.core.v1.ISCSIPersistentVolumeSource", "lun"),
    ("io.k8s.api.core.v1.ISCSIVolumeSource", "lun"),
    ("io.k8s.api.core.v1.LimitRangeSpec", "limits"),
    ("io.k8s.api.core.v1.LocalObjectReference", "name"),
    ("io.k8s.api.core.v1.SleepAction", "seconds"),
    ("io.k8s.api.core.v1.Sysctl", "value"),
    ("io.k8s.api.storage.v1.CSINodeSpec", "drivers"),
];

/// Returns the definitions of all built-in types, which the first call generates.
pub fn definitions() -> &'static Definitions {
    static DEFINITIONS: OnceLock<Definitions> = OnceLock::new();
    DEFINITIONS.get_or_init(|| {
        let mut generator = SchemaGenerator::default();
        let kinds: Vec<_> = KINDS.iter().map(|kind| (*kind, (kind.add_definition)(&mut generator))).collect();
        add_definition::<k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions>(&mut generator);
        add_definition::<k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta>(&mut generator);
        add_definition::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Status>(&mut generator);
        let mut schemas = generator.take_definitions(true);
        for (_, definition) in &kinds {
            // The generated types require metadata, since it is not an `Option` there. Kubernetes does not.
            if let Some(required) = schemas.get_mut(definition).and_then(|schema| schema.get_mut("required"))
            {
                let names =
                    required.as_array().into_iter().flatten().filter(|name| *name != "metadata").cloned();
                *required = names.collect();
            }
        }
        for (definition, name) in NOT_REQUIRED {
            let required = schemas.get_mut(definition).and_then(|schema| schema.get_mut("required"));
            if let Some(Value::Array(names)) = required {
                names.retain(|required| required != name);
            }
        }
        topology::annotate(&mut schemas);
        schemas.values_mut().for_each(rewrite_references);
        Definitions { schemas, kinds }
    })
}

/// Rewrites JSON schema references to OpenAPI references.
fn rewrite_references(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::String(target)) = object.get_mut("$ref")
                && let Some(name) = target.rsplit('/').next()
            {
                *target = format!("#/components/schemas/{name}");
            }
            object.values_mut().for_each(rewrite_references);
        }
        Value::Array(items) => items.iter_mut().for_each(rewrite_references),
        _ => {}
    }
}

/// The parsed schemas of all built-in kinds, which share an arena.
struct ParsedSchemas {
    arena: Arc<Arena>,
    delete_options: NodeId,
    json_schema_props: NodeId,
    list_meta: NodeId,
    status: NodeId,
    kinds: HashMap<(&'static str, &'static str, &'static str), Arc<Schema>>,
}

fn parsed_schemas() -> &'static ParsedSchemas {
    static PARSED: OnceLock<ParsedSchemas> = OnceLock::new();
    PARSED.get_or_init(|| {
        let definitions = definitions();
        let mut parser = Parser::with_definitions(&definitions.schemas);
        let roots: Vec<(BuiltinKind, NodeId)> =
            definitions.kinds.iter().map(|(kind, name)| (*kind, parser.definition(name))).collect();
        let delete_options = parser.definition("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
        let json_schema_props =
            parser.definition("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
        let list_meta = parser.definition("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta");
        let status = parser.definition("io.k8s.apimachinery.pkg.apis.meta.v1.Status");
        let arena = Arc::new(parser.into_arena());
        let kinds = roots
            .into_iter()
            .map(|(kind, root)| {
                let schema = Schema::built_in(Arc::clone(&arena), root, kind);
                ((kind.group, kind.version, kind.kind), Arc::new(schema))
            })
            .collect();
        ParsedSchemas { arena, delete_options, json_schema_props, list_meta, status, kinds }
    })
}

/// Returns the schema of a built-in kind.
pub(super) fn schema(group: &str, version: &str, kind: &str) -> Option<Arc<Schema>> {
    parsed_schemas().kinds.get(&(group, version, kind)).cloned()
}

/// Returns the schema of `DeleteOptions`, a kind of every group and version.
pub(super) fn delete_options() -> SchemaRef<'static> {
    let schemas = parsed_schemas();
    SchemaRef::new(&schemas.arena, schemas.delete_options)
}

/// Returns the schema of `JSONSchemaProps`, of which the schemas in CRDs consist.
pub(super) fn json_schema_props() -> SchemaRef<'static> {
    let schemas = parsed_schemas();
    SchemaRef::new(&schemas.arena, schemas.json_schema_props)
}

/// Returns the schema of `ListMeta`, the metadata of every list.
pub(super) fn list_meta() -> SchemaRef<'static> {
    let schemas = parsed_schemas();
    SchemaRef::new(&schemas.arena, schemas.list_meta)
}

/// Returns the schema of `Status`, the kind of errors.
pub(super) fn status() -> SchemaRef<'static> {
    let schemas = parsed_schemas();
    SchemaRef::new(&schemas.arena, schemas.status)
}
