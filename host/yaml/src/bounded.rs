//! Parses texts within bounds of their nesting, their number of values, and what aliases make of them.

use serde::de::DeserializeOwned;

use crate::description::describe_in;

/// The maximum number of documents of a text.
const MAX_DOCUMENTS: usize = 1000;

/// Parses a text of one document. The caller bounds its length.
///
/// # Errors
/// Returns what is wrong in one line, as [`crate::describe`], with the key before a value of a wrong type.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_saphyr::from_str_with_options(text, options(1)).map_err(|error| describe_in(text, &error))
}

/// Parses all documents of a text, at most 1000. The caller bounds its length.
///
/// # Errors
/// Returns what is wrong in one line, as [`crate::describe`], with the key before a value of a wrong type.
pub fn from_multiple<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    serde_saphyr::from_multiple_with_options(text, options(MAX_DOCUMENTS))
        .map_err(|error| describe_in(text, &error))
}

pub(crate) fn options(documents: usize) -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 64,
            max_nodes: 250_000,
            max_aliases: 1000,
            max_anchors: 1000,
            max_documents: documents,
            max_total_scalar_bytes: 4 << 20,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn documents_are_counted() {
        assert_eq!(from_multiple::<u8>("1\n---\n2\n"), Ok(vec![1, 2]));
        assert_eq!(from_str::<u8>("1\n"), Ok(1));
        assert!(from_str::<u8>("1\n---\n2\n").is_err());
        assert!(from_multiple::<u8>(&"--- 1\n".repeat(MAX_DOCUMENTS + 1)).is_err());
    }

    #[test]
    fn nesting_and_aliases_are_bounded() {
        let nested = from_str::<Value>(&("[".repeat(100) + &"]".repeat(100))).expect_err("too deep");
        assert!(nested.contains("is nested too deeply, or has too many aliases; simplify it"), "{nested}");
        let mut bomb = "a: &a [x,x,x,x,x,x,x,x]\n".to_owned();
        for (before, name) in ('a'..'m').zip('b'..) {
            let aliases = vec![format!("*{before}"); 6].join(",");
            bomb.push_str(&format!("{name}: &{name} [{aliases}]\n"));
        }
        let multiplied = from_str::<Value>(&bomb).expect_err("aliases cannot multiply");
        assert!(multiplied.contains("; split it") || multiplied.contains("; simplify it"), "{multiplied}");
    }
}
