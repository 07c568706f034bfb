//! Steps of a generated user that follow from the objects of the server.

use std::sync::Arc;

use pilothouse_model::ResourceType;
use serde_json::{Value, json};

use crate::actor::{ActorWrite, ObjectView, Operation};
use crate::scenario::reference::DEFAULT_NAMESPACE;

/// A step of a generated user. It is skipped if there is nothing to write.
#[derive(Debug)]
pub enum GeneratedStep {
    /// Deletes the first object of a resource that has an owner, in the order of namespace and name.
    DeleteFirst(ResourceType),
    /// Adds the Namespace of an object to the object's owners.
    AddOwner(ObjectAddress),
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
    pub(in crate::scenario) fn write(&self, view: &dyn ObjectView, step: u32) -> Option<ActorWrite> {
        let (address, operation) = match self {
            Self::DeleteFirst(resource) => {
                let object = first_owned(view, resource)?;
                let address = ObjectAddress::of(resource, &object);
                (address, Operation::Delete { propagation: None, uid: None })
            }
            Self::AddOwner(address) => {
                (address.clone(), Operation::MergePatch(with_namespace_as_owner(view, address)?))
            }
        };
        let ObjectAddress { resource, namespace, name } = address;
        Some(ActorWrite { step, resource, subresource: String::new(), namespace, name, operation })
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

/// Returns the first object that has an owner and is not being deleted. Objects without an owner, such as the ConfigMap `kube-root-ca.crt`, are not
/// the plugin's.
fn first_owned(view: &dyn ObjectView, resource: &ResourceType) -> Option<Arc<Value>> {
    view.list(resource).into_iter().find(|object| {
        let metadata = &object["metadata"];
        metadata["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty())
            && metadata.get("deletionTimestamp").is_none()
    })
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
        let write = step.write(&view, 3).expect("a write");
        let Operation::MergePatch(patch) = write.operation else { panic!("a patch") };
        let uids: Vec<_> =
            patch["metadata"]["ownerReferences"].as_array().expect("a list").iter().map(|owner| &owner["uid"]).collect();
        assert_eq!((write.step, uids), (3, vec![&json!("1"), &json!("2")]));
        let absent = GeneratedStep::AddOwner(ObjectAddress { name: "b".to_owned(), ..address });
        assert_eq!(absent.write(&view, 3), None);
    }
}
