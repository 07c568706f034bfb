//! The configuration of a plugin: what it declares, and what its operator allows.

pub mod descriptor;
pub mod limits;
pub(crate) mod operator;
pub mod sidecar;
