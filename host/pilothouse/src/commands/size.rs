//! `pilothouse size`: counts what plugins watch in a cluster, and prints the resources that their host needs.

use std::collections::BTreeMap;
use std::pin::pin;

use futures::StreamExt;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use pilothouse_controller::descriptor::{ProjectionName, Watch};
use pilothouse_controller::{Availability, CheckReport, CheckedWatch, GrantMode, printable};
use serde::Deserialize;
use serde_json::Value;

use super::inspected_plugin::{InspectedPlugin, files_and_configured};
use super::percent_encoded;
use super::run::read_config;
use crate::cli::{CacheCompression, Size, SizeFormat};
use crate::sizing::{Assumptions, Estimate, PluginLimits, WatchSample, estimate};
use crate::{CommandError, CommandResult, cluster, output, plugin_check};

/// The number of objects whose size is measured.
const SAMPLE: usize = 50;
/// The number of objects in a page, and of pages, of a list that the server does not count.
const PAGE: usize = 500;
const MAX_PAGES: usize = 20;
/// The maximum size of a response in bytes.
const MAX_BODY: usize = 64 << 20;
/// Lists the metadata of objects, for watches that keep no more.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";

pub(crate) async fn run(flags: Size) -> CommandResult {
    let config = read_config(flags.config.as_deref())?;
    let inspected = files_and_configured(flags.files, &config).await?;
    let client = cluster::reachable_client(flags.kubeconfig.as_deref(), flags.context.as_deref()).await?;
    let mut lists: BTreeMap<ListKey, Vec<String>> = BTreeMap::new();
    let mut plugins = Vec::new();
    let host = (config.grant_crds, GrantMode::Declared);
    let mut checks = pin!(plugin_check::check_each(inspected, {
        let client = client.clone();
        move |plugin: InspectedPlugin| {
            let client = client.clone();
            async move {
                let opened = plugin.open().await?;
                let checked = plugin_check::check_with_client(opened.file(), client, host).await;
                checked.map_err(|error| plugin.renamed(error, &opened))
            }
        }
    }));
    while let Some((_, report)) = checks.next().await {
        let report = report?;
        plugins.push(limits(&report));
        for key in list_keys(&report) {
            let names = lists.entry(key).or_default();
            if !names.contains(&report.name) {
                names.push(report.name.clone());
            }
        }
    }
    let mut watches = Vec::new();
    for (key, plugins) in lists {
        watches.push(sample(&client, key, plugins).await?);
    }
    let compression = flags.cache_compression.unwrap_or(config.cache.compression);
    let is_compressed = compression == CacheCompression::Zstd;
    let assumptions = Assumptions { is_compressed, busy_workers: flags.busy_workers };
    print(&estimate(watches, &plugins, assumptions), flags.output)
}

fn limits(report: &CheckReport) -> PluginLimits {
    PluginLimits {
        workers: u64::from(report.limits.workers),
        memory: report.limits.effective.instance.memory as u64,
    }
}

/// The lists that informers share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ListKey {
    api_version: String,
    resource: String,
    /// Empty for all.
    namespace: String,
    label_selector: String,
    field_selector: String,
    metadata_only: bool,
    /// Whether a plugin brings the kind's CRD, which may not be installed yet.
    has_own_crd: bool,
}

/// Returns the lists of a plugin: one for each watch and namespace. A kind that is not served has none.
fn list_keys(report: &CheckReport) -> Vec<ListKey> {
    let has_own_crd = |checked: &CheckedWatch| checked.served == Availability::ByOwnCrd;
    report.watches.iter().flat_map(|checked| keys_of(&checked.watch, has_own_crd(checked))).collect()
}

fn keys_of(watch: &Watch, has_own_crd: bool) -> Vec<ListKey> {
    let Some(resource) = &watch.resource else { return Vec::new() };
    let all = [String::new()];
    let namespaces = if watch.namespaces.is_empty() { &all[..] } else { &watch.namespaces };
    let key = |namespace: &String| ListKey {
        api_version: watch.api_version.clone(),
        resource: resource.clone(),
        namespace: namespace.clone(),
        label_selector: watch.label_selector.clone(),
        field_selector: watch.field_selector.clone(),
        metadata_only: watch.projection == ProjectionName::Metadata,
        has_own_crd,
    };
    namespaces.iter().map(key).collect()
}

impl ListKey {
    /// Returns the URL of a page.
    fn url(&self, limit: usize, token: &str) -> String {
        let root = if self.api_version.contains('/') { "/apis" } else { "/api" };
        let namespace = match self.namespace.as_str() {
            "" => String::new(),
            namespace => format!("/namespaces/{}", percent_encoded(namespace)),
        };
        let mut url = format!(
            "{root}/{}{namespace}/{}?limit={limit}",
            self.api_version,
            percent_encoded(&self.resource)
        );
        for (name, value) in [
            ("labelSelector", self.label_selector.as_str()),
            ("fieldSelector", &self.field_selector),
            ("continue", token),
        ] {
            if !value.is_empty() {
                url += &format!("&{name}={}", percent_encoded(value));
            }
        }
        url
    }

    /// Returns the plural name with the group.
    fn resource_name(&self) -> String {
        match self.api_version.split_once('/') {
            Some((group, _)) => format!("{}.{group}", self.resource),
            None => self.resource.clone(),
        }
    }
}

/// A page of a list.
#[derive(Default, Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default)]
    items: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    remaining_item_count: Option<u64>,
    #[serde(rename = "continue")]
    token: Option<String>,
}

impl Page {
    /// Returns the number of objects in the list, if the server counted those that follow.
    fn total(&self) -> Option<u64> {
        let listed = self.items.len() as u64;
        match (self.metadata.remaining_item_count, self.next_token()) {
            (Some(remaining), _) => Some(listed.saturating_add(remaining)),
            (None, None) => Some(listed),
            (None, Some(_)) => None,
        }
    }

    fn next_token(&self) -> Option<&str> {
        self.metadata.token.as_deref().filter(|token| !token.is_empty())
    }
}

/// Counts the objects of a list, and measures some of them.
async fn sample(
    client: &kube::Client,
    key: ListKey,
    plugins: Vec<String>,
) -> Result<WatchSample, CommandError> {
    let first = page(client, &key, SAMPLE, "").await?;
    let bytes: u64 = first.items.iter().map(|item| item.to_string().len() as u64).sum();
    let bytes_per_object = bytes / (first.items.len() as u64).max(1);
    let (objects, is_lower_bound) = match first.total() {
        Some(objects) => (objects, false),
        // Servers do not count the objects that a selector selects.
        None => count(client, &key, &first).await?,
    };
    let selectors = [key.label_selector.as_str(), key.field_selector.as_str()];
    let selector = selectors.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
    Ok(WatchSample {
        resource: key.resource_name(),
        namespace: key.namespace,
        selector,
        plugins,
        objects,
        is_lower_bound,
        bytes_per_object,
    })
}

/// Counts the objects of a list by reading its pages. Returns whether there are more.
async fn count(client: &kube::Client, key: &ListKey, first: &Page) -> Result<(u64, bool), CommandError> {
    let mut objects = first.items.len() as u64;
    let mut token = first.next_token().map(str::to_owned);
    for _ in 0..MAX_PAGES {
        let Some(current) = token else { return Ok((objects, false)) };
        let next = page(client, key, PAGE, &current).await?;
        objects += next.items.len() as u64;
        token = next.next_token().map(str::to_owned);
    }
    Ok((objects, token.is_some()))
}

/// Reads a page. It is empty if a plugin brings the kind's CRD and that is not installed.
async fn page(client: &kube::Client, key: &ListKey, limit: usize, token: &str) -> Result<Page, CommandError> {
    let url = key.url(limit, token);
    let failed = |problem: String| {
        let what = key.resource_name();
        CommandError::Failure(format!(
            "cannot count {what}: GET {url}: {problem}; give a kubeconfig that may list them"
        ))
    };
    let accept = if key.metadata_only { METADATA } else { "application/json" };
    let request = Request::get(&url).header("accept", accept).body(kube::client::Body::empty());
    let response = client
        .send(request.map_err(|error| failed(error.to_string()))?)
        .await
        .map_err(|error| failed(error.to_string()))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
    let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
    if status == StatusCode::NOT_FOUND && key.has_own_crd {
        return Ok(Page::default());
    }
    if status == StatusCode::NOT_FOUND {
        let what = key.resource_name();
        return Err(CommandError::Failure(format!(
            "cannot count {what}: the API server does not serve it; install its CRD, or leave out the plugin that watches it"
        )));
    }
    if status != StatusCode::OK {
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        return Err(failed(format!("{status}: {}", answer["message"].as_str().unwrap_or_default())));
    }
    serde_json::from_slice(&body).map_err(|error| failed(error.to_string()))
}

fn print(estimate: &Estimate, format: SizeFormat) -> CommandResult {
    let failed =
        |error: &dyn std::fmt::Display| CommandError::Failure(format!("cannot print the result: {error}"));
    let text = match format {
        SizeFormat::Table => table(estimate),
        SizeFormat::Json => serde_json::to_string_pretty(estimate).map_err(|error| failed(&error))?,
        SizeFormat::Yaml => serde_saphyr::to_string(estimate).map_err(|error| failed(&error))?,
    };
    output::print_line(text.trim_end());
    Ok(())
}

fn table(estimate: &Estimate) -> String {
    let header = ["RESOURCE", "NAMESPACE", "SELECTOR", "OBJECTS", "BYTES/OBJECT", "PLUGINS"]
        .map(str::to_owned)
        .to_vec();
    let shown = |text: &str| if text.is_empty() { "-".to_owned() } else { printable(text).to_string() };
    let row = |watch: &WatchSample| {
        let more = if watch.is_lower_bound { "+" } else { "" };
        vec![
            shown(&watch.resource),
            shown(&watch.namespace),
            shown(&watch.selector),
            format!("{}{more}", watch.objects),
            watch.bytes_per_object.to_string(),
            watch.plugins.len().to_string(),
        ]
    };
    let watches: Vec<_> = std::iter::once(header).chain(estimate.watches.iter().map(row)).collect();
    let header = ["MEMORY", "MiB", "COUNTS FOR", "SOURCE"].map(str::to_owned).to_vec();
    let parts = estimate.memory.iter().map(|part| {
        let counts_for = if part.limit_only { "limit" } else { "request, limit" };
        vec![part.part.to_owned(), part.mebibytes.to_string(), counts_for.to_owned(), part.source.to_owned()]
    });
    let memory: Vec<_> = std::iter::once(header).chain(parts).collect();
    let resources = &estimate.resources;
    let mut lines = output::align(&watches);
    lines.push(String::new());
    lines.extend(output::align(&memory));
    lines.push(String::new());
    lines.extend(estimate.assumptions.iter().cloned());
    lines.push(String::new());
    lines.push(format!("requests: cpu {}, memory {}", resources.requests.cpu, resources.requests.memory));
    lines.push(format!("limits:   memory {}", resources.limits.memory));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(api_version: &str, namespace: &str) -> ListKey {
        ListKey {
            api_version: api_version.to_owned(),
            resource: "deployments".to_owned(),
            namespace: namespace.to_owned(),
            label_selector: "app in (a,b)".to_owned(),
            field_selector: String::new(),
            metadata_only: false,
            has_own_crd: false,
        }
    }

    #[test]
    fn a_list_has_its_group_namespace_and_selectors_in_the_url() {
        let url = key("apps/v1", "shop").url(1, "");
        assert_eq!(
            url,
            "/apis/apps/v1/namespaces/shop/deployments?limit=1&labelSelector=app%20in%20%28a%2Cb%29"
        );
        let url = key("v1", "").url(5, "next=");
        assert_eq!(url, "/api/v1/deployments?limit=5&labelSelector=app%20in%20%28a%2Cb%29&continue=next%3D");
        assert_eq!(key("apps/v1", "").resource_name(), "deployments.apps");
    }

    #[test]
    fn the_total_is_known_if_the_server_counts_or_the_list_ends() {
        let total = |page: Value| serde_json::from_value::<Page>(page).expect("a page").total();
        assert_eq!(
            total(json!({"metadata": {"remainingItemCount": 7, "continue": "x"}, "items": [1]})),
            Some(8)
        );
        let many = json!({"metadata": {"remainingItemCount": u64::MAX, "continue": "x"}, "items": [1]});
        assert_eq!(total(many), Some(u64::MAX));
        assert_eq!(total(json!({"metadata": {"continue": ""}, "items": [1, 2]})), Some(2));
        assert_eq!(total(json!({"metadata": {"continue": "x"}, "items": [1]})), None);
    }

    #[test]
    fn the_table_ends_with_the_resources() {
        let sample = WatchSample {
            resource: "pods".to_owned(),
            namespace: String::new(),
            selector: "app=web".to_owned(),
            plugins: vec!["a".to_owned()],
            objects: 5,
            is_lower_bound: true,
            bytes_per_object: 9,
        };
        let found = estimate(vec![sample], &[], Assumptions { is_compressed: false, busy_workers: 1 });
        let text = table(&found);
        assert!(text.contains("pods") && text.contains("5+"), "{text}");
        assert!(text.contains(&format!("limits:   memory {}", found.resources.limits.memory)), "{text}");
    }
}
