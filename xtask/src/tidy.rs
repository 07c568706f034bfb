//! `cargo xtask tidy`: checks that neither the compiler nor clippy makes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{
    bench, bindings, cargo, catalogue, chart, determinism, documented_paths, documented_tests, excerpts,
    features, monitoring, vocabulary, wit,
};

/// The crates of this repository that each crate may depend on (see docs/architecture.md).
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("cel", &[]),
    ("model", &[]),
    ("informer", &["model"]),
    ("listen", &[]),
    ("yaml", &[]),
    ("apiserver", &["cel", "listen", "model", "yaml"]),
    ("plugin", &["model"]),
    ("controller", &["cel", "model", "informer", "plugin", "yaml"]),
    ("sim", &["apiserver", "cel", "controller", "model", "plugin", "yaml"]),
    ("registry", &["yaml"]),
    ("otlp", &[]),
    ("toolchain", &[]),
    ("fuzz", &["model", "apiserver", "plugin", "controller"]),
    (
        "pilothouse",
        &[
            "cel",
            "model",
            "informer",
            "listen",
            "apiserver",
            "plugin",
            "controller",
            "registry",
            "otlp",
            "sim",
            "toolchain",
            "yaml",
        ],
    ),
];

/// Dependencies that a crate must not have.
const FORBIDDEN_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("cel", &["tokio", "kube", "wasmtime"]),
    ("model", &["tokio", "kube", "wasmtime"]),
    ("informer", &["wasmtime", "pilothouse-plugin"]),
    ("plugin", &["kube", "hyper", "axum", "rustls"]),
    ("registry", &["kube", "wasmtime", "axum", "reqwest"]),
    ("otlp", &["kube", "wasmtime", "axum", "reqwest"]),
    ("yaml", &["tokio", "kube", "wasmtime"]),
    ("controller", &["wasmtime", "axum"]),
];

/// Packages that `pilothouse` must not contain without its default features, which are for development and tests.
const DEVELOPMENT_PACKAGES: [&str; 3] = ["pilothouse-apiserver", "pilothouse-sim", "pilothouse-toolchain"];

/// Runs all checks. Errors with a list of all problems.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut found = Vec::new();
    let files = tracked(root)?;
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let text = fs::read_to_string(root.join(file)).with_context(|| format!("read {}", file.display()))?;
        found.extend(vocabulary::problems(file, &text));
        found.extend(unsafe_code(file, &text));
        found.extend(determinism::problems(file, &text));
    }
    for (name, allowed) in ALLOWED_DEPENDENCIES {
        let manifest = root.join("host").join(name).join("Cargo.toml");
        let manifest =
            fs::read_to_string(&manifest).with_context(|| format!("read {}", manifest.display()))?;
        found.extend(wrong_direction(name, allowed, &manifest));
    }
    found.extend(development_packages(&production_tree(root)?));
    found.extend(features::compiled_twice(root)?);
    found.extend(committed_binaries(&files));
    found.extend(undocumented_dependencies(root)?);
    found.extend(bindings::stale_files(root)?);
    found.extend(wit::problems(root, &files)?);
    found.extend(excerpts::stale_excerpts(root, &files)?);
    found.extend(documented_tests::missing_tests(root, &files)?);
    found.extend(documented_paths::missing_paths(root, &files)?);
    found.extend(bench::documents::problems(root)?);
    found.extend(catalogue::problems(root)?);
    found.extend(chart::problems(root)?);
    found.extend(monitoring::problems(root)?);
    let map = fs::read_to_string(root.join("docs/architecture.md")).context("read docs/architecture.md")?;
    found.extend(unmapped_modules(&files, &map));
    ensure!(found.is_empty(), "tidy:\n  {}", found.join("\n  "));
    println!("tidy: {} files checked, no problems found", files.len());
    Ok(())
}

/// Returns the files that git tracks and that exist, relative to the root.
///
/// # Errors
/// Errors if git fails.
pub(crate) fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
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

/// The only file that may contain unsafe code (docs/decisions/0007-compiled-code-is-mapped.md), and this file, which names the lint.
const UNSAFE_CODE_ALLOWED: [&str; 2] = ["host/plugin/src/artifact/map.rs", "xtask/src/tidy.rs"];

fn unsafe_code(file: &Path, text: &str) -> Option<String> {
    let is_in_workspace = ["host", "bench", "xtask"].iter().any(|folder| file.starts_with(folder));
    let is_allowed = UNSAFE_CODE_ALLOWED.iter().any(|name| Path::new(name) == file);
    (is_in_workspace && text.contains("unsafe_code") && !is_allowed)
        .then(|| format!("{}: only {} may contain unsafe code", file.display(), UNSAFE_CODE_ALLOWED[0]))
}

fn wrong_direction(name: &str, allowed: &[&str], manifest: &str) -> Vec<String> {
    let names = dependencies(manifest);
    let siblings = names
        .iter()
        .filter_map(|dependency| dependency.strip_prefix("pilothouse-"))
        .filter(|dependency| !allowed.contains(dependency))
        .map(|dependency| {
            format!("host/{name} must not depend on {dependency}; see the order in docs/architecture.md")
        });
    let forbidden = FORBIDDEN_DEPENDENCIES
        .iter()
        .filter(|(crate_name, _)| *crate_name == name)
        .flat_map(|(_, list)| *list);
    let external = forbidden.filter(|forbidden| names.contains(forbidden)).map(|forbidden| {
        format!("host/{name} must not depend on {forbidden}; see the invariants in docs/architecture.md")
    });
    siblings.chain(external).collect()
}

/// Returns the packages that a `pilothouse` without default features is linked from, one per line.
fn production_tree(root: &Path) -> Result<String> {
    let output = cargo::cargo()
        .current_dir(root)
        .args(["tree", "--locked", "--package", "pilothouse", "--no-default-features"])
        .args(["--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .output()
        .context("run cargo tree")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).context("the output of cargo tree is not UTF-8")
}

/// Returns a line for each development package in the output of `cargo tree`.
fn development_packages(tree: &str) -> Vec<String> {
    let names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    DEVELOPMENT_PACKAGES
        .iter()
        .filter(|package| names.contains(package))
        .map(|package| {
            format!(
                "host/pilothouse: without default features, it must not depend on {package}; make the dependency optional, or remove \
                 it from the crate that depends on it"
            )
        })
        .collect()
}

/// Returns the names of a manifest's dependencies, except those of its tests, which may depend on any crate.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut is_listed = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_listed = line.ends_with("dependencies]") && !line.ends_with("dev-dependencies]");
        } else if is_listed {
            names.extend(line.split(['.', '=', ' ']).next().filter(|name| !name.is_empty()));
        }
    }
    names
}

fn committed_binaries(files: &[PathBuf]) -> Vec<String> {
    let is_binary = |file: &&PathBuf| {
        file.extension().is_some_and(|extension| extension == "wasm" || extension == "cwasm")
    };
    files
        .iter()
        .filter(is_binary)
        .map(|file| format!("{}: built files must not be committed", file.display()))
        .collect()
}

/// Returns a line for each module of the host that the code map does not mention.
fn unmapped_modules(files: &[PathBuf], map: &str) -> Vec<String> {
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
        .map(|(name, module)| {
            format!("docs/architecture.md does not mention the module `{module}` of host/{name}")
        })
        .collect();
    modules.sort();
    modules.dedup();
    modules
}

/// Returns a line for each dependency of the workspace that docs/dependencies.md does not mention.
fn undocumented_dependencies(root: &Path) -> Result<Vec<String>> {
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
        .map(|name| format!("docs/dependencies.md does not mention `{name}`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_in_the_wrong_direction_are_found() {
        let manifest = "[features]\nkube = [\"dep:kube-core\"]\n\
                        [dependencies]\npilothouse-plugin.workspace = true\ntokio = \"1\"\n\
                        [dev-dependencies]\npilothouse-apiserver.workspace = true\n\
                        [target.'cfg(unix)'.dependencies]\npilothouse-toolchain.workspace = true\n";
        let found = wrong_direction("model", &[], manifest);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(wrong_direction("controller", &["plugin", "toolchain"], manifest), Vec::<String>::new());
    }

    #[test]
    fn development_packages_in_a_production_build_are_found() {
        let tree = "pilothouse v0.1.0 (/p/host/pilothouse)\npilothouse-listen v0.1.0 (/p/host/listen)\nrcgen v0.14.10\n";
        assert_eq!(development_packages(tree), Vec::<String>::new());
        let with_server = format!("{tree}pilothouse-apiserver v0.1.0 (/p/host/apiserver) (*)\n");
        let found = development_packages(&with_server);
        assert!(
            found.len() == 1 && found[0].contains("must not depend on pilothouse-apiserver"),
            "{found:?}"
        );
    }

    #[test]
    fn modules_missing_from_the_code_map_are_found() {
        let files = ["host/a/src/lib.rs", "host/a/src/x/mod.rs", "host/a/src/x/z.rs", "host/a/src/y.rs"];
        let files: Vec<_> = files.iter().map(PathBuf::from).collect();
        let map = "### host/a — things\n- `x`: a thing\n### host/b — more\n- `y`: not here\n";
        let expected = ["docs/architecture.md does not mention the module `y` of host/a"];
        assert_eq!(unmapped_modules(&files, map), expected);
    }

    #[test]
    fn undocumented_dependencies_are_found() {
        let manifest = "[workspace.dependencies]\na = \"1\"\nb = { version = \"2\", features = [\n  \"x\",\n] }\n\n[profile]\nc = 1\n";
        assert_eq!(missing_lines(manifest, "- `a`: why"), ["docs/dependencies.md does not mention `b`"]);
    }
}
