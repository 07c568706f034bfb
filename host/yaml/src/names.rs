//! Suggests the name that was meant by a misspelt one.

/// The longest name for which one is suggested, in bytes.
const MAX_NAME: usize = 100;

/// Returns the known name that is closest to a misspelt one, if one is close: at most a third of its characters differ, at least one and at most
/// three. Two characters that changed places count once; upper and lower case do not count.
pub fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_NAME {
        return None;
    }
    let limit = (name.chars().count() / 3).clamp(1, 3);
    let lower = name.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_close_names() {
        let known = ["actors", "faults", "invariants"];
        assert_eq!(suggestion("actor", known), Some("actors"));
        assert_eq!(suggestion("Invarients", known), Some("invariants"));
        assert_eq!(suggestion("fualts", known), Some("faults"));
        assert_eq!(suggestion("plugins", known), None);
        assert_eq!(suggestion(&"a".repeat(1000), known), None);
    }
}
