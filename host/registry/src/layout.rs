//! How a plugin is stored in a registry. Writes the layout of the CNCF's TAG Runtime, or one for registries that refuse its config; reads
//! these and others that are in use.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::GzDecoder;
use serde::Serialize;

use crate::digest::Digest;
use crate::error::{Problem, RegistryError, excerpt};
use crate::manifest::{Descriptor, Manifest, media_type};

/// The config of the CNCF's layout.
const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// The layer of the CNCF's layout.
const WASM_LAYER: &str = "application/wasm";
/// Layers that are a wasm file, in layouts of other tools.
const OTHER_WASM_LAYERS: [&str; 3] = [
    "application/vnd.wasm.content.layer.v1+wasm",
    "application/vnd.module.wasm.content.layer.v1+wasm",
    "application/vnd.bytecodealliance.wasm.component.layer.v0+wasm",
];
/// Yoke's layer: a wasm file compressed with gzip.
const GZIP_LAYER: &str = "application/vnd.yoke.wasm.v1.gzip";

/// How many bytes of a plugin show that it is wasm.
pub(crate) const WASM_HEAD: usize = 8;

/// Which layout is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// The CNCF's: a config of its own type, and one layer `application/wasm`.
    #[default]
    Cncf,
    /// An empty config and the artifact's type in the manifest, for registries that refuse unknown types of configs.
    Legacy,
}

/// A manifest that is to be pushed, with its config.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// The manifest's JSON text.
    pub manifest: Vec<u8>,
    /// The config's JSON text.
    pub config: Vec<u8>,
}

/// The layer with the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WasmLayer {
    /// The layer as the registry stores it.
    pub descriptor: Descriptor,
    is_compressed: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WasmConfig<'a> {
    architecture: &'a str,
    os: &'a str,
    layer_digests: [Digest; 1],
}

impl Artifact {
    /// Describes a plugin. The same file always has the same digest, because nothing in the manifest depends on time or place.
    ///
    /// # Errors
    /// Errors if the bytes do not begin like a wasm file.
    pub fn of(wasm: &[u8], layout: Layout) -> Result<Self, RegistryError> {
        let os = match wasm_kind(wasm) {
            Some(WasmKind::Module) => "wasip1",
            Some(WasmKind::Component) => "wasip2",
            None => {
                return Err(RegistryError::new(
                    Problem::Invalid,
                    "the file is not wasm, so it is not pushed; name the .wasm file of a plugin",
                ));
            }
        };
        let wasm_config = WasmConfig { architecture: "wasm", os, layer_digests: [Digest::of(wasm)] };
        let (config_type, config, layer_type) = match layout {
            Layout::Cncf => (WASM_CONFIG, json(&wasm_config), WASM_LAYER),
            Layout::Legacy => (media_type::EMPTY, b"{}".to_vec(), OTHER_WASM_LAYERS[0]),
        };
        let manifest = Manifest {
            schema_version: 2,
            media_type: Some(media_type::MANIFEST.to_owned()),
            artifact_type: (layout == Layout::Legacy).then(|| WASM_LAYER.to_owned()),
            config: Descriptor::of(config_type, &config),
            layers: vec![Descriptor::of(layer_type, wasm)],
            subject: None,
            annotations: std::collections::BTreeMap::new(),
        };
        Ok(Self { manifest: json(&manifest), config })
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("structs of text and numbers are JSON")
}

/// Finds the layer with the plugin. `limit` is the maximum size of the plugin in bytes; `name` is for errors.
pub(crate) fn wasm_layer(manifest: &Manifest, limit: u64, name: &str) -> Result<WasmLayer, RegistryError> {
    let refuse = |problem: String| {
        RegistryError::new(
            Problem::Layout,
            format!("{name} is no plugin: {problem}; push the .wasm file with `pilothouse push`"),
        )
    };
    let [layer] = manifest.layers.as_slice() else {
        return Err(refuse(format!("it has {} layers instead of one", manifest.layers.len())));
    };
    let is_compressed = layer.media_type == GZIP_LAYER;
    if !is_compressed && layer.media_type != WASM_LAYER && !OTHER_WASM_LAYERS.contains(&&*layer.media_type) {
        return Err(refuse(format!("its layer has the type {:?}", excerpt(&layer.media_type))));
    }
    if layer.size > limit {
        return Err(too_large(name, layer.size, limit));
    }
    if layer.size == 0 {
        return Err(refuse("its layer is empty".to_owned()));
    }
    Ok(WasmLayer { descriptor: layer.clone(), is_compressed })
}

pub(crate) fn too_large(name: &str, size: u64, limit: u64) -> RegistryError {
    RegistryError::new(
        Problem::TooLarge,
        format!(
            "{name} has {size} bytes, and the limit is {limit}; make the plugin smaller, or raise maxArtifactSize"
        ),
    )
}

/// Whether a plugin begins like wasm.
pub(crate) fn is_wasm(head: &[u8]) -> bool {
    wasm_kind(head).is_some()
}

pub(crate) fn no_gzip(name: &str) -> RegistryError {
    no_plugin(name, "has a layer that is not valid gzip")
}

pub(crate) fn no_wasm(name: &str) -> RegistryError {
    no_plugin(name, "has a layer that is not wasm")
}

fn no_plugin(name: &str, problem: &str) -> RegistryError {
    RegistryError::new(
        Problem::Layout,
        format!("{name} {problem}; push the .wasm file with `pilothouse push`"),
    )
}

impl WasmLayer {
    pub(crate) fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// Returns the plugin in the layer's content, which has been checked against its digest.
    pub(crate) fn wasm<'a>(
        &self,
        content: &'a [u8],
        limit: u64,
        name: &str,
    ) -> Result<Cow<'a, [u8]>, RegistryError> {
        let wasm = if self.is_compressed {
            let mut wasm = Vec::new();
            let unpacked = GzDecoder::new(content).take(limit.saturating_add(1)).read_to_end(&mut wasm);
            unpacked.map_err(|_| no_gzip(name))?;
            if wasm.len() as u64 > limit {
                return Err(too_large(name, wasm.len() as u64, limit));
            }
            Cow::Owned(wasm)
        } else {
            Cow::Borrowed(content)
        };
        if !is_wasm(&wasm) {
            return Err(no_wasm(name));
        }
        Ok(wasm)
    }
}

enum WasmKind {
    Module,
    Component,
}

fn wasm_kind(bytes: &[u8]) -> Option<WasmKind> {
    match bytes.strip_prefix(b"\0asm")? {
        [1, 0, 0, 0, ..] => Some(WasmKind::Module),
        [_, _, 1, 0, ..] => Some(WasmKind::Component),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const MODULE: &[u8] = b"\0asm\x01\0\0\0rest";

    fn manifest(layers: &[(&str, &[u8])]) -> Manifest {
        let mut manifest =
            Manifest::parse(&Artifact::of(MODULE, Layout::Cncf).expect("wasm").manifest, "x").expect("ours");
        manifest.layers = layers.iter().map(|(kind, content)| Descriptor::of(kind, content)).collect();
        manifest
    }

    #[test]
    fn what_is_written_is_read_and_is_the_same_each_time() {
        for layout in [Layout::Cncf, Layout::Legacy] {
            let artifact = Artifact::of(MODULE, layout).expect("wasm");
            assert_eq!(artifact.manifest, Artifact::of(MODULE, layout).expect("wasm").manifest);
            let manifest = Manifest::parse(&artifact.manifest, "x").expect("a manifest");
            assert_eq!(
                manifest.config,
                Descriptor {
                    media_type: manifest.config.media_type.clone(),
                    ..Descriptor::of("", &artifact.config)
                }
            );
            let layer = wasm_layer(&manifest, 100, "x").expect("a layer");
            assert_eq!(layer.descriptor.digest, Digest::of(MODULE));
            assert_eq!(&*layer.wasm(MODULE, 100, "x").expect("wasm"), MODULE);
        }
        assert!(Artifact::of(b"#!/bin/sh", Layout::Cncf).is_err());
        let component = Artifact::of(b"\0asm\x0d\0\x01\0", Layout::Cncf).expect("wasm");
        assert!(String::from_utf8_lossy(&component.config).contains("wasip2"));
    }

    #[test]
    fn layers_of_other_tools_are_read() {
        for kind in OTHER_WASM_LAYERS {
            assert!(wasm_layer(&manifest(&[(kind, MODULE)]), 100, "x").is_ok(), "{kind}");
        }
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(MODULE).expect("written");
        let packed = packed.finish().expect("packed");
        let layer = wasm_layer(&manifest(&[(GZIP_LAYER, &packed)]), 100, "x").expect("a layer");
        assert_eq!(&*layer.wasm(&packed, 100, "x").expect("wasm"), MODULE);
        let error = layer.wasm(&packed, 5, "x").expect_err("larger than the limit once unpacked");
        assert_eq!(error.problem(), Problem::TooLarge);
        assert_eq!(layer.wasm(b"no gzip", 100, "x").expect_err("damaged").problem(), Problem::Layout);
    }

    #[test]
    fn anything_but_one_layer_with_wasm_is_refused() {
        for (layers, reason) in [
            (vec![], "0 layers"),
            (vec![(WASM_LAYER, MODULE), (WASM_LAYER, MODULE)], "2 layers"),
            (vec![("application/vnd.oci.image.layer.v1.tar+gzip", MODULE)], "type"),
            (vec![(WASM_LAYER, &b""[..])], "empty"),
        ] {
            let error = wasm_layer(&manifest(&layers), 100, "x").expect_err(reason);
            assert!(error.to_string().contains(reason), "{error}");
            assert!(error.to_string().contains("pilothouse push"), "{error}");
        }
        let error = wasm_layer(&manifest(&[(WASM_LAYER, MODULE)]), 5, "x").expect_err("too large");
        assert_eq!(error.problem(), Problem::TooLarge);
        let layer =
            wasm_layer(&manifest(&[(WASM_LAYER, b"<html>")]), 100, "x").expect("the manifest is well formed");
        assert_eq!(layer.wasm(b"<html>", 100, "x").expect_err("no wasm").problem(), Problem::Layout);
    }
}
