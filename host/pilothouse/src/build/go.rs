//! Go.

use super::{Artifact, Job};
use crate::Failed;

#[allow(clippy::unused_async, reason = "every recipe is awaited")]
pub(super) async fn build(job: &Job) -> Result<Artifact, Failed> {
    Err(job.failed("projects in Go cannot be built by this version yet; build with the standard Go compiler, as the SDK's README says"))
}
