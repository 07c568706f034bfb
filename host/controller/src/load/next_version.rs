//! Decides which version a load makes, if any.

use std::ops::ControlFlow;

use pilothouse_plugin::CompiledPlugin;

use super::LoadOutcome;
use super::files::FileInfo;
use crate::config::sidecar::Sidecar;
use crate::load::version::{Role, Version};
use crate::rollout::{KnownVersion, Rollout};

/// A version to load: which keys it reconciles, and whose code it has if that is not the file's.
pub(super) type NextVersion = (Role, Option<KnownVersion>);

/// Returns the version to load, or the outcome of a load that makes none. First comes the version that is to run, and then its canary.
pub(super) fn next_version(
    rollout: &Rollout,
    sidecar: &Sidecar,
    read: &FileInfo,
    running: Option<&Version>,
    canary: Option<&Version>,
) -> ControlFlow<LoadOutcome, NextVersion> {
    let plan = rollout.decide_versions(&read.digest, sidecar.rollout.canary.is_some());
    let share = sidecar.rollout.canary.clone().filter(|_| plan.has_canary);
    let stable = plan.replacement.as_ref().map_or(&read.digest, |version| &version.digest);
    if !running.is_some_and(|running| running.is_built_from(stable, &read.sidecar_text)) {
        let role = if share.is_some() { Role::BesideCanary } else { Role::Alone };
        return ControlFlow::Continue((role, plan.replacement));
    }
    match share {
        None => {
            rollout.record_unchanged(&read.digest);
            let ends = canary.is_some();
            ControlFlow::Break(if ends { LoadOutcome::Canary(None) } else { LoadOutcome::Unchanged })
        }
        Some(share) => {
            let is_loaded = |canary: &Version| canary.is_built_from(&read.digest, &read.sidecar_text);
            match canary.is_some_and(is_loaded) {
                true => ControlFlow::Break(LoadOutcome::Canary(Some(share))),
                false => ControlFlow::Continue((Role::Canary(share), None)),
            }
        }
    }
}

/// Returns the code with this SHA-256, if a running version has it.
pub(super) fn code_in_use<'a>(
    versions: [Option<&'a Version>; 2],
    digest: &str,
) -> Option<&'a CompiledPlugin> {
    versions.into_iter().flatten().map(|version| version.pool.code()).find(|code| code.digest() == digest)
}
