//! The client against a registry that misbehaves in every way that is known.

mod added;
mod changes;
mod fake_registry;
mod pulls;
mod restarts;
mod running_source;
mod signatures;
mod signing;
mod sources;
