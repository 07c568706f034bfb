//! The names of namespaces and objects that the host accepts.

/// Says why a text is not the name of a namespace. The empty one is that of all namespaces, and of cluster-scoped objects.
pub(super) fn namespace_problem(namespace: &str) -> Option<String> {
    let is_valid = namespace.len() <= 63
        && !namespace.starts_with('-')
        && !namespace.ends_with('-')
        && namespace.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-');
    (!is_valid).then(|| format!("{namespace:?} is not the name of a namespace"))
}

/// Says why a text is not the name of an object.
pub(super) fn name_problem(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("the name is empty".to_owned());
    }
    let is_invalid = name.len() > 253
        || matches!(name, "." | "..")
        || name.chars().any(|char| matches!(char, '/' | '%') || char.is_ascii_control());
    is_invalid.then(|| format!("{name:?} is not the name of an object"))
}
