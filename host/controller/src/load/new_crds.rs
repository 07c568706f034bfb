//! The CRDs that a load has applied. They stay applied, whatever becomes of the load.

use serde_json::Value;

use super::{LoadProblem, LoadServices};
use crate::client::{CrdError, apply_crds};
use crate::load::version::Version;
use crate::name::PluginName;

/// The CRDs that a load applied before its version runs.
pub(super) struct NewCrds<'a> {
    running: Option<&'a Version>,
    names: Vec<String>,
}

impl<'a> NewCrds<'a> {
    /// No CRD is applied yet; `running` is the version that runs meanwhile.
    pub(super) fn new(running: Option<&'a Version>) -> Self {
        Self { running, names: Vec::new() }
    }

    /// Applies the CRDs. The running version records which CRDs are no longer its own, since the load may be
    /// cancelled at any time.
    pub(super) async fn apply(
        &mut self,
        services: &LoadServices,
        plugin: &PluginName,
        crds: &[Value],
    ) -> Result<(), CrdError> {
        let outcome = {
            let _lock = services.crd_lock.lock().await;
            apply_crds(&services.server, Some(plugin.as_str()), crds, &mut self.names).await
        };
        if let Some(running) = self.running {
            let mut newer = running.newer_crds.lock();
            newer.extend(self.names.iter().cloned());
            newer.sort();
            newer.dedup();
        }
        outcome
    }

    /// Adds the applied CRDs to the problem that ends the load, unless a running version can report them.
    pub(super) fn with_applied_crds(&self, problem: LoadProblem) -> LoadProblem {
        if self.running.is_some() || self.names.is_empty() {
            return problem;
        }
        LoadProblem::AfterCrds { problem: Box::new(problem), crds: self.names.join(", ") }
    }
}
