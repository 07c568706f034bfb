//! Reloads of a plugin that records each of its reconciles, with the host and the API server in this process.

mod guest;
mod indexes;
mod kinds;
mod lists;
mod polling;
mod revocation;
mod stage;
mod under_load;
mod wire;
