//! Builds endpoints from a CRD.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::conversion::ConversionWebhook;
use crate::meta;
use crate::patch::apply::CustomVersions;
use crate::registry::{
    CrdInfo, CustomForms, Endpoint, EndpointDefinition, Names, Resource, ResourceDefinition,
    SELECTABLE_FIELDS, ScalePaths, Strategy, schema_identity, version_priority,
};
use crate::schema::Schema;
use crate::storage::Table;
use crate::table::Columns;
use crate::webhooks::WebhookClient;

/// Returns the endpoints of a CRD's served versions.
pub(crate) fn from_crd(crd: &Value, table: &Arc<Table>, client: &Arc<WebhookClient>) -> Vec<Endpoint> {
    let spec = &crd["spec"];
    let webhook = ConversionWebhook::parse(&spec["conversion"], client).map(Arc::new);
    let versions: Vec<&Value> = spec["versions"].as_array().into_iter().flatten().collect();
    let definition = Arc::new(resource(crd, &versions));
    let resource = Arc::new(Resource::new(definition, Arc::clone(table)));
    let storage_version = versions.iter().find(|version| version["storage"] == true);
    let stored =
        storage_version.map(|version| (Arc::new(schema(version)), schema_identity(open_api(version))));
    let api_version =
        |version: &Value| format!("{}/{}", resource.group, version["name"].as_str().unwrap_or_default());
    let schemas: Vec<_> = versions
        .iter()
        .map(|version| {
            let schema = match &stored {
                Some((schema, identity)) if *identity == schema_identity(open_api(version)) => {
                    Arc::clone(schema)
                }
                _ => Arc::new(schema(version)),
            };
            (api_version(version), schema)
        })
        .collect();
    let all = Arc::new(CustomVersions {
        kind: resource.names.kind.clone(),
        schemas,
        by_webhook: webhook.is_some(),
    });
    let served = versions.iter().zip(&all.schemas).filter(|(version, _)| version["served"] == true);
    served
        .map(|(version, (_, schema))| {
            let mut endpoint = endpoint(version, &resource, Arc::clone(schema), stored.clone());
            endpoint.webhook.clone_from(&webhook);
            endpoint.versions = Some(Arc::clone(&all));
            endpoint.deprecation = deprecation_warning(&endpoint, &resource.names.kind, version, &versions);
            Endpoint::new(Arc::new(endpoint), Arc::clone(&resource))
        })
        .collect()
}

fn open_api(version: &Value) -> &Value {
    &version["schema"]["openAPIV3Schema"]
}

/// Parses the schema of a version. That of a stored CRD was valid when the CRD was written; if it no longer is, the resource is still served.
fn schema(version: &Value) -> Schema {
    Schema::from_stored_crd(open_api(version)).unwrap_or_else(|_| Schema::preserving())
}

fn resource(crd: &Value, versions: &[&Value]) -> ResourceDefinition {
    let spec = &crd["spec"];
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| value.as_array().into_iter().flatten().map(text).collect();
    let mut selectable: Vec<String> = versions
        .iter()
        .flat_map(|version| version["selectableFields"].as_array().into_iter().flatten())
        .map(|field| text(&field["jsonPath"]).trim_start_matches('.').to_owned())
        .collect();
    selectable.sort();
    selectable.dedup();
    ResourceDefinition {
        group: text(&spec["group"]),
        names: Names {
            plural: text(&names["plural"]),
            singular: text(&names["singular"]),
            kind: text(&names["kind"]),
            list_kind: text(&names["listKind"]),
            short: texts(&names["shortNames"]),
            categories: texts(&names["categories"]),
        },
        namespaced: spec["scope"] == "Namespaced",
        selectable,
        strategy: Strategy::default(),
        custom: Some(CrdInfo {
            crd: meta::text(crd, "name").to_owned(),
            terminating: crd["metadata"]["deletionTimestamp"].is_string(),
            definition: schema_identity(&json!([spec, crd["status"]["acceptedNames"]])),
            storage_version: {
                let stored = versions.iter().find(|version| version["storage"] == true);
                let name = stored.map(|version| text(&version["name"])).unwrap_or_default();
                format!("{}/{name}", spec["group"].as_str().unwrap_or_default())
            },
        }),
    }
}

/// Returns the schema of a version as OpenAPI documents publish it: with the fields that field selectors may have.
fn published_schema(version: &Value) -> Value {
    let mut schema = open_api(version).clone();
    let paths = version["selectableFields"].as_array().into_iter().flatten();
    let fields: Vec<Value> = paths
        .filter_map(|field| field["jsonPath"].as_str())
        .map(|path| json!({"fieldPath": path.strip_prefix('.').unwrap_or(path)}))
        .collect();
    if let (Some(schema), false) = (schema.as_object_mut(), fields.is_empty()) {
        schema.insert(SELECTABLE_FIELDS.into(), fields.into());
    }
    schema
}

/// Returns the endpoint of a version. `stored` is the schema of the storage version, with its identity.
fn endpoint(
    version: &Value,
    resource: &ResourceDefinition,
    schema: Arc<Schema>,
    stored: Option<(Arc<Schema>, u64)>,
) -> EndpointDefinition {
    let name = version["name"].as_str().unwrap_or_default();
    let mut endpoint = EndpointDefinition::new(&resource.group, name, resource);
    let served = schema_identity(open_api(version));
    endpoint.schema = Some(schema);
    endpoint.forms = stored.map(|stored| CustomForms { stored, served });
    endpoint.open_api = Some(published_schema(version));
    let subresources = &version["subresources"];
    endpoint.has_status = subresources["status"].is_object();
    endpoint.scale = subresources.get("scale").filter(|scale| scale.is_object()).map(|scale| {
        let path = |name: &str| scale[name].as_str().map(|path| path.trim_start_matches('.').to_owned());
        ScalePaths {
            spec_replicas: path("specReplicasPath").unwrap_or_default(),
            status_replicas: path("statusReplicasPath").unwrap_or_default(),
            selector: path("labelSelectorPath").filter(|path| !path.is_empty()),
        }
    });
    if let Ok(columns) = Columns::custom(&version["additionalPrinterColumns"]) {
        endpoint.columns = columns;
    }
    endpoint
}

/// Returns the warning of a deprecated version: that of the CRD, or else one that names the newest version instead, if there is a newer one that
/// is served and not deprecated.
fn deprecation_warning(
    endpoint: &EndpointDefinition,
    kind: &str,
    version: &Value,
    versions: &[&Value],
) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(warning) = version["deprecationWarning"].as_str() {
        return Some(warning.to_owned());
    }
    let usable = versions.iter().filter(|version| version["served"] == true && version["deprecated"] != true);
    let newest = usable
        .filter_map(|version| version["name"].as_str())
        .filter(|name| version_priority(name) > version_priority(&endpoint.version))
        .max_by_key(|name| version_priority(name));
    let api_version = &endpoint.api_version;
    let instead = newest.map(|name| format!("; use {}/{name} {kind}", endpoint.group)).unwrap_or_default();
    Some(format!("{api_version} {kind} is deprecated{instead}"))
}
