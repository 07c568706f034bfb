//! End-to-end tests: run the `pilothouse` binary as a process and use it through files, kubectl and HTTP.
//!
//! `cargo xtask build-guests` builds the plugins. By default every test has its own embedded API server. With
//! `PILOTHOUSE_TEST_KUBECONFIG=FILE` the tests run against that server, one after another, and those that need fault
//! injection or the embedded server's request counters are skipped with a message.

mod acceptance;
mod backing_off;
mod bad_descriptors;
mod bad_files;
mod bundle_secrets;
mod c_sdk;
mod canary;
mod command_line;
mod compile_cache;
mod computed_index;
mod configmap_rollout;
mod delete_everything;
mod durable_data;
mod explain;
mod failing;
mod fake_cluster;
mod faults;
mod harness;
mod hostile;
mod hot_loop;
mod ingress_tls;
mod keys;
mod label_propagator;
mod lifecycle;
mod namespace_trigger;
mod observer;
mod own_writes;
mod permissions;
mod planted_secrets;
mod plugin_objects;
mod pod_counter;
mod recording;
mod registry_plugins;
mod released_contract;
mod reload;
mod rollout;
mod sample_controller;
mod sandbox;
mod secret_replicator;
mod server_restart;
mod shadow;
mod shared_watch;
mod status_server;
mod templates;
mod traces;
mod ttl_cleaner;
mod two_observers;
mod webhook_notifier;
