//! The garbage collector, after `k8s.io/kubernetes/pkg/controller/garbagecollector`.
//!
//! Owners are identified by UID. A reference to an owner whose kind is served but that does not exist under that UID is
//! dangling, and an object with only dangling references is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use super::queue::Queue;
use super::{Change, Controller, MANAGER, Observation, STEP};
use crate::meta;
use crate::registry::{Endpoint, Registry};
use crate::request::options::WriteOptions;
use crate::rest::kinds::strategy;
use crate::rest::verbs::delete::{DeleteOptions, FOREGROUND, ORPHAN, Propagation, delete};
use crate::rest::verbs::update::{self, UpdateTarget};
use crate::state::State;
use crate::status::Status;
use crate::storage::{Owner, StoredObject};

type Uid = Box<str>;

/// The maximum number of objects processed before other controllers get their turn.
const BATCH_SIZE: usize = 128;

/// The maximum number of dependents that are changed or deleted for one owner before other controllers get their turn.
const MAX_DEPENDENTS: usize = 256;

/// Whether the work for an object is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Done,
    /// There are further dependents.
    Partial,
}

/// The graph of owners and dependents.
#[derive(Default)]
pub(super) struct GarbageCollector {
    nodes: BTreeMap<Uid, Node>,
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
    /// Deleted owners that still have dependents. Their kind may not be served any more.
    absent: BTreeSet<Uid>,
    queue: Queue<Uid>,
    /// The last registry. When it changes, owners of kinds that were not served before can be looked up.
    registry: Option<Arc<Registry>>,
    /// When to compare the registry again, because a CRD has changed.
    registry_check: Option<Instant>,
}

struct Node {
    endpoint: Arc<Endpoint>,
    namespace: Box<str>,
    name: Box<str>,
    owners: Box<[Owner]>,
}

/// The owners of an object, classified as in Kubernetes.
#[derive(Default)]
struct Owners {
    /// The number of owners that exist, or whose kind is not served.
    solid: usize,
    /// Owners that do not exist.
    dangling: Vec<Uid>,
    /// Owners in a foreground deletion that this object blocks.
    waiting_for_dependents: Vec<Uid>,
}

impl Controller for GarbageCollector {
    fn observe(&mut self, observation: &Observation<'_>) {
        if strategy::is_crd(observation.endpoint) {
            self.registry_check.get_or_insert(observation.due);
        }
        match observation.change {
            Change::Applied(object) => self.apply(observation.endpoint, object, observation.due),
            Change::Deleted(object) => self.remove(object, observation.due),
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.queue.next_due().into_iter().chain(self.registry_check).min()
    }

    fn run(&mut self, state: &State, now: Instant) {
        self.registry_check.take_if(|due| *due <= now);
        let registry = state.registry();
        if self.registry.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &registry)) {
            for (uid, _) in self.nodes.iter().filter(|(_, node)| !node.owners.is_empty()) {
                self.queue.add(uid.clone(), now);
            }
            self.registry = Some(Arc::clone(&registry));
        }
        for uid in self.queue.take_due(now, BATCH_SIZE) {
            match self.process(state, &registry, &uid) {
                Ok(Progress::Done) => {}
                // Queued as due now, and processed after the changes so far were observed.
                Ok(Progress::Partial) => self.queue.add(uid, now),
                Err(error) => {
                    tracing::debug!(%error, %uid, "cannot collect an object");
                    if error.code == 409 {
                        self.queue.add(uid, now + STEP);
                    }
                }
            }
        }
    }
}

impl GarbageCollector {
    fn apply(&mut self, endpoint: &Arc<Endpoint>, object: &StoredObject, due: Instant) {
        let owners_before = self.nodes.get(&object.uid).map(|node| node.owners.clone());
        if owners_before.as_ref() != Some(&object.owners) {
            self.unlink(&object.uid, owners_before.as_deref().unwrap_or_default());
            for owner in &object.owners {
                self.dependents.entry(owner.uid.clone()).or_default().insert(object.uid.clone());
            }
            // Earlier owners may no longer be blocked by this object.
            for owner in owners_before.iter().flatten() {
                self.queue.add(owner.uid.clone(), due);
            }
        }
        let node = Node {
            endpoint: Arc::clone(endpoint),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            owners: object.owners.clone(),
        };
        self.nodes.insert(object.uid.clone(), node);
        let needs_processing = object.deleting
            && object.finalizers.iter().any(|name| &**name == FOREGROUND || &**name == ORPHAN);
        if needs_processing || (!object.owners.is_empty() && !object.deleting) {
            self.queue.add(object.uid.clone(), due);
        }
        for owner in object.owners.iter().filter(|_| object.deleting) {
            self.queue.add(owner.uid.clone(), due);
        }
    }

    fn remove(&mut self, object: &StoredObject, due: Instant) {
        let Some(node) = self.nodes.remove(&object.uid) else { return };
        self.unlink(&object.uid, &node.owners);
        if let Some(dependents) = self.dependents.get(&object.uid) {
            self.absent.insert(object.uid.clone());
            for dependent in dependents {
                self.queue.add(dependent.clone(), due);
            }
        }
        for owner in &node.owners {
            self.queue.add(owner.uid.clone(), due);
        }
    }

    fn unlink(&mut self, uid: &str, owners: &[Owner]) {
        for owner in owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                    self.absent.remove(&owner.uid);
                }
            }
        }
    }

    fn process(&self, state: &State, registry: &Registry, uid: &str) -> Result<Progress, Status> {
        let Some(node) = self.nodes.get(uid) else { return Ok(Progress::Done) };
        let current = node.endpoint.resource.table.get(&node.namespace, &node.name);
        let Some(current) = current.filter(|current| &*current.uid == uid) else { return Ok(Progress::Done) };
        let has = |name: &str| current.finalizers.iter().any(|finalizer| &**finalizer == name);
        if current.deleting && has(ORPHAN) {
            let dependents = self.dependents_of(uid);
            for dependent in dependents.iter().take(MAX_DEPENDENTS) {
                remove_owner_references(state, dependent, &[uid])?;
            }
            if dependents.len() > MAX_DEPENDENTS {
                return Ok(Progress::Partial);
            }
            return remove_finalizer(state, node, ORPHAN).map(|()| Progress::Done);
        }
        if current.deleting && has(FOREGROUND) {
            return self.delete_dependents(state, node, uid);
        }
        if current.deleting || current.owners.is_empty() {
            return Ok(Progress::Done);
        }
        let owners = self.classify(registry, &node.endpoint, &current);
        let obsolete = owners.dangling.iter().chain(&owners.waiting_for_dependents);
        let obsolete: Vec<&str> = obsolete.map(|uid| &**uid).collect();
        if obsolete.is_empty() {
            return Ok(Progress::Done);
        }
        if owners.solid > 0 {
            return remove_owner_references(state, node, &obsolete).map(|()| Progress::Done);
        }
        let propagation = if (!owners.waiting_for_dependents.is_empty() && self.dependents.contains_key(uid))
            || has(FOREGROUND)
        {
            Propagation::Foreground
        } else if has(ORPHAN) {
            Propagation::Orphan
        } else {
            Propagation::Background
        };
        let options = DeleteOptions::for_uid(uid, propagation);
        delete(state, &node.endpoint, (&node.namespace, &node.name), &options).map(|_| Progress::Done)
    }

    fn dependents_of(&self, uid: &str) -> Vec<&Node> {
        let uids = self.dependents.get(uid).into_iter().flatten();
        uids.filter_map(|dependent| self.nodes.get(dependent)).collect()
    }

    /// Deletes the dependents of an owner in a foreground deletion. When no blocking dependents are left, removes the
    /// owner's finalizer.
    fn delete_dependents(&self, state: &State, owner: &Node, uid: &str) -> Result<Progress, Status> {
        let mut blocked = false;
        let mut writes = 0;
        for dependent in self.dependents_of(uid) {
            let blocks = dependent.owners.iter().any(|owner| &*owner.uid == uid && owner.blocks_deletion);
            blocked |= blocks;
            let current = dependent.endpoint.resource.table.get(&dependent.namespace, &dependent.name);
            let Some(current) = current.filter(|current| !current.deleting) else { continue };
            if writes == MAX_DEPENDENTS {
                return Ok(Progress::Partial);
            }
            writes += 1;
            let registry = state.registry();
            let owners = self.classify(&registry, &dependent.endpoint, &current);
            if owners.solid > usize::from(!blocks) {
                remove_owner_references(state, dependent, &[uid])?;
                continue;
            }
            let propagation = if self.dependents.contains_key(&current.uid) {
                Propagation::Foreground
            } else {
                Propagation::Background
            };
            let options = DeleteOptions::for_uid(&current.uid, propagation);
            delete(state, &dependent.endpoint, (&dependent.namespace, &dependent.name), &options)?;
        }
        if !blocked {
            remove_finalizer(state, owner, FOREGROUND)?;
        }
        Ok(Progress::Done)
    }

    /// Looks up and classifies the owners of an object.
    fn classify(&self, registry: &Registry, endpoint: &Endpoint, object: &StoredObject) -> Owners {
        let mut owners = Owners::default();
        for owner in &object.owners {
            let Some(kind) = registry.by_kind(&owner.api_version, &owner.kind) else {
                if self.absent.contains(&owner.uid) {
                    owners.dangling.push(owner.uid.clone());
                } else {
                    owners.solid += 1;
                }
                continue;
            };
            // A cluster-scoped object cannot have a namespaced owner; Kubernetes reports this and does not delete the object.
            if kind.resource.namespaced && !endpoint.resource.namespaced {
                owners.solid += 1;
                continue;
            }
            let namespace = if kind.resource.namespaced { &*object.namespace } else { "" };
            let found =
                kind.resource.table.get(namespace, &owner.name).filter(|found| found.uid == owner.uid);
            match found {
                None => owners.dangling.push(owner.uid.clone()),
                Some(found) => {
                    let foreground =
                        found.deleting && found.finalizers.iter().any(|finalizer| &**finalizer == FOREGROUND);
                    if foreground && owner.blocks_deletion {
                        owners.waiting_for_dependents.push(owner.uid.clone());
                    } else {
                        owners.solid += 1;
                    }
                }
            }
        }
        owners
    }
}

/// Removes the references to these owners from an object.
fn remove_owner_references(state: &State, node: &Node, uids: &[&str]) -> Result<(), Status> {
    edit_object(state, node, |value| {
        let metadata = meta::metadata_mut(value);
        let references = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
        if let Some(references) = references {
            references.retain(|owner| !uids.iter().any(|uid| owner["uid"] == *uid));
            if references.is_empty() {
                metadata.remove("ownerReferences");
            }
        }
    })
}

fn remove_finalizer(state: &State, node: &Node, name: &str) -> Result<(), Status> {
    edit_object(state, node, |value| {
        let rest = meta::finalizers(value).into_iter().filter(|finalizer| finalizer != name).collect();
        meta::set_finalizers(value, rest);
    })
}

fn edit_object(state: &State, node: &Node, edit: impl Fn(&mut Value)) -> Result<(), Status> {
    let key = (&*node.namespace, &*node.name);
    let options = WriteOptions::internal(MANAGER);
    let result = update::update(state, &node.endpoint, key, UpdateTarget::Object, &options, |old| {
        let mut value = old.clone();
        edit(&mut value);
        Ok(update::ProposedUpdate { value, applied: false, retry: true })
    });
    match result {
        // The object was deleted concurrently.
        Err(status) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}
