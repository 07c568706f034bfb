//! The real binary, as its user meets it: started as a process, fed with files, talked to with kubectl and HTTP.
//!
//! The plugins come from `cargo xtask build-guests`. By default every test has an embedded API server of its own; with
//! `PILOTHOUSE_TEST_KUBECONFIG=FILE` they run against that server, one after another, and those that need fault
//! injection or the embedded server's counters say that they are skipped.

mod acceptance;
mod backing_off;
mod bad_descriptors;
mod bad_files;
mod c_sdk;
mod command_line;
mod compile_cache;
mod computed_index;
mod configmap_rollout;
mod delete_everything;
mod faults;
mod harness;
mod hostile;
mod hot_loop;
mod ingress_tls;
mod label_propagator;
mod lifecycle;
mod observer;
mod own_writes;
mod pod_counter;
mod released_contract;
mod reload;
mod rights;
mod sample_controller;
mod sandbox;
mod secret_replicator;
mod server_restart;
mod shared_watch;
mod surface;
mod templates;
mod ttl_cleaner;
mod two_observers;
mod webhook_notifier;
