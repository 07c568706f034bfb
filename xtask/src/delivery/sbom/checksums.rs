//! Reads the checksums of packages from Cargo.lock. `cargo metadata` does not have them.

use std::collections::BTreeMap;

use super::tree::PackageId;

/// The SHA-256 sums of the packages' archives in the registry. Packages of this repository have none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Checksums(BTreeMap<PackageId, String>);

impl Checksums {
    /// Reads the entries of a lock file. Cargo writes each field into a line of its own.
    pub(super) fn parse(lock: &str) -> Self {
        let entries = lock.split("[[package]]").skip(1).filter_map(|entry| {
            let field = |name: &str| {
                let line = entry.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
                line.and_then(|value| value.strip_suffix('"')).map(str::to_owned)
            };
            let package = PackageId { name: field("name")?, version: field("version")? };
            Some((package, field("checksum")?))
        });
        Self(entries.collect())
    }

    /// Returns the sum of a package in hex.
    pub(super) fn of(&self, package: &PackageId) -> Option<String> {
        self.0.get(package).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_found_by_name_and_version() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry+x\"\nchecksum = \"01ff\"\n\
                    dependencies = [\n \"b\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\n";
        let checksums = Checksums::parse(lock);
        let sum = |name: &str, version: &str| {
            checksums.of(&PackageId { name: name.to_owned(), version: version.to_owned() })
        };
        assert_eq!(sum("a", "1.0.0").as_deref(), Some("01ff"));
        assert_eq!((sum("a", "2.0.0"), sum("b", "0.1.0")), (None, None));
    }
}
