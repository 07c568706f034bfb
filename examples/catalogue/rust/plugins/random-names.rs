//! A plugin that relies on the guarantees of the host.

pilothouse_sdk::export!(catalogue::random_names::RandomNames: Reconciler + Indexer);
