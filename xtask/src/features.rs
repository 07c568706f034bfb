//! Checks that the commands of this repository compile each dependency with one set of features.
//!
//! Cargo unifies features over the packages that it builds together. With other packages, a dependency can get other features, and cargo
//! compiles it and all its dependants again.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::cargo;

/// What `cargo xtask test` builds.
const TESTS: &[&str] = &["--workspace", "--features", "xtask/full", "--edges", "normal,build,dev"];

/// What other commands build, each with its name.
const OTHERS: &[(&str, &[&str])] = &[
    ("the alias `cargo xtask`", &["--package", "xtask", "--edges", "normal,build"]),
    (
        "`cargo xtask demo`",
        &[
            "--package",
            "pilothouse",
            "--no-default-features",
            "--package",
            "xtask",
            "--features",
            "pilothouse/developer-tools,xtask/demo",
            "--edges",
            "normal,build",
        ],
    ),
    (
        "the commands that build the host",
        &["--workspace", "--features", "xtask/full", "--edges", "normal,build"],
    ),
];

/// Returns a line for each dependency that another command than `cargo xtask test` compiles with other features.
///
/// # Errors
/// Errors if cargo fails.
pub(crate) fn compiled_twice(root: &Path) -> Result<Vec<String>> {
    let tests = tree(root, TESTS)?;
    let tests = packages(&tests);
    let mut found = Vec::new();
    for (name, selection) in OTHERS {
        found.extend(differences(name, &packages(&tree(root, selection)?), &tests));
    }
    Ok(found)
}

/// Returns the packages that a selection builds, one per line with their features.
fn tree(root: &Path, selection: &[&str]) -> Result<String> {
    let output = cargo::cargo()
        .current_dir(root)
        .args(["tree", "--locked", "--prefix", "none", "--format", "{p} [{f}]"])
        .args(selection)
        .output()
        .context("run cargo tree")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).context("the output of cargo tree is not UTF-8")
}

/// Returns the lines of `tree` that describe a package of a registry, without the marks that cargo appends.
fn packages(tree: &str) -> BTreeSet<&str> {
    let packages = tree.lines().map(|line| line.trim_end_matches(" (*)"));
    // The packages of this repository have their paths in parentheses.
    packages.filter(|line| !line.is_empty() && !line.contains("(/")).collect()
}

fn differences(command: &str, packages: &BTreeSet<&str>, tests: &BTreeSet<&str>) -> Vec<String> {
    let differences = packages.difference(tests);
    differences
        .map(|package| {
            format!(
                "{command} and `cargo xtask test` compile {package} with different features: select the same features in xtask/Cargo.toml \
                 (see `bitflags` there)"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_with_other_features_is_found() {
        let tests = "serde v1.0.0 [derive,std]\nlibc v0.2.0 []\nxtask v0.1.0 (/repository/xtask) [full]\n";
        let demo = "serde v1.0.0 [std]\nlibc v0.2.0 [] (*)\nxtask v0.1.0 (/repository/xtask) [demo]\n\n";
        let found = differences("the demo", &packages(demo), &packages(tests));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("serde v1.0.0 [std]"), "{found:?}");
        assert_eq!(differences("the demo", &packages(tests), &packages(tests)), Vec::<String>::new());
    }
}
