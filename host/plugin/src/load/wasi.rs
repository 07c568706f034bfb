//! The part of WASI 0.2 that a core module without a component type may import by name: clocks and randomness.

use std::collections::BTreeSet;

/// Name of a package, names of its interfaces, and its WIT without the `package` line.
const PACKAGES: [(&str, &[&str], &str); 2] = [
    (
        "wasi:clocks",
        &["wall-clock", "monotonic-clock"],
        "interface wall-clock {
  record datetime { seconds: u64, nanoseconds: u32 }
  now: func() -> datetime;
  resolution: func() -> datetime;
}
interface monotonic-clock {
  now: func() -> u64;
  resolution: func() -> u64;
}",
    ),
    (
        "wasi:random",
        &["random"],
        "interface random {
  get-random-bytes: func(len: u64) -> list<u8>;
  get-random-u64: func() -> u64;
}",
    ),
];

/// Returns the WIT of the packages that a module's imports name, each in the version that is named first.
pub(super) fn packages(imports: &BTreeSet<String>) -> Vec<String> {
    let version = |package: &str| {
        imports.iter().find_map(|import| import.strip_prefix(package)?.strip_prefix('/')?.split_once('@'))
    };
    let named = PACKAGES.iter().filter_map(|(package, _, text)| {
        let (_, version) = version(package)?;
        Some(format!("package {package}@{version};\n{text}\n"))
    });
    named.collect()
}

/// Returns those of a module's imports that [`packages`] has.
pub(super) fn interfaces(imports: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    let known = |name: &str| {
        PACKAGES.iter().any(|(package, interfaces, _)| {
            let rest = name.strip_prefix(package).and_then(|rest| rest.strip_prefix('/'));
            let interface = rest.and_then(|rest| rest.split_once('@')).map(|(interface, _)| interface);
            interface.is_some_and(|interface| interfaces.contains(&interface))
        })
    };
    imports.iter().map(String::as_str).filter(move |name| known(name))
}
