//! What a plugin reads of a watch: its caches and its indexes.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use pilothouse_informer::{IndexError, IndexFn, Subscription};
use pilothouse_model::ResourceType;
use pilothouse_plugin::{HostMemory, HostMemoryKind, MAX_INDEX_VALUE, MAX_INDEX_VALUES};

use super::super::LoadProblem;
use super::subscriptions::selectors;
use crate::access::only_name;
use crate::cache::computed::ComputedIndexes;
use crate::cache::index_account::IndexAccount;
use crate::cache::own_writes::{OwnWrites, PluginWrites};
use crate::cache::views::{SharedIndex, View, ViewIndex, WatchCache};
use crate::config::descriptor::{Index, Trigger, Watch};

/// Returns the view of a watch over the caches of its subscriptions.
pub(super) fn view(
    watch: &Watch,
    resource: &ResourceType,
    subscriptions: Vec<Arc<Subscription>>,
    own_writes: Arc<OwnWrites>,
    writes: &PluginWrites,
) -> Result<View, LoadProblem> {
    let mut indexes = BTreeMap::new();
    let mut index_handles = Vec::new();
    for index in &watch.indexes {
        if index.computed {
            indexes.insert(index.name.clone(), ViewIndex::Computed);
            continue;
        }
        let known = shared_index(index, writes.index_account())?;
        for subscription in &subscriptions {
            // The name is derived from the definition, so an index with this name is the same index.
            let handle = subscription.acquire_index(&known.name, known.function.clone());
            let unusable = |problem: IndexError| LoadProblem::Informer {
                watch: watch.name.clone(),
                problem: problem.to_string(),
            };
            index_handles.push(handle.map_err(unusable)?);
        }
        indexes.insert(index.name.clone(), ViewIndex::Shared(known));
    }
    let computed =
        watch.indexes.iter().filter(|index| index.computed).map(|index| index.name.clone()).collect();
    let (label_selector, field_selector) = selectors(watch)?;
    let cache = Arc::new(WatchCache {
        namespaces: watch.namespaces.clone(),
        readers: subscriptions.iter().map(|subscription| subscription.store()).collect(),
        is_selective: !(watch.label_selector.is_empty() && watch.field_selector.is_empty()),
        only_name: only_name(&field_selector),
    });
    let known: Weak<WatchCache> = Arc::downgrade(&cache);
    own_writes.add_cache(known);
    Ok(View {
        resource: resource.clone(),
        label_selector,
        field_selector,
        projection: watch.projection.into(),
        subscriptions,
        cache,
        indexes,
        _index_handles: index_handles,
        computed: ComputedIndexes::new(computed, writes.memory().clone()),
        is_target: watch.trigger == Some(Trigger::Itself),
        own_writes,
    })
}

fn shared_index(index: &Index, account: Arc<IndexAccount>) -> Result<SharedIndex, LoadProblem> {
    let (name, function) = if let Some(label) = &index.label {
        (format!("label:{label}"), IndexFn::label(label.as_str()))
    } else if let Some(annotation) = &index.annotation {
        (format!("annotation:{annotation}"), IndexFn::annotation(annotation.as_str()))
    } else if let Some(field) = &index.field {
        (format!("field:{field}"), IndexFn::field(field)?)
    } else {
        ("owner-uid".to_owned(), IndexFn::owner_uid())
    };
    // As for computed indexes: the informer evaluates these for every change of every object, for all plugins that name them.
    let function = function.limited(MAX_INDEX_VALUES, MAX_INDEX_VALUE).charged_to(account);
    Ok(SharedIndex { name, function })
}

/// Errors if the plugin's indexes leave no host memory for anything else. The informers have their lists, so they are complete.
pub(super) fn check_index_memory(memory: &HostMemory) -> Result<(), LoadProblem> {
    Ok(memory.check(HostMemoryKind::IndexValues)?)
}
