//! [`ResourceVersion`] and [`Uid`].

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// `metadata.resourceVersion`: an opaque text that is compared for equality. Two versions have an order only if both are decimal.
///
/// Kubernetes guarantees decimal, comparable versions since 1.35 (KEP-5504). Other servers may not.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Arc<str>);

/// `metadata.uid`: distinguishes objects that had the same name at different times.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Uid(Arc<str>);

impl ResourceVersion {
    /// Wraps the server's text as it is.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Arc::from(text))
    }

    /// The server's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the order of two versions; `None` if one of them is not decimal.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        Self::compare_text(&self.0, &other.0)
    }

    /// As [`compare`](Self::compare), for versions as text.
    #[must_use]
    pub fn compare_text(left: &str, right: &str) -> Option<Ordering> {
        // Every event is compared, mostly with a version of the same length: the fast case.
        if left.len() == right.len() && is_decimal(left) && is_decimal(right) {
            return Some(left.cmp(right));
        }
        let (left, right) = (decimal(left)?, decimal(right)?);
        Some(left.len().cmp(&right.len()).then_with(|| left.cmp(right)))
    }
}

/// Returns the digits without leading zeros; `None` if the text is not decimal.
fn decimal(text: &str) -> Option<&str> {
    is_decimal(text).then(|| text.trim_start_matches('0'))
}

fn is_decimal(text: &str) -> bool {
    // No early exit, so that the loop is vectorized.
    !text.is_empty() && text.bytes().fold(true, |all, byte| all & byte.is_ascii_digit())
}

impl Uid {
    /// Wraps the server's text as it is.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Arc::from(text))
    }

    /// The server's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rv:{}", self.0)
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid:{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_versions_of_any_length_compare_by_value() {
        let compare = ResourceVersion::compare_text;
        assert_eq!(compare("9", "10"), Some(Ordering::Less));
        assert_eq!(compare("0010", "10"), Some(Ordering::Equal));
        assert_eq!(compare("184467440737095516160", "184467440737095516159"), Some(Ordering::Greater));
        assert_eq!(compare("0", "0"), Some(Ordering::Equal));
    }

    #[test]
    fn versions_that_are_not_decimal_have_no_order() {
        assert_eq!(ResourceVersion::compare_text("a1", "2"), None);
        assert_eq!(ResourceVersion::compare_text("", "2"), None);
        assert_eq!(ResourceVersion::compare_text("-1", "2"), None);
    }
}
