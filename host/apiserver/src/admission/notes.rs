//! What admission records about a write besides its decision: warnings for the client, and annotations of the audit event.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The bytes of warnings that one write may have, with [`WARNING_OVERHEAD`] for each.
const MAX_WARNINGS: usize = 16 << 10;
/// The bytes of a warning's header besides its text.
const WARNING_OVERHEAD: usize = 20;
/// The bytes of annotations that one request may have.
const MAX_ANNOTATIONS: usize = 1 << 20;

/// Annotations of an audit event, by their keys.
pub(crate) type AuditAnnotations = BTreeMap<String, String>;

/// The notes about the writes of one request.
#[derive(Default)]
pub(crate) struct Notes {
    warnings: Mutex<Vec<String>>,
    annotations: Mutex<AuditAnnotations>,
}

impl Notes {
    /// Adds warnings, as long as they are short together.
    pub(crate) fn warn(&self, texts: &[String]) {
        add_warnings(&mut self.warnings.lock(), texts);
    }

    /// Adds an annotation of the audit event. As in Kubernetes, the first one with a key stays. Further ones are left out if all are too long together.
    pub(crate) fn annotate(&self, key: String, value: String) {
        let mut annotations = self.annotations.lock();
        let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        if size + key.len() + value.len() > MAX_ANNOTATIONS {
            tracing::warn!(key, "an audit annotation is left out, because those of the request are too long");
            return;
        }
        annotations.entry(key).or_insert(value);
    }

    /// Takes the warnings so far.
    pub(super) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock())
    }

    /// Takes the annotations so far.
    pub(super) fn take_annotations(&self) -> AuditAnnotations {
        std::mem::take(&mut *self.annotations.lock())
    }
}

/// Adds the warnings that are not empty, up to [`MAX_WARNINGS`]. A webhook may return millions of short ones, and each takes a header.
fn add_warnings(warnings: &mut Vec<String>, texts: &[String]) {
    let bytes_of = |text: &String| text.len() + WARNING_OVERHEAD;
    let mut size: usize = warnings.iter().map(bytes_of).sum();
    for text in texts.iter().filter(|text| !text.is_empty()) {
        size += bytes_of(text);
        if size > MAX_WARNINGS {
            return;
        }
        warnings.push(text.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_warnings_is_bounded_however_short_they_are() {
        let mut warnings = Vec::new();
        add_warnings(&mut warnings, &vec![String::new(); 100_000]);
        assert!(warnings.is_empty(), "empty warnings are left out");
        for _ in 0..2 {
            add_warnings(&mut warnings, &vec!["w".to_owned(); 100_000]);
        }
        assert_eq!(warnings.len(), MAX_WARNINGS / (1 + WARNING_OVERHEAD));
    }

    #[test]
    fn annotations_are_bounded_and_the_first_with_a_key_stays() {
        let notes = Notes::default();
        notes.annotate("a".to_owned(), "1".to_owned());
        notes.annotate("a".to_owned(), "2".to_owned());
        notes.annotate("b".to_owned(), "x".repeat(MAX_ANNOTATIONS));
        let annotations = notes.take_annotations();
        assert_eq!(annotations.into_iter().collect::<Vec<_>>(), [("a".to_owned(), "1".to_owned())]);
    }
}
