//! One module for each case that is written in Rust. The number of a case is that of `catalogue.yaml`.

pub mod absent_owner;
pub mod duplicate_requests;
pub mod empty_node;
pub mod error_as_empty;
pub mod expectations;
pub mod names_in_status;
pub mod phase_after_scaling;
pub mod pod_per_node;
pub mod recreated_owner;
pub mod server_defaults;
pub mod slow_cache;
pub mod stale_scale_down;
pub mod two_machines;
pub mod two_writers;
pub mod unknown_final_state;
