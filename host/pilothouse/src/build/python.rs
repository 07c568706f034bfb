//! Python.

use super::{Artifact, Job};
use crate::Failed;

#[allow(clippy::unused_async, reason = "every recipe is awaited")]
pub(super) async fn build(job: &Job) -> Result<Artifact, Failed> {
    Err(job.failed("projects in Python cannot be built by this version yet; build with componentize-py in a virtual environment, as the SDK's README says"))
}
