//! Combines the images of several platforms into one image.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::files::LayoutFiles;
use super::layout::{INDEX, Layout, REFERENCE_NAME};
use crate::delivery::sha256;

/// Returns a layout whose image has a manifest for each of the layouts' platforms.
///
/// # Errors
/// Errors if a layout does not have exactly one image with a platform and a name, two are for the same platform, or their names differ.
pub(super) fn combine(layouts: &[LayoutFiles]) -> Result<Layout> {
    let mut files = LayoutFiles::default();
    let mut manifests = Vec::new();
    let mut names = Vec::new();
    for layout in layouts {
        let (name, manifest) = only_image(layout)?;
        names.push(name);
        manifests.push(manifest);
        for (path, bytes) in layout.blobs() {
            files.insert(path, bytes.to_vec());
        }
    }
    names.dedup();
    ensure!(names.len() == 1, "the layouts must have one name, not {}", names.join(", "));
    // The order of the arguments must not change the digest.
    let platform = |manifest: &Value| manifest["platform"].to_string();
    manifests.sort_by_key(platform);
    if let Some(pair) = manifests.windows(2).find(|pair| pair[0]["platform"] == pair[1]["platform"]) {
        anyhow::bail!("two layouts are for the platform {}", pair[0]["platform"]);
    }
    let compressed_size = files.blobs().map(|(_, bytes)| bytes.len()).sum();
    let index =
        json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).to_string().into_bytes();
    let digest = sha256::hex(&index);
    let mut descriptor = files.add_blob(INDEX, index);
    descriptor["annotations"] = json!({REFERENCE_NAME: names[0]});
    files.set_index(&[descriptor]);
    Ok(Layout { files, digest, compressed_size })
}

/// Returns the name of a layout's image, and its descriptor without the name.
fn only_image(layout: &LayoutFiles) -> Result<(String, Value)> {
    let manifests = layout.manifests()?;
    let [manifest] = &manifests[..] else {
        anyhow::bail!("a layout has {} images instead of one", manifests.len());
    };
    ensure!(manifest["platform"].is_object(), "a layout's image has no platform");
    let name = manifest["annotations"][REFERENCE_NAME].as_str().context("a layout's image has no name")?;
    let descriptor = json!({
        "mediaType": manifest["mediaType"],
        "digest": manifest["digest"],
        "size": manifest["size"],
        "platform": manifest["platform"],
    });
    Ok((name.to_owned(), descriptor))
}

#[cfg(test)]
mod tests {
    use super::super::layout::tests::example;
    use super::*;

    #[test]
    fn the_image_has_a_manifest_and_the_blobs_of_each_platform() {
        let [amd64, arm64] = ["amd64", "arm64"].map(example);
        let combined = combine(&[arm64.files.clone(), amd64.files.clone()]).expect("a layout");
        let index = combined.files.json(&format!("blobs/sha256/{}", combined.digest)).expect("JSON");
        let platforms =
            [0, 1].map(|position| index["manifests"][position]["platform"]["architecture"].clone());
        assert_eq!(platforms, ["amd64", "arm64"]);
        for layout in [&amd64, &arm64] {
            for (path, bytes) in layout.files.blobs() {
                assert_eq!(combined.files.get(path).expect("a blob"), bytes);
            }
        }
        let outer = combined.files.manifests().expect("a list");
        assert_eq!(outer.len(), 1);
        assert_eq!(outer[0]["digest"], format!("sha256:{}", combined.digest));
        assert_eq!(outer[0]["annotations"][REFERENCE_NAME], "1.2.3");
    }

    #[test]
    fn the_order_of_the_layouts_does_not_change_the_digest() {
        let [amd64, arm64] = ["amd64", "arm64"].map(|architecture| example(architecture).files);
        let digests = [[&amd64, &arm64], [&arm64, &amd64]]
            .map(|layouts| combine(&layouts.map(LayoutFiles::clone)).expect("a layout").digest);
        assert_eq!(digests[0], digests[1]);
    }

    #[test]
    fn layouts_that_do_not_belong_together_are_refused() {
        let amd64 = example("amd64").files;
        let twice = combine(&[amd64.clone(), amd64.clone()]).expect_err("refused").to_string();
        assert!(twice.contains("amd64"), "{twice}");
        let mut renamed = example("arm64").files;
        let mut manifest = renamed.manifests().expect("a list").remove(0);
        manifest["annotations"][REFERENCE_NAME] = json!("other");
        renamed.set_index(&[manifest]);
        assert!(combine(&[amd64, renamed]).is_err());
        let mut empty = LayoutFiles::default();
        empty.set_index(&[]);
        assert!(combine(&[empty]).is_err());
        assert!(combine(&[]).is_err());
    }
}
