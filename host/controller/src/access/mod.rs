//! The permissions that a plugin acts and reads under, and what happens while one is missing.
//!
//! A plugin with a service account sends its requests as that account, and the API server authorizes them.
//! The cache is the host's and shared. So before a version runs, and periodically afterwards, the host asks
//! the server whether the account may read what the version watches: the cache shows the plugin nothing that
//! a request would not.

mod access_state;
mod account;
mod monitor;
mod review;
mod review_schedule;
mod reviewer;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use access_state::Suspension;
pub(crate) use access_state::{Access, AccessState};
pub use account::{AccountError, ServiceAccount};
pub(crate) use monitor::{AccessMonitor, forbidden};
pub(crate) use review::{ResourceAttributes, is_allowed};
pub(crate) use review_schedule::RETRY_INTERVAL;
pub(crate) use reviewer::{RequiredRead, Reviewer, only_name};

use crate::config::sidecar_location::SidecarLocation;
use crate::name::PluginName;

/// The command that grants a plugin its missing permissions.
pub(crate) fn rbac_command(plugin: &PluginName, place: SidecarLocation) -> String {
    match place {
        SidecarLocation::File => format!("`pilothouse rbac {plugin}.wasm | kubectl apply -f -`"),
        SidecarLocation::Source => format!(
            "`pilothouse rbac --config FILE | kubectl apply -f -` and the host's configuration file, or \
             `pilothouse rbac {plugin}.yaml | kubectl apply -f -` and the manifest of its Plugin object"
        ),
    }
}

/// What an operator does about a missing permission.
pub(crate) fn remedy(plugin: &PluginName, place: SidecarLocation) -> String {
    format!("grant it: {}", rbac_command(plugin, place))
}
