//! What a plugin may do and see: by its sidecar, by the host's roles, and by those of its service account. Each right is there,
//! is taken away while the plugin runs, and comes back.

mod cluster;
mod crds;
mod grants;
mod roles;
mod service_account;
