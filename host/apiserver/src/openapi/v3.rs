//! OpenAPI v3: one document per group and version.

use serde_json::{Value, json};

use super::{Served, components, paths};

pub(super) fn document(served: &[Served<'_>]) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": concat!("pilothouse-", env!("CARGO_PKG_VERSION"))},
        "paths": paths::paths(served),
        "components": {"schemas": components::schemas(served)},
    })
}
