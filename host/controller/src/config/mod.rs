//! The configuration of a plugin: what it declares, and what its operator allows.

pub(crate) mod canary_share;
pub(crate) mod current_grants;
pub mod descriptor;
pub(crate) mod field_paths;
pub mod limits;
pub(crate) mod rollout_settings;
pub(crate) mod rule_intersection;
pub(crate) mod rule_match;
pub mod sidecar;
pub(crate) mod sidecar_location;
pub(crate) mod watch_grants;
