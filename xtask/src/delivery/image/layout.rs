//! The documents of an image: configuration, manifest and index.

use serde_json::{Map, Value, json};

use super::contents::{PROGRAM, USER};
use super::files::LayoutFiles;
use crate::delivery::sha256;

pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIGURATION: &str = "application/vnd.oci.image.config.v1+json";

/// The annotation with the name of an image within a layout.
pub(super) const REFERENCE_NAME: &str = "org.opencontainers.image.ref.name";

/// The variables of the image's configuration.
pub(super) const ENVIRONMENT: [&str; 3] =
    ["PATH=/usr/local/bin", "PILOTHOUSE_CACHE_DIR=/cache", "PILOTHOUSE_PLUGINS=/plugins"];

/// A layer.
pub(super) struct Layer {
    /// Sum of the archive before its compression.
    tar_sha256: String,
    media_type: &'static str,
    compressed: Vec<u8>,
    purpose: &'static str,
}

impl Layer {
    /// Returns a layer with the sum of `tar`, which `compressed` contains.
    pub(super) fn new(
        tar: &[u8],
        media_type: &'static str,
        compressed: Vec<u8>,
        purpose: &'static str,
    ) -> Self {
        Self { tar_sha256: sha256::hex(tar), media_type, compressed, purpose }
    }
}

/// What an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) name: &'static str,
    /// The tag.
    pub(super) reference: String,
    /// In Go's notation.
    pub(super) architecture: &'static str,
    pub(super) version: String,
    pub(super) revision: Option<String>,
    /// Time of the commit in RFC 3339.
    pub(super) created: String,
}

impl Description {
    fn labels(&self) -> Map<String, Value> {
        let labels = [
            ("title", Some("pilothouse")),
            ("description", Some("A WebAssembly host for Kubernetes controllers")),
            ("licenses", Some("Apache-2.0")),
            ("version", Some(self.version.as_str())),
            ("created", Some(self.created.as_str())),
            ("revision", self.revision.as_deref()),
        ];
        let labels = labels.into_iter().filter_map(|(name, value)| Some((name, value?)));
        labels.map(|(name, value)| (format!("org.opencontainers.image.{name}"), value.into())).collect()
    }
}

/// A layout, complete.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) files: LayoutFiles,
    /// The digest of the image: the sum of its manifest, or of its index.
    pub(super) digest: String,
    /// Size of the layers in bytes.
    pub(super) compressed_size: usize,
}

/// Returns the layout of an image with these layers.
pub(super) fn image(layers: &[Layer], description: &Description) -> Layout {
    let mut files = LayoutFiles::default();
    let configuration = configuration(layers, description);
    let configuration = files.add_blob(CONFIGURATION, configuration.to_string().into_bytes());
    let descriptors: Vec<Value> =
        layers.iter().map(|layer| files.add_blob(layer.media_type, layer.compressed.clone())).collect();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": configuration,
        "layers": descriptors,
        "annotations": description.labels(),
    });
    let manifest = manifest.to_string().into_bytes();
    let digest = sha256::hex(&manifest);
    let mut descriptor = files.add_blob(MANIFEST, manifest);
    descriptor["platform"] = json!({"architecture": description.architecture, "os": "linux"});
    descriptor["annotations"] = json!({REFERENCE_NAME: description.reference});
    files.set_index(&[descriptor]);
    // `docker load` without containerd's image store reads only this file of its own format.
    let blob_path = |descriptor: &Value| {
        descriptor["digest"].as_str().unwrap_or_default().replacen("sha256:", "blobs/sha256/", 1)
    };
    let docker = json!([{
        "Config": blob_path(&configuration),
        "RepoTags": [format!("{}:{}", description.name, description.reference)],
        "Layers": descriptors.iter().map(blob_path).collect::<Vec<_>>(),
    }]);
    files.insert("manifest.json", docker.to_string().into_bytes());
    let compressed_size = layers.iter().map(|layer| layer.compressed.len()).sum();
    Layout { files, digest, compressed_size }
}

/// Returns how a container runs the image.
fn configuration(layers: &[Layer], description: &Description) -> Value {
    let history = layers.iter().map(|layer| {
        json!({"created": description.created, "created_by": "cargo xtask image", "comment": layer.purpose})
    });
    let sums = layers.iter().map(|layer| format!("sha256:{}", layer.tar_sha256));
    json!({
        "architecture": description.architecture,
        "os": "linux",
        "created": description.created,
        "config": {
            // With numbers, Kubernetes can check `runAsNonRoot`.
            "User": format!("{USER}:{USER}"),
            "Entrypoint": [PROGRAM],
            "Cmd": ["run", "--listen", "0.0.0.0:9464"],
            "Env": ENVIRONMENT,
            "ExposedPorts": {"9464/tcp": {}},
            "WorkingDir": "/",
            "Labels": description.labels(),
        },
        "rootfs": {"type": "layers", "diff_ids": sums.collect::<Vec<_>>()},
        "history": history.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a small image for an architecture.
    pub(in super::super) fn example(architecture: &'static str) -> Layout {
        let layers =
            [("base", "base compressed"), (architecture, "program compressed")].map(|(tar, compressed)| {
                Layer::new(
                    tar.as_bytes(),
                    "application/vnd.oci.image.layer.v1.tar+zstd",
                    compressed.into(),
                    "test",
                )
            });
        image(&layers, &description(architecture))
    }

    /// Returns the description of an image for an architecture.
    pub(in super::super) fn description(architecture: &'static str) -> Description {
        Description {
            name: "pilothouse",
            reference: "1.2.3".to_owned(),
            architecture,
            version: "1.2.3".to_owned(),
            revision: None,
            created: "2026-11-01T00:00:00Z".to_owned(),
        }
    }

    #[test]
    fn two_layouts_of_the_same_layers_are_identical() {
        assert_eq!(example("amd64").files, example("amd64").files);
        assert_ne!(example("amd64").digest, example("arm64").digest);
    }

    #[test]
    fn every_descriptor_is_that_of_a_blob() {
        let layout = example("amd64");
        let manifest = layout.files.json(&format!("blobs/sha256/{}", layout.digest)).expect("JSON");
        let index = layout.files.json("index.json").expect("JSON");
        assert_eq!(index["manifests"][0]["digest"], format!("sha256:{}", layout.digest));
        assert_eq!(index["manifests"][0]["annotations"][REFERENCE_NAME], "1.2.3");
        let layers = manifest["layers"].as_array().expect("layers");
        assert_eq!(layers.len(), 2);
        for descriptor in layers.iter().chain([&manifest["config"], &index["manifests"][0]]) {
            let digest = descriptor["digest"].as_str().expect("a digest");
            let path = digest.replace("sha256:", "blobs/sha256/");
            let blob = layout.files.get(&path).expect("a blob");
            assert_eq!(format!("sha256:{}", sha256::hex(blob)), digest);
            assert_eq!(descriptor["size"], blob.len());
        }
    }

    #[test]
    fn the_configuration_runs_the_host_as_a_user_without_rights() {
        let layout = example("amd64");
        let manifest = layout.files.json(&format!("blobs/sha256/{}", layout.digest)).expect("JSON");
        let digest = manifest["config"]["digest"].as_str().expect("a digest");
        let configuration = layout.files.json(&digest.replace("sha256:", "blobs/sha256/")).expect("JSON");
        assert_eq!(configuration["config"]["User"], "64946:64946");
        assert_eq!(configuration["config"]["Entrypoint"], json!(["/usr/local/bin/pilothouse"]));
        assert_eq!(configuration["config"]["Labels"]["org.opencontainers.image.version"], "1.2.3");
        assert_eq!(configuration["config"]["Labels"]["org.opencontainers.image.revision"], Value::Null);
        let sums = ["base", "amd64"].map(|tar| format!("sha256:{}", sha256::hex(tar.as_bytes())));
        assert_eq!(configuration["rootfs"]["diff_ids"], json!(sums));
        assert_eq!(configuration["history"].as_array().map(Vec::len), Some(2));
    }
}
