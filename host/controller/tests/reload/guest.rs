//! Builds the versions of the plugin under test.

use std::fmt::Write;

const SOURCE: &str = include_str!("guest.wat");
const DESCRIPTOR: &str = r#"{"apiVersion":"pilothouse.dev/v1alpha1","kind":"Plugin","name":"recorder","version":"1.0.0","watches":[{"name":"maps","apiVersion":"v1","kind":"ConfigMap","namespaces":["default"],"labelSelector":"recorded","trigger":"self"}],"writes":[{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["create"]}]}"#;

/// What a version does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Healthy,
    /// The file is not wasm, or half of it is missing.
    Broken,
    TrapsInDescribe,
    TrapsInReconcile,
}

impl Kind {
    /// Returns the kind of a version, by its number: a tenth is broken, and a tenth traps, half of those only when they reconcile.
    pub(crate) fn of(number: u32) -> Self {
        match (number % 10, number / 10 % 2) {
            (3, _) => Self::Broken,
            (7, 0) => Self::TrapsInReconcile,
            (7, _) => Self::TrapsInDescribe,
            _ => Self::Healthy,
        }
    }

    /// Whether it replaces the previous version.
    pub(crate) fn runs(self) -> bool {
        matches!(self, Self::Healthy | Self::TrapsInReconcile)
    }
}

/// Builds the file of a version.
pub(crate) fn file(number: u32, kind: Kind) -> Vec<u8> {
    with_descriptor(number, kind, DESCRIPTOR)
}

/// Builds the file of a healthy version with indexes by these labels.
pub(crate) fn with_indexes(number: u32, labels: &[&str]) -> Vec<u8> {
    let indexes: Vec<_> =
        labels.iter().map(|label| format!(r#"{{"name":"by-{label}","label":"{label}"}}"#)).collect();
    let with_indexes = format!(r#""trigger":"self","indexes":[{}]"#, indexes.join(","));
    with_descriptor(number, Kind::Healthy, &DESCRIPTOR.replace(r#""trigger":"self""#, &with_indexes))
}

/// Builds the file of a version that watches the kind Foo of example.com instead of ConfigMaps.
pub(crate) fn watching_foos() -> Vec<u8> {
    let watched =
        r#""apiVersion":"v1","kind":"ConfigMap","namespaces":["default"],"labelSelector":"recorded""#;
    let descriptor = DESCRIPTOR.replace(watched, r#""apiVersion":"example.com/v1","kind":"Foo""#);
    assert_ne!(descriptor, DESCRIPTOR);
    with_descriptor(0, Kind::Healthy, &descriptor)
}

fn with_descriptor(number: u32, kind: Kind, descriptor: &str) -> Vec<u8> {
    let fault = match kind {
        Kind::Healthy | Kind::Broken => "0",
        Kind::TrapsInDescribe => "1",
        Kind::TrapsInReconcile => "2",
    };
    let length = u32::try_from(descriptor.len()).expect("short").to_le_bytes();
    let length = length.iter().fold(String::new(), |mut text, byte| {
        write!(text, "\\{byte:02x}").expect("a string takes it");
        text
    });
    let head = SOURCE.split("(data (i32.const 640) \"").nth(1).and_then(|rest| rest.split("\")").next());
    let head = head.expect("the record's beginning").replace("\\\"", "\"").len();
    let source = SOURCE
        .replace("FAULT", fault)
        .replace("\"VERSION\"", &format!("\"{number:04}\""))
        .replace("DESCRIPTOR", &descriptor.replace('"', "\\\""))
        .replace("LENGTH", &length)
        .replace("HEAD", &head.to_string());
    let wasm = wat::parse_str(&source).expect("the guest");
    match kind {
        Kind::Broken if number.is_multiple_of(2) => wasm[..wasm.len() / 2].to_vec(),
        Kind::Broken => format!("not wasm, {number}").into_bytes(),
        _ => wasm,
    }
}
