//! Bindings for Go: the imports once, and a package for each export, because a Go program exports all that its packages export.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Generated, files, resolve};

/// Where they are committed.
pub(super) const FOLDER: &str = "guest-sdk/go/internal/bindings";

const PACKAGE: &str = "pilothouse.dev/sdk/internal/bindings";
const EXPORTS: [&str; 4] = ["plugin", "reconcile", "observe", "index"];
/// The SDK has its own runtime, and its own packages behind the exports.
const REPLACEMENTS: [(&str, &str); 2] = [
    ("go.bytecodealliance.org/pkg/wit/", "pilothouse.dev/sdk/internal/wit/"),
    ("internal/bindings/exports/export_pilothouse_controller_", "internal/exports/"),
];

/// `imports/…` and `exports/EXPORT/wit_exports.go`.
pub(super) fn generate(root: &Path) -> Result<Generated> {
    let mut generated = Generated::new();
    for export in EXPORTS {
        let world = format!(
            "package pilothouse:guest;
world guest {{
  include pilothouse:controller/imports@0.1.0;
  export pilothouse:controller/{export}@0.1.0;
}}"
        );
        let (resolve, world) = resolve(root, &[], &world)?;
        let options = wit_bindgen_go::Opts {
            pkg_name: Some(PACKAGE.to_owned()),
            // Staleness must not depend on which gofmt there is.
            format: wit_bindgen_go::Format::False,
            quiet: true,
            ..Default::default()
        };
        for (name, contents) in files(&mut *options.build(), resolve, world)? {
            if let Some(path) = place(export, &name) {
                let contents = String::from_utf8(contents).with_context(|| format!("{name} is not UTF-8"))?;
                let contents = REPLACEMENTS.iter().fold(contents, |text, (from, to)| text.replace(from, to));
                generated.insert(path, contents.into_bytes());
            }
        }
    }
    Ok(generated)
}

/// Where a generated file belongs; none for those that the SDK does without.
fn place(export: &str, name: &str) -> Option<PathBuf> {
    let folder = Path::new(FOLDER);
    match name {
        "exports/wit_exports/wit_exports.go" => {
            Some(folder.join("exports").join(export).join("wit_exports.go"))
        }
        _ if name.starts_with("imports/") => Some(folder.join(name)),
        _ => None,
    }
}
