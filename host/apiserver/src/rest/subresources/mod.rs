//! The subresources that are objects of their own: `scale` of all kinds with replicas, tokens of service accounts, and the actions on Pods.
//!
//! Subresources that are a part of their object, such as `status`, are targets of `verbs::update`.

pub(super) mod pod_actions;
pub(crate) mod scale;
pub(super) mod token;
