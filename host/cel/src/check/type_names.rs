//! The names of types, which are values in expressions.

use super::types::Type;

/// The names, and the types that they stand for.
const TYPE_NAMES: [(&str, Type); 18] = [
    ("bool", Type::Bool),
    ("bytes", Type::Bytes),
    ("double", Type::Double),
    ("google.protobuf.Duration", Type::Duration),
    ("google.protobuf.Timestamp", Type::Timestamp),
    ("int", Type::Int),
    ("kubernetes.NamedFormat", Type::Library("kubernetes.NamedFormat")),
    ("kubernetes.Quantity", Type::Library("kubernetes.Quantity")),
    ("kubernetes.Semver", Type::Library("kubernetes.Semver")),
    ("kubernetes.URL", Type::Library("kubernetes.URL")),
    ("list", Type::Dyn),
    ("map", Type::Dyn),
    ("net.CIDR", Type::Library("net.CIDR")),
    ("net.IP", Type::Library("net.IP")),
    ("null_type", Type::Null),
    ("optional_type", Type::Dyn),
    ("string", Type::String),
    ("uint", Type::Uint),
];

/// Returns the type of the name of a type.
pub(super) fn named_type(name: &str) -> Option<Type> {
    if name == "type" {
        return Some(Type::Type(Type::Dyn.into()));
    }
    let found = TYPE_NAMES.iter().find(|(known, _)| *known == name);
    found.map(|(_, ty)| Type::Type(ty.clone().into()))
}
