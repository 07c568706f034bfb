//! Reads CustomResourceDefinitions from files, for `check --crds`.

use std::fs;
use std::path::{Path, PathBuf};

use pilothouse_yaml::describe;
use serde_json::{Value, json};

use crate::{CommandError, input_file};

/// The extensions of files with manifests, as for kubectl.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
/// The maximum number of files.
const MAX_FILES: usize = 1_000;
/// The maximum size of a file in bytes. `kubectl get crds -o yaml` of a large cluster has some.
const MAX_FILE: u64 = 32 << 20;

/// Returns the CRDs in a file, or in the files of a folder without its subfolders. Manifests of other kinds are left out.
///
/// # Errors
/// Returns a usage error that names the file if it is not YAML, and the folder if there is no CRD.
pub(super) fn read(path: &Path) -> Result<Vec<Value>, CommandError> {
    let usage_error = |path: &Path, problem: &dyn std::fmt::Display| {
        CommandError::Usage(format!("--crds {}: {problem}", path.display()))
    };
    let mut crds = Vec::new();
    for file in files(path).map_err(|problem| usage_error(path, &problem))? {
        let text =
            input_file::read_text_or_pipe(&file, MAX_FILE).map_err(|problem| usage_error(&file, &problem))?;
        crds.extend(parse(&text).map_err(|problem| usage_error(&file, &problem))?);
    }
    if crds.is_empty() {
        let problem = "there is no CustomResourceDefinition of apiextensions.k8s.io/v1; give a folder or a file with the manifests of CRDs";
        return Err(usage_error(path, &problem));
    }
    Ok(crds)
}

/// Returns the file itself, or the files in a folder that have an extension of manifests, sorted by name.
fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let text = |error: std::io::Error| error.to_string();
    if !fs::metadata(path).map_err(text)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(text)? {
        let file = entry.map_err(text)?.path();
        let is_manifest = file.extension().is_some_and(|end| EXTENSIONS.iter().any(|known| end == *known));
        if is_manifest && file.is_file() {
            files.push(file);
        }
    }
    if files.len() > MAX_FILES {
        return Err(format!("it has {} files; the maximum is {MAX_FILES}", files.len()));
    }
    files.sort();
    Ok(files)
}

/// Returns the CRDs among the documents of a file. A `List`, as `kubectl get` prints it, stands for its items.
///
/// # Errors
/// Errors with one line if the text is not YAML.
fn parse(text: &str) -> Result<Vec<Value>, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| describe(&error))?;
    let mut crds = Vec::new();
    for mut document in documents {
        let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        match document.get_mut("items").filter(|_| is_list).map(Value::take) {
            Some(Value::Array(items)) => crds.extend(items.iter().filter_map(crd)),
            _ => crds.extend(crd(&document)),
        }
    }
    Ok(crds)
}

/// Returns the manifest of a CRD without what a server has added; `None` for an object of another kind.
fn crd(object: &Value) -> Option<Value> {
    let is_crd =
        object["apiVersion"] == "apiextensions.k8s.io/v1" && object["kind"] == "CustomResourceDefinition";
    is_crd.then(|| {
        json!({
            "apiVersion": object["apiVersion"], "kind": object["kind"],
            "metadata": {"name": object["metadata"]["name"]}, "spec": object["spec"],
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
        metadata: {name: foos.example.com, uid: u, managedFields: [{manager: kubectl}]}\nspec: {group: example.com}\nstatus: {}\n";

    #[test]
    fn crds_are_read_from_documents_and_lists_without_what_the_server_added() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
        write("a.yaml", &format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\n---\n{CRD}"));
        let item = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "b"}});
        write(
            "b.json",
            &json!({"apiVersion": "v1", "kind": "List", "items": [item, {"kind": "Pod"}]}).to_string(),
        );
        write("readme.md", "no manifest");
        let crds = read(folder.path()).expect("two CRDs");
        let names: Vec<_> = crds.iter().map(|crd| crd["metadata"].to_string()).collect();
        assert_eq!(names, [r#"{"name":"foos.example.com"}"#, r#"{"name":"b"}"#]);
        assert_eq!((&crds[0]["spec"]["group"], &crds[0]["status"]), (&json!("example.com"), &Value::Null));
        assert_eq!(read(&folder.path().join("a.yaml")).expect("one CRD").len(), 1);
    }

    #[test]
    fn a_path_without_crds_is_refused_with_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let refused = |path: &Path, part: &str| {
            let Err(CommandError::Usage(text)) = read(path) else { panic!("{part}") };
            assert!(text.starts_with("--crds ") && text.contains(part), "{text}");
        };
        refused(folder.path(), "there is no CustomResourceDefinition");
        refused(&folder.path().join("absent"), "absent");
        fs::write(folder.path().join("a.yaml"), "a: [").expect("written");
        refused(folder.path(), "a.yaml");
    }
}
