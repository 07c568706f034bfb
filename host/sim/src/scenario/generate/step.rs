//! Steps of a generated user that follow from the objects of the server.

use std::sync::Arc;

use jiff::Timestamp;
use pilothouse_model::ResourceType;
use serde_json::{Value, json};

use super::foreign;
use super::status::{self, Stage};
use crate::START_TIME;
use crate::actor::{ActorWrite, ObjectView, Operation};
use crate::scenario::object_reference::DEFAULT_NAMESPACE;

/// A step of a generated user. It is skipped if there is nothing to write.
#[derive(Debug)]
pub enum GeneratedStep {
    /// Deletes the first object of a resource that has an owner, in the order of namespace and name.
    DeleteFirst(ResourceType),
    /// Sets a label and an annotation of another client on the first object of a resource that has an owner.
    MarkFirst(ResourceType),
    /// Adds the Namespace of an object to the object's owners.
    AddOwner(ObjectAddress),
    /// Removes the finalizer of another controller from an object that is being deleted.
    RemoveFinalizer(ObjectAddress),
    /// Writes the status of a stage to an object, as a component of the cluster does.
    WriteStatus(ObjectAddress, Stage),
    /// Writes the status of a stage to the first object of a resource that has an owner and can reach the stage.
    WriteFirstStatus(ResourceType, Stage),
}

/// Where an object is.
#[derive(Clone, Debug)]
pub struct ObjectAddress {
    /// The resource.
    pub resource: ResourceType,
    /// The namespace, "" for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl GeneratedStep {
    /// Returns the write, which is the actor's step of this number; `None` if there is nothing to write.
    pub(in crate::scenario) fn write(
        &self,
        view: &dyn ObjectView,
        step: u32,
        now_ms: u64,
    ) -> Option<ActorWrite> {
        let (address, operation) = match self {
            Self::DeleteFirst(resource) => {
                let object = owned(view, resource).into_iter().next()?;
                let address = ObjectAddress::of(resource, &object);
                (address, Operation::Delete { propagation: None, uid: None })
            }
            Self::MarkFirst(resource) => {
                let object = owned(view, resource).into_iter().next()?;
                (ObjectAddress::of(resource, &object), Operation::MergePatch(foreign::metadata_patch()))
            }
            Self::RemoveFinalizer(address) => {
                let object = view.get(&address.resource, &address.namespace, &address.name)?;
                (address.clone(), Operation::MergePatch(foreign::without_finalizer(&object)?))
            }
            Self::WriteStatus(address, stage) => {
                let object = view.get(&address.resource, &address.namespace, &address.name)?;
                let patch = status::patch(&address.resource.kind, &object, *stage, &time(now_ms)?)?;
                (address.clone(), Operation::MergePatch(patch))
            }
            Self::WriteFirstStatus(resource, stage) => {
                let now = time(now_ms)?;
                let (address, patch) = owned(view, resource).into_iter().find_map(|object| {
                    let patch = status::patch(&resource.kind, &object, *stage, &now)?;
                    Some((ObjectAddress::of(resource, &object), patch))
                })?;
                (address, Operation::MergePatch(patch))
            }
            Self::AddOwner(address) => {
                (address.clone(), Operation::MergePatch(with_namespace_as_owner(view, address)?))
            }
        };
        let ObjectAddress { resource, namespace, name } = address;
        let is_status = matches!(self, Self::WriteStatus(..) | Self::WriteFirstStatus(..));
        let subresource = if is_status { "status" } else { "" }.to_owned();
        Some(ActorWrite { step, resource, subresource, namespace, name, operation })
    }

    /// Whether the step is taken at rests only, whatever the plan says. What it writes follows from the specification that the plugin may be about to
    /// change: a controller of the cluster would then write it again.
    pub(in crate::scenario) fn awaits_rest(&self) -> bool {
        match self {
            Self::WriteStatus(ObjectAddress { resource, .. }, _) | Self::WriteFirstStatus(resource, _) => {
                status::follows_from_specification(&resource.kind)
            }
            Self::DeleteFirst(_) | Self::MarkFirst(_) | Self::AddOwner(_) | Self::RemoveFinalizer(_) => false,
        }
    }

    /// Whether the step deletes an object.
    pub(in crate::scenario) fn is_delete(&self) -> bool {
        matches!(self, Self::DeleteFirst(_))
    }
}

impl ObjectAddress {
    fn of(resource: &ResourceType, object: &Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        Self { resource: resource.clone(), namespace: text("namespace"), name: text("name") }
    }
}

/// Returns the objects that have an owner and are not being deleted, in the order of namespace and name. Objects without an owner, such as the
/// ConfigMap `kube-root-ca.crt`, are not the plugin's, nor are those of users to which a Namespace was added. A plugin may itself make objects that
/// belong to a Namespace.
fn owned(view: &dyn ObjectView, resource: &ResourceType) -> Vec<Arc<Value>> {
    let mut objects = view.list(resource);
    objects.retain(|object| {
        let metadata = &object["metadata"];
        let is_marked = foreign::is_marked(object);
        let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let has_owner = owners.any(|owner| !is_marked || owner["kind"] != "Namespace");
        has_owner && metadata.get("deletionTimestamp").is_none()
    });
    objects
}

/// Returns the time in RFC 3339, without fractions of a second, as Kubernetes writes it.
fn time(now_ms: u64) -> Option<String> {
    let start: Timestamp = START_TIME.parse().ok()?;
    let seconds = start.as_second().checked_add(i64::try_from(now_ms / 1000).ok()?)?;
    Some(Timestamp::from_second(seconds).ok()?.to_string())
}

/// Returns the patch that adds the Namespace of an object to its owners.
fn with_namespace_as_owner(view: &dyn ObjectView, address: &ObjectAddress) -> Option<Value> {
    let object = view.get(&address.resource, &address.namespace, &address.name)?;
    let namespace = if address.namespace.is_empty() { DEFAULT_NAMESPACE } else { &address.namespace };
    let namespaces = ResourceType {
        group: String::new(),
        version: "v1".to_owned(),
        kind: "Namespace".to_owned(),
        plural: "namespaces".to_owned(),
        namespaced: false,
    };
    let owner = view.get(&namespaces, "", namespace)?;
    let mut owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    owners.push(json!({
        "apiVersion": "v1", "kind": "Namespace", "name": namespace, "uid": owner["metadata"]["uid"],
    }));
    Some(json!({"metadata": {"ownerReferences": owners}}))
}

#[cfg(test)]
mod tests {
    use super::super::super::kinds::Kinds;
    use super::super::super::test_view::TestView;
    use super::*;

    #[test]
    fn the_namespace_becomes_an_owner_beside_others() {
        let resource = Kinds::built_in().resolve("Secret").expect("built in").resource.clone();
        let address = ObjectAddress { resource, namespace: "shop".to_owned(), name: "a".to_owned() };
        let secret = json!({"kind": "Secret", "metadata": {"name": "a", "namespace": "shop", "ownerReferences": [{"uid": "1"}]}});
        let namespace = json!({"kind": "Namespace", "metadata": {"name": "shop", "uid": "2"}});
        let view = TestView::new(vec![secret, namespace]);
        let step = GeneratedStep::AddOwner(address.clone());
        let write = step.write(&view, 3, 0).expect("a write");
        let Operation::MergePatch(patch) = write.operation else { panic!("a patch") };
        let uids: Vec<_> = patch["metadata"]["ownerReferences"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|owner| &owner["uid"])
            .collect();
        assert_eq!((write.step, uids), (3, vec![&json!("1"), &json!("2")]));
        let absent = GeneratedStep::AddOwner(ObjectAddress { name: "b".to_owned(), ..address });
        assert_eq!(absent.write(&view, 3, 0), None);
    }

    #[test]
    fn statuses_are_written_with_the_time_of_the_step() {
        let resource = Kinds::built_in().resolve("Pod").expect("built in").resource.clone();
        let pod = |name: &str, owner: &str, phase: &str| json!({"kind": "Pod", "metadata": {"name": name, "ownerReferences": [{"kind": owner}]}, "status": {"phase": phase}});
        let mut of_user = pod("a", "Namespace", "Pending");
        foreign::mark(&mut of_user);
        let view = TestView::new(vec![of_user, pod("b", "Zoo", "Running"), pod("c", "Zoo", "Pending")]);
        let write = |step: GeneratedStep| {
            step.write(&view, 1, 61_500).map(|write| (write.name, write.subresource, write.operation))
        };
        let (name, subresource, operation) =
            write(GeneratedStep::WriteFirstStatus(resource.clone(), Stage::Runs)).expect("a write");
        assert_eq!((name.as_str(), subresource.as_str()), ("c", "status"));
        let Operation::MergePatch(patch) = operation else { panic!("a patch") };
        assert_eq!(
            (&patch["status"]["phase"], &patch["status"]["startTime"]),
            (&json!("Running"), &json!("2026-01-01T00:01:01Z"))
        );
        let address = ObjectAddress { resource, namespace: String::new(), name: "b".to_owned() };
        assert!(write(GeneratedStep::WriteStatus(address.clone(), Stage::Fails)).is_some());
        assert_eq!(write(GeneratedStep::WriteStatus(address, Stage::Runs)), None, "it runs already");
    }

    #[test]
    fn an_object_of_a_plugin_may_belong_to_a_namespace() {
        let resource = Kinds::built_in().resolve("Pod").expect("built in").resource.clone();
        let owned_by_namespace =
            json!({"kind": "Pod", "metadata": {"name": "a", "ownerReferences": [{"kind": "Namespace"}]}});
        let mut of_user = owned_by_namespace.clone();
        foreign::mark(&mut of_user);
        assert_eq!(owned(&TestView::new(vec![owned_by_namespace]), &resource).len(), 1);
        assert_eq!(owned(&TestView::new(vec![of_user]), &resource).len(), 0);
    }
}
