//! Endpoints: a stored resource as one version of a group serves it.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

use super::{Resource, ResourceDefinition};
use crate::conversion::{ConversionWebhook, autoscalers, core_events};
use crate::patch::apply::CustomVersions;
use crate::schema::{self, Schema};
use crate::status::{ResourceRef, Status};
use crate::storage::{ObjectDraft, StoredObject};
use crate::table::Columns;

/// A resource of one server, as one version of an API group serves it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    definition: Arc<EndpointDefinition>,
    pub resource: Arc<Resource>,
}

/// What an endpoint is, without the objects that it serves.
#[derive(Debug)]
pub(crate) struct EndpointDefinition {
    /// Identifies the definition in the cache of an event's serialized bytes.
    pub id: usize,
    pub group: String,
    pub version: String,
    /// `GROUP/VERSION`, or `VERSION` in the core group.
    pub api_version: String,
    pub conversion: Conversion,
    /// The webhook that converts custom resources from and to this version.
    pub webhook: Option<Arc<ConversionWebhook>>,
    /// The schema of the objects; `None` if it is not known.
    pub schema: Option<Arc<Schema>>,
    /// All versions of a custom resource, served or not; `None` for a built-in resource.
    pub versions: Option<Arc<CustomVersions>>,
    /// The form in which a custom resource is stored, and that of this version; `None` for a built-in resource.
    pub forms: Option<CustomForms>,
    /// Whether the status subresource is served.
    pub has_status: bool,
    /// The fields behind the scale subresource, if it is served.
    pub scale: Option<ScalePaths>,
    /// The printer columns of `kubectl get`.
    pub columns: Columns,
    /// The warning that every response carries if the version is deprecated.
    pub deprecation: Option<String>,
    /// The CRD's `openAPIV3Schema`, with [`SELECTABLE_FIELDS`].
    pub open_api: Option<Value>,
    /// The start of every serialized object: `{"kind":…,"apiVersion":…,`.
    type_meta: Bytes,
}

/// The schemas that determine which fields a custom resource has where it is stored, and where it is served.
#[derive(Clone, Debug)]
pub(crate) struct CustomForms {
    /// The schema of the CRD's storage version, and its identity.
    pub stored: (Arc<Schema>, u64),
    /// The identity of the schema of the served version.
    pub served: u64,
}

/// The extension of the schema of a custom resource with the fields that field selectors may have.
pub(crate) const SELECTABLE_FIELDS: &str = "x-kubernetes-selectable-fields";

/// Returns the identity of a CRD's `openAPIV3Schema`: equal schemas have the same one, which is not 0.
pub(crate) fn schema_identity(open_api: &Value) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(open_api.to_string()) | 1
}

/// The conversion between the stored form and the served form, besides `apiVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Both forms are the same.
    None,
    /// Stored as core/v1 Event, served as events.k8s.io/v1 Event.
    Events,
    /// Stored as autoscaling/v2 HorizontalPodAutoscaler, served as autoscaling/v1.
    Autoscaling,
}

/// The JSON paths of a CRD's `subresources.scale`, without the leading dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub selector: Option<String>,
}

impl Deref for Endpoint {
    type Target = EndpointDefinition;

    fn deref(&self) -> &EndpointDefinition {
        &self.definition
    }
}

impl EndpointDefinition {
    pub(crate) fn new(group: &str, version: &str, resource: &ResourceDefinition) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let type_meta =
            format!("{{\"kind\":{},\"apiVersion\":{},", quote(&resource.names.kind), quote(&api_version));
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            group: group.to_owned(),
            version: version.to_owned(),
            api_version,
            conversion: Conversion::None,
            webhook: None,
            schema: None,
            versions: None,
            forms: None,
            has_status: false,
            scale: None,
            columns: Columns::built_in(group, &resource.names.kind),
            deprecation: None,
            open_api: None,
            type_meta: Bytes::from(type_meta),
        }
    }
}

impl Endpoint {
    /// Creates the endpoint of a resource from its definition.
    pub(crate) fn new(definition: Arc<EndpointDefinition>, resource: Arc<Resource>) -> Self {
        Self { definition, resource }
    }

    /// Returns the kind.
    pub(crate) fn kind(&self) -> &str {
        &self.resource.names.kind
    }

    /// Returns the names that error messages use.
    pub(crate) fn resource_ref(&self) -> ResourceRef<'_> {
        ResourceRef {
            group: &self.group,
            plural: &self.resource.names.plural,
            kind: &self.resource.names.kind,
        }
    }

    /// Returns the verbs that discovery lists.
    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        if self.resource.strategy.is_review {
            &["create"]
        } else if self.resource.strategy.is_read_only {
            &["get", "list"]
        } else if self.is_core("namespaces") {
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        } else {
            &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        }
    }

    /// Returns whether objects can be served in Kubernetes' protobuf encoding.
    pub(crate) fn has_protobuf(&self) -> bool {
        self.resource.custom.is_none() && schema::has_protobuf(&self.group, &self.version, self.kind())
    }

    /// Returns whether this is an endpoint of the core resource with this plural name.
    pub(crate) fn is_core(&self, plural: &str) -> bool {
        self.group.is_empty() && self.resource.names.plural == plural
    }

    /// Checks that the subresource `name` is served.
    ///
    /// # Errors
    /// 404 if it is not.
    pub(crate) fn require_subresource(&self, name: &str) -> Result<(), Status> {
        let served = match name {
            "status" => self.has_status,
            "scale" => self.scale.is_some(),
            "finalize" => self.is_core("namespaces"),
            "token" => self.is_core("serviceaccounts"),
            "approval" => self.group == "certificates.k8s.io" && self.has_status,
            "binding" | "ephemeralcontainers" | "eviction" | "resize" => self.is_core("pods"),
            _ => false,
        };
        if served { Ok(()) } else { Err(Status::no_such_resource()) }
    }

    /// Returns the serialized object, as responses and watch events carry it.
    pub(crate) fn object_bytes(&self, stored: &StoredObject) -> Bytes {
        let mut out = BytesMut::with_capacity(self.type_meta.len() + stored.body().len());
        self.put_object(&mut out, stored);
        out.freeze()
    }

    /// Appends the serialized object to `out`; see [`Endpoint::object_bytes`].
    pub(crate) fn put_object(&self, out: &mut BytesMut, stored: &StoredObject) {
        match self.conversion {
            Conversion::None if self.is_served_as_stored(stored) => {
                out.put_slice(&self.type_meta);
                out.put_slice(&stored.tail());
            }
            Conversion::None | Conversion::Events | Conversion::Autoscaling => {
                out.put_slice(
                    &serde_json::to_vec(&self.served_value(stored)).expect("a JSON value has string keys"),
                );
            }
        }
    }

    /// Appends the object as an item of a list. As in Kubernetes, items of built-in kinds lack `apiVersion` and `kind`
    /// and custom resources have them.
    pub(crate) fn put_item(&self, out: &mut BytesMut, stored: &StoredObject) {
        if self.resource.custom.is_some() || self.conversion != Conversion::None {
            self.put_object(out, stored);
        } else {
            out.put_slice(stored.body());
        }
    }

    /// Returns the object as this endpoint serves it.
    pub(crate) fn served_value(&self, stored: &StoredObject) -> Value {
        self.to_served(self.decoded(stored))
    }

    /// Returns whether no schema has to be applied to the object.
    fn is_served_as_stored(&self, stored: &StoredObject) -> bool {
        match &self.forms {
            None => true,
            // A webhook has converted the object to this version, if it was in another one.
            Some(forms) if self.webhook.is_some() => stored.schema == forms.served,
            Some(forms) => stored.schema == forms.stored.1 && forms.served == forms.stored.1,
        }
    }

    /// Parses the object. A custom resource that was written under another schema than today's is pruned and defaulted by that of the storage
    /// version, as kube-apiserver does when it reads from etcd. Then the fields that the served version lacks are removed.
    fn decoded(&self, stored: &StoredObject) -> Value {
        let mut value = stored.value();
        let Some(CustomForms { stored: (schema, identity), served }) = &self.forms else { return value };
        if self.webhook.is_some() {
            if let Some(own) = self.schema.as_ref().filter(|_| stored.schema != *served) {
                own.give_form(&mut value);
            }
            return value;
        }
        if stored.schema != *identity {
            schema.give_form(&mut value);
        }
        if served != identity
            && let Some(own) = &self.schema
        {
            own.prune(&mut value);
        }
        value
    }

    /// Returns whether the stored object has fields that the schema of the storage version lacks, or lacks defaults of it, or is in another
    /// version. Migrations to another storage version rely on that: they write each object without a change.
    pub(crate) fn has_outdated_form(&self, stored: &StoredObject) -> bool {
        let Some(CustomForms { stored: (schema, identity), .. }) = &self.forms else { return false };
        if !self.is_in_storage_version(stored) {
            return true;
        }
        if stored.schema == *identity {
            return false;
        }
        let before = stored.value();
        let mut value = before.clone();
        schema.give_form(&mut value);
        value != before
    }

    /// Creates the draft of an object that is to be stored, from its served form.
    pub(crate) fn draft(&self, served: Value) -> ObjectDraft {
        let schema = self.forms.as_ref().map_or(0, |forms| forms.stored.1);
        ObjectDraft { schema, ..self.resource.draft(self.to_stored(served)) }
    }

    /// Converts a value from the stored form to the served form.
    pub(crate) fn to_served(&self, mut value: Value) -> Value {
        match self.conversion {
            Conversion::None => {}
            Conversion::Events => core_events::to_events_v1(&mut value),
            Conversion::Autoscaling => autoscalers::to_v1(&mut value),
        }
        value["apiVersion"] = self.api_version.as_str().into();
        value["kind"] = self.kind().into();
        value
    }

    /// Converts a value from the served form to the stored form.
    pub(crate) fn to_stored(&self, mut value: Value) -> Value {
        if let Some(CustomForms { stored: (schema, identity), served }) = &self.forms
            && served != identity
        {
            schema.give_form(&mut value);
        }
        match self.conversion {
            Conversion::None => {}
            Conversion::Events => core_events::to_core(&mut value),
            Conversion::Autoscaling => autoscalers::to_v2(&mut value),
        }
        value
    }
}

fn quote(text: &str) -> String {
    Value::from(text).to_string()
}
