//! Permissions of plugins: the sidecar's grants, the host's roles and the service account's roles. The tests revoke each right while the
//! plugin runs and grant it again.

mod cluster;
mod crds;
mod grants;
mod roles;
mod service_account;
