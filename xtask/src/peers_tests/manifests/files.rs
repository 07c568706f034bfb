//! Finds the manifests in a module.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Returns the paths of the manifests in some folders of a module, relative to it and in order. Templates are left out, because kubectl cannot
/// parse them.
///
/// # Errors
/// Errors if a folder or a file cannot be read.
pub(super) fn find(module: &Path, folders: &[&str]) -> Result<Vec<String>> {
    let mut found = BTreeSet::new();
    for folder in folders {
        add(module, folder, &mut found)?;
    }
    Ok(found.into_iter().collect())
}

fn add(module: &Path, folder: &str, found: &mut BTreeSet<String>) -> Result<()> {
    let path = module.join(folder);
    for entry in fs::read_dir(&path).with_context(|| format!("read {}", path.display()))? {
        let entry = entry.with_context(|| format!("read {}", path.display()))?;
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            add(module, &name, found)?;
        } else if has_yaml_ending(&name) && is_manifest(&read(module, &name)?) {
            found.insert(name);
        }
    }
    Ok(())
}

/// Returns the names of the namespaces that manifests name.
///
/// # Errors
/// Errors if a file cannot be read.
pub(super) fn namespaces(module: &Path, files: &[String]) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for file in files {
        names.extend(namespaces_in(&read(module, file)?));
    }
    Ok(names)
}

fn read(module: &Path, file: &str) -> Result<String> {
    let path = module.join(file);
    let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn has_yaml_ending(name: &str) -> bool {
    [".yaml", ".yml"].iter().any(|ending| name.ends_with(ending))
}

/// Returns whether a text is a manifest without template expressions, and no file for kustomize.
fn is_manifest(text: &str) -> bool {
    let templates = ["{{", "${"];
    // A chart has an apiVersion, but no kind.
    ["apiVersion:", "kind:"].iter().all(|field| text.lines().any(|line| line.starts_with(field)))
        && !templates.iter().any(|template| text.contains(template))
        && !text.contains("kustomize.config.k8s.io")
}

/// Returns the values of all fields with the name `namespace` that are names of a namespace.
fn namespaces_in(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| {
        let name = line.trim().trim_start_matches("- ").strip_prefix("namespace:")?;
        let name = name.split('#').next().unwrap_or_default().trim().trim_matches(['"', '\'']);
        let valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (!name.is_empty() && name.bytes().all(valid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_found_in_order_and_others_are_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("created");
            fs::write(file, text).expect("written");
        };
        write("b/b.yaml", "kind: A\napiVersion: v1\n");
        write("b/a/c.yml", "kind: A\napiVersion: v1\n");
        write("b/Chart.yaml", "apiVersion: v1\nname: a\n");
        write("b/template.yaml", "apiVersion: v1\nkind: A\nname: {{ .Kind }}\n");
        write("b/variable.yaml", "apiVersion: v1\nkind: A\nname: ${NAME}\n");
        write("b/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: A\n");
        write("b/values.yaml", "  apiVersion: v1\nkind: A\n");
        write("b/a.txt", "kind: A\napiVersion: v1\n");
        write("c/c.yaml", "kind: A\napiVersion: v1\n");
        assert_eq!(find(folder.path(), &["b"]).expect("read"), ["b/a/c.yml", "b/b.yaml"]);
        assert!(find(folder.path(), &["missing"]).is_err());
    }

    #[test]
    fn namespaces_are_the_values_of_their_fields() {
        let text = "metadata:\n  namespace: shop # x\nsubjects:\n- namespace: \"bots\"\nnamespace: {}\nnamespaces: a\n  namespace:\n";
        let names: Vec<String> = namespaces_in(text).collect();
        assert_eq!(names, ["shop", "bots"]);
    }
}
