//! What neither the compiler nor clippy checks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{bindings, excerpts, promises, wit};

/// The longest a source file may be.
const LINES: usize = 420;
/// Those that are longer, with the reason.
const LONG: &[(&str, &str)] = &[];

/// Which of the project's crates each may use (docs/architecture.md): the data's direction, as text.
const MAY_USE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("informer", &["model"]),
    ("apiserver", &["model"]),
    ("plugin", &["model"]),
    ("controller", &["model", "informer", "plugin"]),
    ("toolchain", &[]),
    ("fuzz", &["model", "apiserver", "plugin", "controller"]),
    ("pilothouse", &["model", "informer", "apiserver", "plugin", "controller", "toolchain"]),
];

/// What some crates must not know.
const MUST_NOT_USE: &[(&str, &[&str])] = &[
    ("model", &["tokio", "kube", "wasmtime"]),
    ("informer", &["wasmtime", "pilothouse-plugin"]),
    ("plugin", &["kube", "hyper", "axum", "rustls"]),
    ("controller", &["wasmtime", "axum"]),
];

/// Runs all checks and fails with everything that was found.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut found = Vec::new();
    let files = tracked(root)?;
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let text = fs::read_to_string(root.join(file)).with_context(|| format!("read {}", file.display()))?;
        found.extend(too_long(file, &text));
        found.extend(unsafe_code(file, &text));
    }
    for (name, allowed) in MAY_USE {
        let manifest = root.join("host").join(name).join("Cargo.toml");
        let manifest =
            fs::read_to_string(&manifest).with_context(|| format!("read {}", manifest.display()))?;
        found.extend(wrong_direction(name, allowed, &manifest));
    }
    found.extend(binaries(&files));
    found.extend(undocumented(root)?);
    found.extend(bindings::stale(root)?);
    found.extend(wit::problems(root)?);
    found.extend(excerpts::stale(root, &files)?);
    found.extend(promises::unshown(root, &files)?);
    let map = fs::read_to_string(root.join("docs/architecture.md")).context("read docs/architecture.md")?;
    found.extend(unmapped(&files, &map));
    ensure!(found.is_empty(), "tidy:\n  {}", found.join("\n  "));
    println!("tidy: {} files in order", files.len());
    Ok(())
}

fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z"])
        .output()
        .context("run git ls-files")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(text
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .filter(|file| root.join(file).exists())
        .collect())
}

fn too_long(file: &Path, text: &str) -> Option<String> {
    let lines = text.lines().count();
    let listed = LONG.iter().any(|(name, _)| Path::new(name) == file);
    (lines > LINES && !listed).then(|| {
        format!(
            "{}: {lines} lines, more than {LINES}: two ideas? Split it, or list it in xtask/src/tidy.rs",
            file.display()
        )
    })
}

/// The one file that may have unsafe code (docs/decisions/0007-compiled-code-is-mapped.md), and this one, which names the lint.
const MAY_LIFT: [&str; 2] = ["host/plugin/src/artifact/map.rs", "xtask/src/tidy.rs"];

fn unsafe_code(file: &Path, text: &str) -> Option<String> {
    let of_the_workspace = ["host", "bench", "xtask"].iter().any(|folder| file.starts_with(folder));
    let lifts = of_the_workspace
        && text.contains("unsafe_code")
        && !MAY_LIFT.iter().any(|name| Path::new(name) == file);
    lifts.then(|| format!("{}: unsafe code has one place, {}", file.display(), MAY_LIFT[0]))
}

fn wrong_direction(name: &str, allowed: &[&str], manifest: &str) -> Vec<String> {
    // Tests may look the other way.
    let dependencies = manifest.split("[dev-dependencies]").next().unwrap_or_default();
    let names: Vec<&str> = dependencies
        .lines()
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty())
        .collect();
    let siblings = names
        .iter()
        .filter_map(|dependency| dependency.strip_prefix("pilothouse-"))
        .filter(|dependency| !allowed.contains(dependency))
        .map(|dependency| {
            format!("host/{name} depends on {dependency}; see the order in docs/architecture.md")
        });
    let forbidden =
        MUST_NOT_USE.iter().filter(|(crate_name, _)| *crate_name == name).flat_map(|(_, list)| *list);
    let strangers = forbidden.filter(|forbidden| names.contains(forbidden)).map(|forbidden| {
        format!("host/{name} depends on {forbidden}; see the invariants in docs/architecture.md")
    });
    siblings.chain(strangers).collect()
}

fn binaries(files: &[PathBuf]) -> Vec<String> {
    let built = |file: &&PathBuf| {
        file.extension().is_some_and(|extension| extension == "wasm" || extension == "cwasm")
    };
    files
        .iter()
        .filter(built)
        .map(|file| format!("{}: built files are not committed", file.display()))
        .collect()
}

/// Every module of the host has its place in the code map.
fn unmapped(files: &[PathBuf], map: &str) -> Vec<String> {
    let mut modules: Vec<String> = files
        .iter()
        .filter_map(|file| {
            let parts: Vec<_> = file.iter().filter_map(|part| part.to_str()).collect();
            match parts[..] {
                ["host", name, "src", module, ..] => {
                    Some((name, module.strip_suffix(".rs").unwrap_or(module)))
                }
                _ => None,
            }
        })
        .filter(|(_, module)| !["lib", "main", "tests"].contains(module))
        .filter(|(name, module)| {
            let section = map.split(&format!("### host/{name} ")).nth(1).unwrap_or_default();
            !section.split("\n### ").next().unwrap_or_default().contains(&format!("`{module}`"))
        })
        .map(|(name, module)| format!("docs/architecture.md says nothing about `{module}` of host/{name}"))
        .collect();
    modules.sort();
    modules.dedup();
    modules
}

/// Every dependency of the workspace has its line in docs/dependencies.md.
fn undocumented(root: &Path) -> Result<Vec<String>> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).context("read Cargo.toml")?;
    let documented =
        fs::read_to_string(root.join("docs/dependencies.md")).context("read docs/dependencies.md")?;
    Ok(missing_lines(&manifest, &documented))
}

fn missing_lines(manifest: &str, documented: &str) -> Vec<String> {
    let section = manifest.split("[workspace.dependencies]").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    section
        .lines()
        .filter(|line| !line.starts_with([' ', ']', '#']))
        .filter_map(|line| line.split_once(" = ").map(|(name, _)| name))
        .filter(|name| !name.starts_with("pilothouse-"))
        .filter(|name| !documented.contains(&format!("`{name}`")))
        .map(|name| format!("docs/dependencies.md says nothing about `{name}`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_against_the_direction_is_found() {
        let manifest = "[dependencies]\npilothouse-plugin.workspace = true\ntokio = \"1\"\n\
                        [dev-dependencies]\npilothouse-apiserver.workspace = true\n";
        let found = wrong_direction("model", &[], manifest);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(wrong_direction("controller", &["plugin"], manifest), Vec::<String>::new());
    }

    #[test]
    fn a_long_file_is_found() {
        let text = "line\n".repeat(LINES + 1);
        assert!(too_long(Path::new("a.rs"), &text).is_some());
        assert!(too_long(Path::new("a.rs"), "line\n").is_none());
    }

    #[test]
    fn a_module_without_a_place_in_the_map_is_found() {
        let files = ["host/a/src/lib.rs", "host/a/src/x/mod.rs", "host/a/src/x/z.rs", "host/a/src/y.rs"];
        let files: Vec<_> = files.iter().map(PathBuf::from).collect();
        let map = "### host/a — things\n- `x`: a thing\n### host/b — more\n- `y`: not here\n";
        assert_eq!(unmapped(&files, map), ["docs/architecture.md says nothing about `y` of host/a"]);
    }

    #[test]
    fn a_dependency_without_a_line_is_found() {
        let manifest = "[workspace.dependencies]\na = \"1\"\nb = { version = \"2\", features = [\n  \"x\",\n] }\n\n[profile]\nc = 1\n";
        assert_eq!(missing_lines(manifest, "- `a`: why"), ["docs/dependencies.md says nothing about `b`"]);
    }
}
