//! Patterns for names of scenarios, in which `*` stands for any text. Pure.

/// Whether the whole name matches the pattern. The work is at most the product of both lengths.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let Some((prefix, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(prefix) else { return false };
    let mut parts = rest.split('*');
    // `split` returns at least one part.
    let suffix = parts.next_back().unwrap_or_default();
    for part in parts {
        // The first occurrence leaves the most for the parts that follow.
        let Some(position) = name.find(part) else { return false };
        name = &name[position + part.len()..];
    }
    name.ends_with(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name) in [
            ("drift", "drift"),
            ("*", ""),
            ("*", "drift"),
            ("dr*", "drift"),
            ("*ft", "drift"),
            ("d*i*t", "drift"),
            ("*a*b*", "xxaxxbxx"),
            ("a*a", "aa"),
            ("é*", "éa"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("drift", "drifts"), ("dr", "drift"), ("*if", "drift"), ("a*a", "a"), ("*b*a*", "ab"), ("", "a")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
