use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

use super::Resource;
use crate::conversion::{autoscalers, core_events};
use crate::schema::Schema;
use crate::status::{About, Status};
use crate::storage::StoredObject as Stored;
use crate::table::Columns;

/// A resource as one version of one group serves it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Tells endpoints apart in the cache of an event's bytes.
    pub id: usize,
    pub group: String,
    pub version: String,
    /// `v1` or `GROUP/VERSION`.
    pub api_version: String,
    pub resource: Arc<Resource>,
    pub conversion: Conversion,
    /// The schema; none for a kind that is only answered, or whose schema is not known.
    pub schema: Option<Arc<Schema>>,
    /// Whether there is a `/status`.
    pub status: bool,
    /// How `/scale` reads and writes the object, if it is there.
    pub scale: Option<ScalePaths>,
    /// The columns of its table.
    pub columns: Columns,
    /// What a warning says to users of a deprecated version.
    pub deprecation: Option<String>,
    /// The CRD's `openAPIV3Schema`.
    pub open_api: Option<Value>,
    /// `{"kind":…,"apiVersion":…,`.
    prefix: Bytes,
}

/// How the stored form and the served form differ, besides `apiVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Not at all.
    None,
    /// Stored as core/v1 Event, served as events.k8s.io/v1 Event.
    Events,
    /// Stored as autoscaling/v2 HorizontalPodAutoscaler, served as autoscaling/v1.
    Autoscaling,
}

/// JSON paths, without the leading dot, as a CRD's `subresources.scale` has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub selector: Option<String>,
}

impl Endpoint {
    pub(crate) fn new(group: &str, version: &str, resource: Arc<Resource>) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let prefix =
            format!("{{\"kind\":{},\"apiVersion\":{},", quote(&resource.names.kind), quote(&api_version));
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            group: group.to_owned(),
            version: version.to_owned(),
            api_version,
            conversion: Conversion::None,
            schema: None,
            status: false,
            scale: None,
            columns: Columns::built_in(group, &resource.names.kind),
            deprecation: None,
            open_api: None,
            prefix: Bytes::from(prefix),
            resource,
        }
    }

    /// The kind.
    pub(crate) fn kind(&self) -> &str {
        &self.resource.names.kind
    }

    /// How errors call it.
    pub(crate) fn about(&self) -> About<'_> {
        About { group: &self.group, plural: &self.resource.names.plural, kind: &self.resource.names.kind }
    }

    /// The verbs that discovery shows.
    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        if self.resource.rules.review {
            &["create"]
        } else {
            &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        }
    }

    /// Whether it is a core kind with this plural name.
    pub(crate) fn is_core(&self, plural: &str) -> bool {
        self.group.is_empty() && self.resource.names.plural == plural
    }

    /// The subresource, or 404.
    pub(crate) fn require_subresource(&self, name: &str) -> Result<(), Status> {
        let served = match name {
            "status" => self.status,
            "scale" => self.scale.is_some(),
            "finalize" => self.is_core("namespaces"),
            "token" => self.is_core("serviceaccounts"),
            _ => false,
        };
        if served { Ok(()) } else { Err(Status::no_such_resource()) }
    }

    /// The bytes of the object as this endpoint serves it alone or in a watch event.
    pub(crate) fn object_bytes(&self, stored: &Stored) -> Bytes {
        let mut out = BytesMut::with_capacity(self.prefix.len() + stored.body().len());
        self.put_object(&mut out, stored);
        out.freeze()
    }

    /// Appends what [`Endpoint::object_bytes`] returns.
    pub(crate) fn put_object(&self, out: &mut BytesMut, stored: &Stored) {
        match self.conversion {
            Conversion::None => {
                out.put_slice(&self.prefix);
                out.put_slice(&stored.tail());
            }
            Conversion::Events | Conversion::Autoscaling => {
                out.put_slice(
                    &serde_json::to_vec(&self.serve(stored)).expect("a JSON value has string keys"),
                );
            }
        }
    }

    /// Appends the object as an item of a list: of built-in kinds without `apiVersion` and `kind`, of custom
    /// resources with them, as Kubernetes does.
    pub(crate) fn put_item(&self, out: &mut BytesMut, stored: &Stored) {
        if self.resource.custom.is_some() || self.conversion != Conversion::None {
            self.put_object(out, stored);
        } else {
            out.put_slice(stored.body());
        }
    }

    /// The object as a tree, as this endpoint serves it.
    pub(crate) fn serve(&self, stored: &Stored) -> Value {
        self.served(stored.value())
    }

    /// A stored tree in the served form.
    pub(crate) fn served(&self, mut value: Value) -> Value {
        match self.conversion {
            Conversion::None => {}
            Conversion::Events => core_events::to_events_v1(&mut value),
            Conversion::Autoscaling => autoscalers::to_v1(&mut value),
        }
        value["apiVersion"] = self.api_version.as_str().into();
        value["kind"] = self.kind().into();
        value
    }

    /// A served tree in the stored form.
    pub(crate) fn stored(&self, mut value: Value) -> Value {
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
