//! The contract between host and plugins: the WIT package in `wit/`, as of the build of this host.
//!
//! `wit/types.wit` declares the version of the package. All code that needs the version takes it from here.

/// The WIT package that plugins are written against.
pub(crate) const PACKAGE: &str = "pilothouse:controller";

/// The version of the package that this host has.
pub(crate) const VERSION: &str = declared_version(TYPES);

const TYPES: &str = include_str!("../../../wit/types.wit");

/// The files of the package.
pub(crate) const FILES: [(&str, &str); 15] = [
    ("cache.wit", include_str!("../../../wit/cache.wit")),
    ("changes.wit", include_str!("../../../wit/changes.wit")),
    ("client.wit", include_str!("../../../wit/client.wit")),
    ("config.wit", include_str!("../../../wit/config.wit")),
    ("events.wit", include_str!("../../../wit/events.wit")),
    ("index.wit", include_str!("../../../wit/index.wit")),
    ("log.wit", include_str!("../../../wit/log.wit")),
    ("metrics.wit", include_str!("../../../wit/metrics.wit")),
    ("objects.wit", include_str!("../../../wit/objects.wit")),
    ("observe.wit", include_str!("../../../wit/observe.wit")),
    ("plugin.wit", include_str!("../../../wit/plugin.wit")),
    ("queue.wit", include_str!("../../../wit/queue.wit")),
    ("reconcile.wit", include_str!("../../../wit/reconcile.wit")),
    ("types.wit", TYPES),
    ("worlds.wit", include_str!("../../../wit/worlds.wit")),
];

/// Returns the full name of an interface of the package, such as `pilothouse:controller/cache@VERSION` for `cache`.
pub(crate) fn interface_name(interface: &str) -> String {
    format!("{PACKAGE}/{interface}@{VERSION}")
}

/// Returns whether this host runs plugins that were built against this version of the package: one that is compatible with its own.
/// Compatible versions only add to each other. A plugin that uses an addition of a later version is refused by that function's name.
///
/// In core modules, a name may stand for all compatible versions, such as "0.1" for 0.1.0 and 0.1.1.
pub(crate) fn is_served(version: &str) -> bool {
    is_compatible(version, VERSION)
}

/// Returns the beginning that all versions have in common that this host serves, such as "0.1". Names in the standard naming of core
/// modules have it as their version.
pub(crate) fn compatible_versions() -> String {
    numbers(VERSION).map_or_else(|| VERSION.to_owned(), track)
}

/// Returns whether a text has the form of a version, or of the beginning that compatible versions have in common.
pub(crate) fn is_version(text: &str) -> bool {
    let numbers = text.split_once(['-', '+']).map_or(text, |(numbers, _)| numbers);
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    numbers.split('.').all(is_number) && numbers.split('.').count() <= 3
}

fn is_compatible(wanted: &str, offered: &str) -> bool {
    let Some(offered) = numbers(offered) else { return false };
    match numbers(wanted) {
        Some(wanted) => track(wanted) == track(offered),
        None => wanted == track(offered),
    }
}

/// Returns the three numbers of a version.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut numbers = version.split('.').map(number);
    let version = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(version)
}

/// Parses a number in its shortest form, without a sign.
fn number(digits: &str) -> Option<u32> {
    let number: u32 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// Returns the beginning that compatible versions have in common. It ends with the first number that is not 0.
fn track([major, minor, _]: [u32; 3]) -> String {
    if major == 0 { format!("0.{minor}") } else { major.to_string() }
}

/// Returns the version in the `package` declaration of a WIT file.
const fn declared_version(wit: &str) -> &str {
    const DECLARATION: &[u8] = b"\npackage pilothouse:controller@";
    let text = wit.as_bytes();
    let start = find(text, DECLARATION, 0) + DECLARATION.len();
    let end = find(text, b";", start);
    wit.split_at(end).0.split_at(start).1
}

/// Returns where `part` begins in `text`, not before `from`. Fails the build if it does not.
const fn find(text: &[u8], part: &[u8], from: usize) -> usize {
    let mut start = from;
    while start + part.len() <= text.len() {
        let mut equal = 0;
        while equal < part.len() && text[start + equal] == part[equal] {
            equal += 1;
        }
        if equal == part.len() {
            return start;
        }
        start += 1;
    }
    panic!("wit/types.wit does not declare the version of the package")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_binary_has_every_file_of_the_wit_folder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit");
        let files: BTreeSet<_> = std::fs::read_dir(folder)
            .expect("the folder wit/")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
            .filter(|name| name.ends_with(".wit"))
            .collect();
        assert_eq!(files, FILES.iter().map(|(name, _)| (*name).to_owned()).collect());
    }

    #[test]
    fn versions_have_up_to_three_numbers() {
        for version in ["0", "0.1", "0.1.1", "10.0.3", "0.1.1-rc.1", "0.1.1+build.5"] {
            assert!(is_version(version), "{version}");
        }
        for other in ["", "0.1.", ".1", "0.1.1.0", "0.1.1.describe", "0.1.1/x", "v1", "latest"] {
            assert!(!is_version(other), "{other}");
        }
        assert!(VERSION.starts_with(&compatible_versions()));
    }

    #[test]
    fn a_host_serves_compatible_versions() {
        for (wanted, offered) in [
            ("0.1.1", "0.1.1"),
            ("0.1.0", "0.1.1"),
            ("0.1.9", "0.1.10"),
            ("0.1.2", "0.1.1"),
            ("2.4.1", "2.4.0"),
            ("0.1", "0.1.1"),
            ("2.3.4", "2.4.0"),
            ("2", "2.4.0"),
        ] {
            assert!(is_compatible(wanted, offered), "{wanted} with {offered}");
        }
        for (wanted, offered) in [
            ("0.2.0", "0.1.1"),
            ("0.0.9", "0.1.1"),
            ("1.0.0", "0.1.1"),
            ("1.9.0", "2.4.0"),
            ("0", "0.1.1"),
            ("0.1.1-rc.1", "0.1.1"),
            ("0.1.01", "0.1.1"),
            ("0.1.+1", "0.1.1"),
            ("0.1.1.0", "0.1.1"),
            ("0.1.", "0.1.1"),
            ("", "0.1.1"),
        ] {
            assert!(!is_compatible(wanted, offered), "{wanted} with {offered}");
        }
    }
}
