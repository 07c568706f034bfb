//! Parses the output of `cargo tree --prefix depth --format ' {p}'`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};

/// A package in one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PackageId {
    pub(super) name: String,
    pub(super) version: String,
}

/// A package with everything that it is linked from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tree {
    root: PackageId,
    /// Each package with its direct dependencies.
    edges: BTreeMap<PackageId, BTreeSet<PackageId>>,
}

impl Tree {
    /// Parses lines such as `2 serde v1.0.0 (*)`. The number is the depth; `(*)` says that an earlier line has the dependencies.
    ///
    /// # Errors
    /// Errors if a line has another form.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut edges: BTreeMap<PackageId, BTreeSet<PackageId>> = BTreeMap::new();
        // The packages from the root to the last line's.
        let mut path: Vec<PackageId> = Vec::new();
        let mut root = None;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (depth, package) =
                parse_line(line).with_context(|| format!("cargo tree printed {line:?}"))?;
            ensure!(depth <= path.len(), "cargo tree printed {line:?} without the packages above it");
            path.truncate(depth);
            edges.entry(package.clone()).or_default();
            match path.last() {
                Some(parent) => {
                    edges.entry(parent.clone()).or_default().insert(package.clone());
                }
                None => ensure!(root.replace(package.clone()).is_none(), "cargo tree printed two trees"),
            }
            path.push(package);
        }
        Ok(Self { root: root.context("cargo tree printed nothing")?, edges })
    }

    /// Returns the package at the top.
    pub(super) fn root(&self) -> &PackageId {
        &self.root
    }

    /// Returns all packages below the top, in order.
    pub(super) fn dependencies(&self) -> impl Iterator<Item = &PackageId> {
        self.edges.keys().filter(|package| **package != self.root)
    }

    /// Returns each package with its direct dependencies, in order.
    pub(super) fn edges(&self) -> impl Iterator<Item = (&PackageId, &BTreeSet<PackageId>)> {
        self.edges.iter()
    }
}

fn parse_line(line: &str) -> Option<(usize, PackageId)> {
    let mut words = line.split_whitespace();
    let depth = words.next()?.parse().ok()?;
    let name = words.next()?.to_owned();
    let version = words.next()?.strip_prefix('v')?.to_owned();
    Some((depth, PackageId { name, version }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str =
        "0 app v0.1.0 (/src/app)\n1 a v1.0.0\n2 b v2.0.0 (/src/b)\n1 b v2.0.0 (/src/b) (*)\n1 b v1.0.0\n";

    fn package(name: &str, version: &str) -> PackageId {
        PackageId { name: name.to_owned(), version: version.to_owned() }
    }

    #[test]
    fn packages_and_their_dependencies_are_read() {
        let tree = Tree::parse(TREE).expect("a tree");
        assert_eq!(*tree.root(), package("app", "0.1.0"));
        let [a, b1, b2] = [package("a", "1.0.0"), package("b", "1.0.0"), package("b", "2.0.0")];
        assert_eq!(tree.dependencies().collect::<Vec<_>>(), [&a, &b1, &b2]);
        let edges: Vec<_> = tree.edges().map(|(from, to)| (from, to.iter().collect::<Vec<_>>())).collect();
        let app = package("app", "0.1.0");
        assert_eq!(edges, [(&a, vec![&b2]), (&app, vec![&a, &b1, &b2]), (&b1, vec![]), (&b2, vec![])]);
    }

    #[test]
    fn other_output_is_an_error() {
        for text in [
            "",
            "error",
            "0 app",
            "0 app 1.0.0",
            "1 app v1.0.0",
            "0 a v1.0.0\n2 b v1.0.0",
            "0 a v1.0.0\n0 b v1.0.0",
        ] {
            assert!(Tree::parse(text).is_err(), "{text:?}");
        }
    }
}
