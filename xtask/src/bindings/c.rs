//! Bindings for C: the imports alone. The SDK writes the few exports itself, so that a plugin has those that it names and no others.

use std::path::Path;

use anyhow::Result;

use super::{Generated, files, resolve};

/// Where they are committed.
pub(super) const FOLDER: &str = "guest-sdk/c/bindings";
/// The part of WASI that the SDK uses.
pub(super) const WASI: &str = "guest-sdk/rust/wit/wasi-clocks";

const LINK: &[u8] = b"\n// Ensure that the *_component_type.o object is linked in\n";

const WORLD: &str = "package pilothouse:guest;
world guest {
  include pilothouse:controller/imports@0.1.0;
  import wasi:clocks/wall-clock@0.2.0;
}";

/// `bindings.h` and `bindings.c`.
pub(super) fn generate(root: &Path) -> Result<Generated> {
    let (resolve, world) = resolve(root, &[WASI], WORLD)?;
    let options = wit_bindgen_c::Opts {
        rename_world: Some("bindings".to_owned()),
        // The host wraps a module without a component type by its exports' names.
        no_object_file: true,
        ..Default::default()
    };
    let files = files(&mut *options.build(), resolve, world)?;
    Ok(files
        .into_iter()
        .map(|(name, contents)| (Path::new(FOLDER).join(name), without_link(contents)))
        .collect())
}

/// The generator's last lines ask for the object file also where there is none.
fn without_link(mut contents: Vec<u8>) -> Vec<u8> {
    let end = contents.windows(LINK.len()).position(|window| window == LINK);
    contents.truncate(end.unwrap_or(contents.len()));
    contents
}
