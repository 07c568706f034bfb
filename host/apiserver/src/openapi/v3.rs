//! OpenAPI v3: one document per group and version.

use serde_json::{Value, json};

use super::{ServedResource, components, paths};

/// Builds the document of the resources of one group and version.
pub(super) fn document(served: &[ServedResource<'_>]) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": concat!("pilothouse-", env!("CARGO_PKG_VERSION"))},
        "paths": paths::paths(served),
        "components": {"schemas": components::schemas(served)},
    })
}
