//! Copies an example so that it can be changed without touching the checkout, as for the demo's live reload.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Copies the example `package` into `destination`, a workspace of its own with the profile, lock file and dependency versions of the
/// examples, so that only the example itself has to be compiled. Replaces an earlier copy. Returns `destination/package`.
pub(crate) fn copy_example(root: &Path, package: &str, destination: &Path) -> Result<PathBuf> {
    let examples = root.join("examples");
    let source = examples.join(package);
    let copy = destination.join(package);
    if copy.exists() {
        fs::remove_dir_all(&copy).with_context(|| format!("remove the earlier copy {}", copy.display()))?;
    }
    copy_folder(&source, &copy)?;
    let manifest = fs::read_to_string(examples.join("Cargo.toml")).context("read examples/Cargo.toml")?;
    let root = root.canonicalize().with_context(|| format!("find {}", root.display()))?;
    fs::write(destination.join("Cargo.toml"), workspace_of_one(&manifest, package, &root))
        .with_context(|| format!("write {}", destination.join("Cargo.toml").display()))?;
    fs::copy(examples.join("Cargo.lock"), destination.join("Cargo.lock"))
        .context("copy examples/Cargo.lock")?;
    Ok(copy)
}

/// Returns the workspace manifest with `package` as its only member and absolute paths to the repository's crates.
fn workspace_of_one(manifest: &str, package: &str, root: &Path) -> String {
    // The list of members may span several lines.
    let text = match manifest
        .split_once("\nmembers = [")
        .and_then(|(before, rest)| Some((before, rest.split_once(']')?.1)))
    {
        Some((before, after)) => format!("{before}\nmembers = [{package:?}]{after}"),
        None => manifest.to_owned(),
    };
    text.replace("path = \"../", &format!("path = \"{}/", root.display()))
}

/// Copies a folder with everything in it.
///
/// # Errors
/// Errors if a file cannot be read or written.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let entry = entry.with_context(|| format!("read {}", from.display()))?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(|| format!("copy {}", entry.path().display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_one_member_and_absolute_paths() {
        for members in
            ["\"a\", \"b\", \"../guest-sdk/rust\"", "\n    \"a\", \"b\",\n    \"../guest-sdk/rust\",\n"]
        {
            let manifest = format!(
                "[workspace]\nmembers = [{members}]\n\n[workspace.dependencies]\nsdk = {{ path = \"../guest-sdk/rust\" }}\n"
            );
            let text = workspace_of_one(&manifest, "b", Path::new("/checkout"));
            assert_eq!(
                text,
                "[workspace]\nmembers = [\"b\"]\n\n[workspace.dependencies]\nsdk = { path = \"/checkout/guest-sdk/rust\" }\n"
            );
        }
    }
}
