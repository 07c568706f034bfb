//! Bindings for Rust: the imports with the export `plugin`, and a module for each further export, so that a plugin has only those it uses.

use std::path::Path;

use anyhow::{Context, Result};
use wit_bindgen_rust::{Opts, WithOption};

use super::{GeneratedFiles, WASI, files, resolve};

/// Folder of the committed bindings.
pub(super) const FOLDER: &str = "guest-sdk/rust/src/bindings/generated";

/// The exports that a plugin need not have, and the interfaces whose types they use.
const OPTIONAL_EXPORTS: [(&str, &[&str]); 3] = [
    ("reconcile", &["types"]),
    ("observe", &["types", "objects", "changes"]),
    ("index", &["types", "objects"]),
];

/// Generates `guest.rs` and a file for each optional export from this version of the contract.
pub(super) fn generate(root: &Path, version: &str) -> Result<GeneratedFiles> {
    let mut generated = GeneratedFiles::new();
    let guest = format!(
        "package pilothouse:sdk;
world guest {{
  include pilothouse:controller/imports@{version};
  import wasi:clocks/wall-clock@0.2.0;
  export pilothouse:controller/plugin@{version};
}}"
    );
    let options = Opts {
        generate_all: true,
        additional_derive_attributes: ["PartialEq", "Eq", "PartialOrd", "Ord", "Hash"]
            .map(str::to_owned)
            .into(),
        // These hold handles.
        additional_derive_ignore: vec!["page".to_owned()],
        ..options_of("plugin", "pilothouse_sdk::bindings")
    };
    add(&mut generated, root, "guest", &guest, options)?;
    for (export, interfaces) in OPTIONAL_EXPORTS {
        let world = format!(
            "package pilothouse:sdk-{export};
world {export} {{
  export pilothouse:controller/{export}@{version};
}}"
        );
        let with = |interface: &&str| {
            let path = format!("crate::bindings::pilothouse::controller::{interface}");
            (format!("pilothouse:controller/{interface}@{version}"), WithOption::Path(path))
        };
        let options = Opts {
            with: interfaces.iter().map(with).collect(),
            ..options_of(export, &format!("pilothouse_sdk::bindings::{export}"))
        };
        add(&mut generated, root, export, &world, options)?;
    }
    Ok(generated)
}

/// Returns the options that all worlds have. `export!` of the SDK calls the generated macro in `module`.
fn options_of(export: &str, module: &str) -> Opts {
    Opts {
        pub_export_macro: true,
        export_macro_name: Some(format!("__export_{export}")),
        default_bindings_module: Some(module.to_owned()),
        ..Opts::default()
    }
}

fn add(generated: &mut GeneratedFiles, root: &Path, name: &str, world: &str, options: Opts) -> Result<()> {
    let (resolve, world) = resolve(root, &[WASI], world)?;
    let mut sources = files(&mut options.build(), resolve, world)?.into_iter();
    let (_, contents) = sources.next().with_context(|| format!("generate no bindings for {name}"))?;
    generated.insert(Path::new(FOLDER).join(format!("{name}.rs")), contents);
    Ok(())
}
