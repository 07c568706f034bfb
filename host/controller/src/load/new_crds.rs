//! CRDs that a load has changed: they stay as they are, whatever becomes of the load.

use serde_json::Value;

use super::LoadProblem;
use crate::client::{CrdError, Server, apply_crds};
use crate::load::version::Version;

/// The CRDs that a version brought before it runs.
pub(super) struct NewCrds<'a> {
    running: Option<&'a Version>,
    names: Vec<String>,
}

impl<'a> NewCrds<'a> {
    /// Nothing is changed yet; this version runs meanwhile.
    pub(super) fn under(running: Option<&'a Version>) -> Self {
        Self { running, names: Vec::new() }
    }

    /// Applies them. What runs meanwhile remembers those that are not its own any more: the load may be given up at any time.
    pub(super) async fn apply(&mut self, server: &Server, crds: &[Value]) -> Result<(), CrdError> {
        let outcome = apply_crds(server, crds, &mut self.names).await;
        if let Some(running) = self.running {
            let mut newer = running.newer_crds.lock();
            newer.extend(self.names.iter().cloned());
            newer.sort();
            newer.dedup();
        }
        outcome
    }

    /// The problem that the load ends with, where nothing runs that could tell of the CRDs.
    pub(super) fn stay(&self, problem: LoadProblem) -> LoadProblem {
        if self.running.is_some() || self.names.is_empty() {
            return problem;
        }
        LoadProblem::AfterCrds { problem: Box::new(problem), crds: self.names.join(", ") }
    }
}
