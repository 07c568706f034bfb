//! Bindings for Go: one set of imports, and a package for each export, because a Go program has the exports of all packages it uses.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{GeneratedFiles, files, resolve};

/// Folder of the committed bindings.
pub(super) const FOLDER: &str = "guest-sdk/go/internal/bindings";

const PACKAGE: &str = "pilothouse.dev/sdk/internal/bindings";
const EXPORTS: [&str; 4] = ["plugin", "reconcile", "observe", "index"];
/// Import paths to replace: the SDK has its own runtime and its own packages that implement the exports.
const REPLACEMENTS: [(&str, &str); 2] = [
    ("go.bytecodealliance.org/pkg/wit/", "pilothouse.dev/sdk/internal/wit/"),
    ("internal/bindings/exports/export_pilothouse_controller_", "internal/exports/"),
];

/// Generates `imports/…` and `exports/EXPORT/wit_exports.go` from this version of the contract.
pub(super) fn generate(root: &Path, version: &str) -> Result<GeneratedFiles> {
    let mut generated = GeneratedFiles::new();
    for export in EXPORTS {
        let world = format!(
            "package pilothouse:guest;
world guest {{
  include pilothouse:controller/imports@{version};
  export pilothouse:controller/{export}@{version};
}}"
        );
        let (resolve, world) = resolve(root, &[], &world)?;
        let options = wit_bindgen_go::Opts {
            pkg_name: Some(PACKAGE.to_owned()),
            // Unformatted, so that the check in `cargo xtask tidy` does not depend on the installed gofmt.
            format: wit_bindgen_go::Format::False,
            quiet: true,
            ..Default::default()
        };
        for (name, contents) in files(&mut *options.build(), resolve, world)? {
            if let Some(path) = output_path(export, &name) {
                let contents = String::from_utf8(contents).with_context(|| format!("{name} is not UTF-8"))?;
                let contents = REPLACEMENTS.iter().fold(contents, |text, (from, to)| text.replace(from, to));
                generated.insert(path, contents.into_bytes());
            }
        }
    }
    Ok(generated)
}

/// Returns the path of a generated file in the repository. Returns `None` for files that the SDK does not use.
fn output_path(export: &str, name: &str) -> Option<PathBuf> {
    let folder = Path::new(FOLDER);
    match name {
        "exports/wit_exports/wit_exports.go" => {
            Some(folder.join("exports").join(export).join("wit_exports.go"))
        }
        _ if name.starts_with("imports/") => Some(folder.join(name)),
        _ => None,
    }
}
