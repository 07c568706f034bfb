//! Builds the plugins of the catalogue into one folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::FOLDER;
use super::table::{Case, CaseLanguage, Twin};
use crate::guests::build_rust_examples;

/// The package of the cases in Rust, in the workspace of the examples.
const PACKAGE: &str = "catalogue";
/// The SDK's build tool, in the folder of the cases in JavaScript.
const JS_BUILDER: &str = "node_modules/@pilothouse/sdk/build/cli.js";

/// Builds both twins of the cases. Returns the folder with the files, whose names are those of the table, and with their sidecars.
///
/// # Errors
/// Errors if a toolchain is missing or a plugin does not build.
pub(super) fn build(root: &Path, cases: &[&Case]) -> Result<PathBuf> {
    let output = root.join("examples/target/guests/catalogue");
    fs::create_dir_all(&output).with_context(|| format!("create {}", output.display()))?;
    let rust = plugins(cases, CaseLanguage::Rust);
    if !rust.is_empty() {
        for guest in build_rust_examples(root, PACKAGE, &rust)? {
            let file = output.join(format!("{}.wasm", guest.name));
            fs::copy(&guest.wasm, &file)
                .with_context(|| format!("copy {} to {}", guest.wasm.display(), file.display()))?;
        }
    }
    for name in plugins(cases, CaseLanguage::Go) {
        build_go(&root.join(FOLDER).join("go"), &name, &output)?;
    }
    let js = plugins(cases, CaseLanguage::Js);
    if !js.is_empty() {
        let folder = root.join(FOLDER).join("js");
        // Unlike `npm install`, it does not change the lock file.
        run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&folder))?;
        for name in js {
            println!("guests: building {name} with node");
            let file = output.join(format!("{name}.wasm"));
            let mut command = Command::new("node");
            command.arg(JS_BUILDER).arg(format!("plugins/{name}")).arg("-o").arg(file);
            run(command.current_dir(&folder))?;
        }
    }
    copy_sidecars(root, cases, &output)?;
    Ok(output)
}

/// Copies the sidecars of the cases to where `pilothouse sim` finds them: beside the plugins.
fn copy_sidecars(root: &Path, cases: &[&Case], output: &Path) -> Result<()> {
    for case in cases {
        let Some(sidecar) = &case.sidecar else { continue };
        let source = root.join(FOLDER).join(sidecar);
        for twin in [Twin::Wrong, Twin::Right] {
            let target = output.join(case.plugin(twin)).with_extension("yaml");
            fs::copy(&source, &target)
                .with_context(|| format!("copy {} to {}", source.display(), target.display()))?;
        }
    }
    Ok(())
}

/// Returns the names of both twins of the cases in a language, without the extension.
fn plugins(cases: &[&Case], language: CaseLanguage) -> Vec<String> {
    let cases = cases.iter().filter(|case| case.language == language);
    let names = cases.flat_map(|case| [Twin::Wrong, Twin::Right].map(move |twin| case.plugin(twin)));
    names.map(|file| file.strip_suffix(".wasm").unwrap_or(file).to_owned()).collect()
}

/// Builds a plugin as `pilothouse build` does.
fn build_go(folder: &Path, name: &str, output: &Path) -> Result<()> {
    println!("guests: building {name} with go");
    let mut command = Command::new("go");
    command
        .args(["build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-o"])
        .arg(output.join(format!("{name}.wasm")))
        .arg(format!("./plugins/{name}"))
        .envs([("GOOS", "wasip1"), ("GOARCH", "wasm")]);
    run(command.current_dir(folder))
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("start {name}: install it, or see docs/writing-a-plugin.md"))?;
    ensure!(status.success(), "{name} failed (see above): {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::table::Catalogue;
    use super::*;

    #[test]
    fn each_plugin_of_the_table_has_a_project_of_its_own() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let catalogue = Catalogue::read(&root).expect("the catalogue");
        let cases: Vec<&Case> = catalogue.cases.iter().collect();
        let folder = root.join(FOLDER);
        for (language, file) in [
            (CaseLanguage::Rust, "rust/plugins/NAME.rs"),
            (CaseLanguage::Go, "go/plugins/NAME/main.go"),
            (CaseLanguage::Js, "js/plugins/NAME/plugin.js"),
        ] {
            let names = plugins(&cases, language);
            assert!(!names.is_empty(), "{language:?}");
            for name in names {
                let path = folder.join(file.replace("NAME", &name));
                assert!(path.is_file(), "{} is missing", path.display());
            }
        }
    }
}
