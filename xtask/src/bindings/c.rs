//! Bindings for C. Only the imports are generated: the SDK defines the few exports itself, so that a plugin has only those it uses.

use std::path::Path;

use anyhow::Result;

use super::{GeneratedFiles, files, resolve};

/// Folder of the committed bindings.
pub(super) const FOLDER: &str = "guest-sdk/c/bindings";
/// The WASI package that the SDK uses.
pub(super) const WASI: &str = "guest-sdk/rust/wit/wasi-clocks";

const LINK: &[u8] = b"\n// Ensure that the *_component_type.o object is linked in\n";

const WORLD: &str = "package pilothouse:guest;
world guest {
  include pilothouse:controller/imports@0.1.0;
  import wasi:clocks/wall-clock@0.2.0;
}";

/// Generates `bindings.h` and `bindings.c`.
pub(super) fn generate(root: &Path) -> Result<GeneratedFiles> {
    let (resolve, world) = resolve(root, &[WASI], WORLD)?;
    let options = wit_bindgen_c::Opts {
        rename_world: Some("bindings".to_owned()),
        // The host derives the component type of a module from the names of its exports.
        no_object_file: true,
        ..Default::default()
    };
    let files = files(&mut *options.build(), resolve, world)?;
    Ok(files
        .into_iter()
        .map(|(name, contents)| (Path::new(FOLDER).join(name), remove_link_reference(contents)))
        .collect())
}

/// Removes the last lines, which refer to the component type's object file even if none is generated.
fn remove_link_reference(mut contents: Vec<u8>) -> Vec<u8> {
    let end = contents.windows(LINK.len()).position(|window| window == LINK);
    contents.truncate(end.unwrap_or(contents.len()));
    contents
}
