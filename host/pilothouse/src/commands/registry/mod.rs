//! `pilothouse push`, `pull` and `verify`, `check oci://…`, and the plugins that `run` takes from registries.

mod access;
mod configured;
mod metrics;
mod objects;
mod preflight;
pub(crate) mod source;
mod transfer;

pub(crate) use access::is_reference;
pub(crate) use configured::{PulledPlugin, pull, read_policy};
pub(super) use preflight::judge_cache;
pub(crate) use preflight::preflight;
pub(crate) use transfer::pull_for_check;

use crate::CommandResult;
use crate::cli::registry::RegistryCommand;

pub(crate) async fn run(command: RegistryCommand) -> CommandResult {
    match command {
        RegistryCommand::Push(flags) => transfer::push(flags).await,
        RegistryCommand::Pull(flags) => transfer::pull(flags).await,
        RegistryCommand::Verify(flags) => transfer::verify(flags).await,
    }
}
