//! The trigger of a watch: which keys a change queues, and in which watch they are found.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use pilothouse_model::ResourceType;

use super::super::LoadProblem;
use crate::config::descriptor::{Descriptor, Trigger, Watch};
use crate::load::version::ResolvedTrigger;
use crate::runtime::key_mapper::KeyMapper;
use crate::runtime::predicate::Predicate;

/// Returns the trigger of a watch with its compiled predicate; `None` if changes of its objects queue nothing.
pub(super) fn resolved_trigger(
    descriptor: &Descriptor,
    watch: &Watch,
    resources: &BTreeMap<&str, ResourceType>,
) -> Result<Option<ResolvedTrigger>, LoadProblem> {
    let Some(trigger) = &watch.trigger else { return Ok(None) };
    let target_name = trigger.target().unwrap_or(&watch.name);
    let target = &resources[target_name];
    let mapper = match trigger {
        Trigger::Itself => KeyMapper::Itself,
        Trigger::Owner { .. } => {
            KeyMapper::owners(&target.api_version(), &target.kind, target.namespaced, true)
        }
        Trigger::OwnerAny { .. } => {
            KeyMapper::owners(&target.api_version(), &target.kind, target.namespaced, false)
        }
        Trigger::Label { key, .. } => KeyMapper::Label { key: key.clone(), namespaced: target.namespaced },
        Trigger::Field { path, namespace_path, .. } => {
            KeyMapper::field(path, namespace_path.as_deref(), target.namespaced)?
        }
        Trigger::Index { index, .. } => KeyMapper::Index { index: index.clone() },
        Trigger::Namespace { .. } => {
            let source = &resources[watch.name.as_str()];
            check_namespace_trigger(watch, source.namespaced, target_name, target.namespaced)?;
            KeyMapper::Namespace
        }
    };
    debug_assert!(descriptor.watch(target_name).is_some(), "the descriptor was validated");
    Ok(Some(ResolvedTrigger {
        predicate: Predicate::compile(&watch.predicate)?,
        suspension: Mutex::default(),
        mapper,
        target_watch: target_name.into(),
    }))
}

/// Errors if the trigger `namespace` of a watch can never find an object: its objects name no namespace, or those of the target are in none.
pub(crate) fn check_namespace_trigger(
    watch: &Watch,
    namespaced: bool,
    target: &str,
    target_namespaced: bool,
) -> Result<(), LoadProblem> {
    let problem = if !target_namespaced {
        format!("the objects of the target watch {target:?} are cluster-scoped")
    } else if !namespaced && (watch.api_version.as_str(), watch.kind.as_str()) != ("v1", "Namespace") {
        format!("{} is cluster-scoped, and not a Namespace", watch.kind)
    } else {
        return Ok(());
    };
    Err(LoadProblem::NamespaceTrigger { watch: watch.name.clone(), problem })
}
