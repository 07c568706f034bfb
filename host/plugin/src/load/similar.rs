//! Finds the known name that an unknown one was probably meant to be.
//!
//! The unknown names come from files that nobody trusts, so the comparison of two names has a bound.

/// Maximum length of a name that is compared, in bytes. The longest name of the contract has about 60.
const MAX_LENGTH: usize = 100;

/// Maximum number of letters that may be wrong, missing or too many.
const MAX_EDITS: usize = 3;

/// Returns the most similar known name, if one is similar enough. Names above 100 bytes are not compared.
pub fn most_similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let with_difference = known.into_iter().filter_map(|known| Some((difference(name, known)?, known)));
    with_difference.min_by_key(|(difference, _)| *difference).map(|(_, known)| known)
}

/// Returns whether two names have the same letters and digits, apart from upper and lower case, or almost the same characters.
pub(super) fn is_similar(name: &str, known: &str) -> bool {
    difference(name, known).is_some()
}

/// Returns whether two names have the same letters and digits, apart from upper and lower case.
pub(super) fn has_letters_of(name: &str, known: &str) -> bool {
    name.len() <= MAX_LENGTH && letters(name).eq(letters(known))
}

/// Returns how different two similar names are: 0 if only case, separators and the prefix in brackets (`[method]`) differ, and `None` if
/// the names are not similar.
fn difference(name: &str, known: &str) -> Option<usize> {
    if name.len() > MAX_LENGTH || known.len() > MAX_LENGTH {
        return None;
    }
    let (name, known) = (without_brackets(name), without_brackets(known));
    if letters(name).eq(letters(known)) {
        return Some(0);
    }
    // A short name has few letters that could be right.
    let allowed = (known.len() / 3).min(MAX_EDITS);
    if name.len().abs_diff(known.len()) > 4 * allowed {
        return None;
    }
    let edits = edit_distance(name, known);
    (edits <= allowed).then_some(edits)
}

fn without_brackets(name: &str) -> &str {
    match name.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => rest,
        None => name,
    }
}

fn letters(name: &str) -> impl Iterator<Item = char> {
    name.chars()
        .filter(|character| character.is_alphanumeric())
        .map(|character| character.to_ascii_lowercase())
}

/// Returns how many characters must be inserted, removed or replaced to get from one name to the other (Levenshtein's distance).
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<_> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (removed, character) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = removed + 1;
        for (column, wanted) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(character != *wanted);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = [
        "get",
        "list",
        "list-fields",
        "[method]object.text",
        "[method]object.texts",
        "[resource-drop]object",
    ];

    #[test]
    fn misspelt_names_and_other_separators_are_recognised() {
        for (name, meant) in [
            ("gett", "get"),
            ("lst", "list"),
            ("list_fields", "list-fields"),
            ("listFields", "list-fields"),
            ("[method]object.txt", "[method]object.text"),
            ("object.text", "[method]object.text"),
            ("object_texts", "[method]object.texts"),
        ] {
            assert_eq!(most_similar(name, KNOWN), Some(meant), "{name}");
        }
    }

    #[test]
    fn other_names_are_not_similar() {
        for name in ["", "f", "set-all", "teleport", "[method]object", "describe"] {
            assert_eq!(most_similar(name, ["get", "list", "[method]object.text"]), None, "{name}");
        }
    }

    #[test]
    fn very_long_names_are_not_compared() {
        let long = "a".repeat(1 << 20);
        assert_eq!(most_similar(&long, KNOWN), None);
        assert!(!has_letters_of(&long, &long));
    }

    #[test]
    fn the_distance_counts_inserted_removed_and_replaced_characters() {
        for (from, to, distance) in
            [("", "", 0), ("", "ab", 2), ("ab", "", 2), ("kitten", "sitting", 3), ("cache", "cahce", 2)]
        {
            assert_eq!(edit_distance(from, to), distance, "{from} {to}");
        }
    }
}
