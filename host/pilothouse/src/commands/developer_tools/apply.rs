//! `pilothouse dev --apply`: applies the manifests of a folder to the embedded API server at the start.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Request;
use http::header::CONTENT_TYPE;
use pilothouse_yaml::describe;
use serde_json::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::commands::remote::percent_encoded;
use crate::{CommandError, input_file};

/// The field manager of the applied objects.
const FIELD_MANAGER: &str = "pilothouse-apply";
/// The namespace of a namespaced object whose manifest names none, as for kubectl.
const DEFAULT_NAMESPACE: &str = "default";
/// The extensions of files with manifests, as for kubectl.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
/// The maximum size of a file in bytes.
const MAX_FILE: u64 = 32 << 20;
/// How often a kind that is not served yet is looked up.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Manifests in the order in which they are applied: CRDs, Namespaces, and the rest by file and position.
#[derive(Debug, PartialEq)]
pub(crate) struct Manifests(Vec<Manifest>);

/// The manifest of one object.
#[derive(Debug, PartialEq)]
pub(crate) struct Manifest {
    /// The file.
    source: PathBuf,
    api_version: String,
    kind: String,
    /// "" if the manifest names none.
    namespace: String,
    name: String,
    object: Value,
}

/// What became of a manifest.
enum Outcome {
    Applied,
    /// The server does not serve the kind, at least not yet.
    NotServed,
    Refused(String),
}

impl Manifests {
    /// Reads a file, or the files of a folder without its subfolders.
    ///
    /// # Errors
    /// Returns a usage error that names the file if there is none, or one has something else than manifests.
    pub(crate) fn read(path: &Path) -> Result<Self, CommandError> {
        let usage_error = |path: &Path, problem: &dyn std::fmt::Display| {
            CommandError::Usage(format!("--apply {}: {problem}", path.display()))
        };
        let files = files(path).map_err(|error| usage_error(path, &error))?;
        if files.is_empty() {
            let problem = "it has no .yaml, .yml or .json file; give a folder with manifests";
            return Err(usage_error(path, &problem));
        }
        let mut manifests = Vec::new();
        for file in files {
            let text = input_file::read_text_or_pipe(&file, MAX_FILE)
                .map_err(|problem| usage_error(&file, &problem))?;
            manifests.extend(parse(&file, &text).map_err(|problem| usage_error(&file, &problem))?);
        }
        manifests.sort_by_key(Manifest::rank);
        Ok(Self(manifests))
    }

    /// Whether there is nothing to apply.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Applies the manifests and logs what became of each. Returns those of kinds that the server does not serve yet: a plugin may bring
    /// their CRDs.
    pub(crate) async fn apply(self, client: &kube::Client) -> Self {
        let mut pending = Vec::new();
        for manifest in self.0 {
            match manifest.apply(client).await {
                Outcome::Applied => tracing::info!("applied {manifest}"),
                Outcome::Refused(problem) => tracing::error!("not applied: {manifest}: {problem}"),
                Outcome::NotServed => pending.push(manifest),
            }
        }
        Self(pending)
    }

    /// Applies the manifests as soon as their kinds are served, until `stop` is cancelled.
    pub(crate) async fn apply_when_served(mut self, client: kube::Client, stop: CancellationToken) {
        for manifest in &self.0 {
            let Manifest { kind, api_version, .. } = manifest;
            tracing::info!("waiting for kind {kind:?} in {api_version:?} to be served: {manifest}");
        }
        while !self.is_empty() {
            tokio::select! {
                () = sleep(RETRY_INTERVAL) => self = self.apply(&client).await,
                () = stop.cancelled() => return,
            }
        }
    }
}

/// Returns the file itself, or the files in a folder that have an extension of manifests, sorted by name.
fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        let is_manifest = file.extension().is_some_and(|end| EXTENSIONS.iter().any(|known| end == *known));
        if is_manifest && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Parses the documents of a file. A `List` stands for its items.
///
/// # Errors
/// Errors with one line if the text is not YAML, or a document is not a manifest.
pub(crate) fn parse(file: &Path, text: &str) -> Result<Vec<Manifest>, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| describe(&error))?;
    let mut manifests = Vec::new();
    for document in documents {
        match document {
            Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                let Some(Value::Array(items)) = list.remove("items") else { continue };
                for item in items {
                    manifests.push(Manifest::new(file, item)?);
                }
            }
            object => manifests.push(Manifest::new(file, object)?),
        }
    }
    Ok(manifests)
}

impl Manifest {
    /// Returns the manifest of an object in this file.
    ///
    /// # Errors
    /// Errors with one line if a field is missing that every object has.
    pub(crate) fn new(file: &Path, object: Value) -> Result<Self, String> {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let manifest = Self {
            source: file.to_owned(),
            api_version: text("/apiVersion"),
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            object: Value::Null,
        };
        for (field, value) in [
            ("apiVersion", &manifest.api_version),
            ("kind", &manifest.kind),
            ("metadata.name", &manifest.name),
        ] {
            if value.is_empty() {
                return Err(format!("a document has no {field}; each must be the manifest of one object"));
            }
        }
        // It becomes a part of a URL.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'/');
        if !manifest.api_version.bytes().all(is_plain) {
            return Err(format!("{:?} is not an API version", manifest.api_version));
        }
        Ok(Self { object, ..manifest })
    }

    /// Returns the object as `KIND/NAME`, or `KIND/NAMESPACE/NAME` if the manifest names a namespace.
    pub(crate) fn short_name(&self) -> String {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        format!("{}/{}{slash}{}", self.kind, self.namespace, self.name)
    }

    /// Returns the position of the object's kind in the order of application: a CRD and a Namespace come before what needs them.
    pub(crate) fn rank(&self) -> u8 {
        match (self.api_version.as_str(), self.kind.as_str()) {
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => 0,
            ("v1", "Namespace") => 1,
            _ => 2,
        }
    }

    async fn apply(&self, client: &kube::Client) -> Outcome {
        match self.try_apply(client).await {
            Ok(true) => Outcome::Applied,
            Ok(false) => Outcome::NotServed,
            Err(kube::Error::Api(status)) => Outcome::Refused(status.message.clone()),
            Err(error) => Outcome::Refused(error.to_string()),
        }
    }

    /// Applies the manifest by server-side apply. Returns whether its kind is served.
    ///
    /// # Errors
    /// Errors if the API server refuses the request or does not respond.
    pub(crate) async fn try_apply(&self, client: &kube::Client) -> Result<bool, kube::Error> {
        let Some(path) = self.find_path(client).await? else { return Ok(false) };
        let request = Request::patch(format!("{path}?fieldManager={FIELD_MANAGER}&force=true"))
            .header(CONTENT_TYPE, "application/apply-patch+yaml")
            .body(self.object.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        client.request::<Value>(request).await?;
        Ok(true)
    }

    /// Creates the object. Returns whether its kind is served.
    ///
    /// # Errors
    /// Errors if the API server refuses the request, for example because the object exists, or does not respond.
    pub(crate) async fn try_create(&self, client: &kube::Client) -> Result<bool, kube::Error> {
        let Some(path) = self.find_path(client).await? else { return Ok(false) };
        // The name is percent-encoded, so the last slash precedes it.
        let collection = path.rsplit_once('/').map_or(path.as_str(), |(collection, _)| collection);
        let request = Request::post(format!("{collection}?fieldManager={FIELD_MANAGER}"))
            .header(CONTENT_TYPE, "application/json")
            .body(self.object.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        client.request::<Value>(request).await?;
        Ok(true)
    }

    /// Returns the path of the object; `None` if its kind is not served.
    async fn find_path(&self, client: &kube::Client) -> Result<Option<String>, kube::Error> {
        let root = match self.api_version.contains('/') {
            true => format!("/apis/{}", self.api_version),
            false => format!("/api/{}", self.api_version),
        };
        let request = Request::get(&root).body(Vec::new()).map_err(kube::Error::HttpError)?;
        match client.request::<Value>(request).await {
            Ok(resources) => Ok(self.path(&root, &resources)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the path of the object, given the resources that are served below `root`; `None` if its kind is not among them.
    fn path(&self, root: &str, resources: &Value) -> Option<String> {
        let resources = resources["resources"].as_array()?;
        let (resource, plural) = resources.iter().find_map(|resource| {
            // A name with a slash is that of a subresource.
            let plural = resource["name"].as_str().filter(|name| !name.contains('/'))?;
            (resource["kind"] == *self.kind).then_some((resource, plural))
        })?;
        let name = percent_encoded(&self.name);
        if resource["namespaced"] != true {
            return Some(format!("{root}/{plural}/{name}"));
        }
        let namespace = if self.namespace.is_empty() { DEFAULT_NAMESPACE } else { &self.namespace };
        Some(format!("{root}/namespaces/{}/{plural}/{name}", percent_encoded(namespace)))
    }
}

/// Writes the kind, the key and the file.
impl std::fmt::Display for Manifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {}{slash}{} from {}", self.kind, self.namespace, self.name, self.source.display())
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_apiserver::ApiServer;
    use serde_json::json;

    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("written");
        }
        folder
    }

    fn described(manifests: &Manifests) -> Vec<String> {
        manifests.0.iter().map(|manifest| format!("{} {}", manifest.kind, manifest.name)).collect()
    }

    const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: foos.example.com}\n\
        spec: {group: example.com, scope: Namespaced, names: {plural: foos, kind: Foo}, versions: [{name: v1, served: true, \
        storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}\n";
    const FOO: &str = "apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: a}\nspec: {size: 3}\n";

    #[test]
    fn manifests_are_read_from_all_documents_and_ordered() {
        let pods = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: p}}\n\
                    - {apiVersion: v1, kind: Pod, metadata: {name: q}}\n---\n# nothing\n---\n\
                    apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
        let map =
            r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "shop"}}"#;
        let folder =
            folder(&[("b.yaml", CRD), ("a.yml", pods), ("c.json", map), ("README.md", "no manifest")]);
        let manifests = Manifests::read(folder.path()).expect("manifests");
        let expected =
            ["CustomResourceDefinition foos.example.com", "Namespace shop", "Pod p", "Pod q", "ConfigMap m"];
        assert_eq!(described(&manifests), expected);
        let one = Manifests::read(&folder.path().join("c.json")).expect("a file");
        assert_eq!(described(&one), ["ConfigMap m"]);
    }

    #[test]
    fn a_file_without_manifests_is_named_with_its_problem() {
        for (files, expected) in [
            (&[][..], "it has no .yaml, .yml or .json file"),
            (&[("a.yaml", "kind: [")][..], "a.yaml: "),
            (&[("a.yaml", "kind: Pod")][..], "a document has no apiVersion"),
            (&[("a.yaml", "{apiVersion: v1, kind: Pod, metadata: {}}")][..], "has no metadata.name"),
            (&[("a.yaml", "{apiVersion: 'v1?x', kind: Pod, metadata: {name: a}}")][..], "not an API version"),
        ] {
            let folder = folder(files);
            let Err(CommandError::Usage(text)) = Manifests::read(folder.path()) else { panic!("{expected}") };
            assert!(text.starts_with("--apply ") && text.contains(expected), "{text}");
        }
        let absent = Manifests::read(Path::new("no/such/folder"));
        assert!(matches!(absent, Err(CommandError::Usage(text)) if text.contains("no/such/folder")));
    }

    #[test]
    fn the_path_of_an_object_depends_on_the_scope_of_its_kind() {
        let resources = json!({"resources": [
            {"name": "foos/status", "kind": "Foo", "namespaced": true},
            {"name": "foos", "kind": "Foo", "namespaced": true},
            {"name": "bars", "kind": "Bar", "namespaced": false},
        ]});
        let path = |kind: &str, namespace: &str| {
            let object = json!({
                "apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "x:y", "namespace": namespace},
            });
            let manifest = Manifest::new(Path::new("a.yaml"), object).expect("a manifest");
            manifest.path("/apis/example.com/v1", &resources)
        };
        assert_eq!(path("Foo", "").as_deref(), Some("/apis/example.com/v1/namespaces/default/foos/x%3Ay"));
        assert_eq!(path("Foo", "shop").as_deref(), Some("/apis/example.com/v1/namespaces/shop/foos/x%3Ay"));
        assert_eq!(path("Bar", "shop").as_deref(), Some("/apis/example.com/v1/bars/x%3Ay"));
        assert_eq!(path("Baz", ""), None);
    }

    async fn size(client: &kube::Client) -> Option<i64> {
        let request = Request::get("/apis/example.com/v1/namespaces/default/foos/a").body(Vec::new());
        let foo: Value = client.request(request.expect("a request")).await.ok()?;
        foo["spec"]["size"].as_i64()
    }

    #[tokio::test]
    async fn objects_are_applied_after_their_crds_and_a_second_time_without_a_conflict() {
        let client = kube::Client::new(ApiServer::builder().build().service(), "default");
        let folder = folder(&[("a.yaml", FOO), ("b.yaml", CRD)]);
        for _ in 0..2 {
            let manifests = Manifests::read(folder.path()).expect("manifests");
            assert!(manifests.apply(&client).await.is_empty());
        }
        assert_eq!(size(&client).await, Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_applied_once_a_plugin_has_brought_its_crd() {
        let client = kube::Client::new(ApiServer::builder().build().service(), "default");
        let (objects, crds) = (folder(&[("a.yaml", FOO)]), folder(&[("b.yaml", CRD)]));
        let pending = Manifests::read(objects.path()).expect("a manifest").apply(&client).await;
        assert_eq!(described(&pending), ["Foo a"]);
        let waiting = tokio::spawn(pending.apply_when_served(client.clone(), CancellationToken::new()));
        assert!(Manifests::read(crds.path()).expect("a CRD").apply(&client).await.is_empty());
        waiting.await.expect("it ends once everything is applied");
        assert_eq!(size(&client).await, Some(3));
    }
}
