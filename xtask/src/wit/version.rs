//! Versions of the contract.

use std::fmt;

use anyhow::{Context, Result};
use wit_bindgen_core::wit_parser::{PackageId, Resolve};

/// The major, minor and patch number of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version([u64; 3]);

impl Version {
    /// Returns the version that a package declares.
    ///
    /// # Errors
    /// Errors if the package has no version.
    pub(super) fn declared_by(resolve: &Resolve, package: PackageId) -> Result<Self> {
        let name = &resolve.packages[package].name;
        let version = name.version.as_ref().with_context(|| format!("the package {name} has no version"))?;
        Ok(Self([version.major, version.minor, version.patch]))
    }

    /// Parses three numbers.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|number| number.parse::<u64>().ok());
        let version = [numbers.next()??, numbers.next()??, numbers.next()??];
        numbers.next().is_none().then_some(Self(version))
    }

    /// Returns whether the later of two versions must have all that the earlier one has, as semantic versioning defines it.
    pub(super) fn is_compatible(self, other: Self) -> bool {
        let track = |Self([major, minor, _])| if major == 0 { (0, minor) } else { (major, 0) };
        track(self) == track(other)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_three_numbers_and_an_order() {
        let version = |text| Version::parse(text).expect("a version");
        assert!(version("0.1.9") < version("0.1.10") && version("0.9.0") < version("1.0.0"));
        assert_eq!(version("0.1.2").to_string(), "0.1.2");
        for text in ["", "0", "0.1", "0.1.", "0.1.x", "0.1.2.3"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    #[test]
    fn versions_with_the_same_first_number_above_0_are_compatible() {
        let is_compatible = |a, b| Version::parse(a).expect(a).is_compatible(Version::parse(b).expect(b));
        assert!(is_compatible("0.1.0", "0.1.7") && is_compatible("2.1.0", "2.3.4"));
        assert!(!is_compatible("0.1.0", "0.2.0") && !is_compatible("1.0.0", "2.0.0"));
    }
}
