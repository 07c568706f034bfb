//! Characters without an appearance of their own, with which two different texts can look the same.

/// The characters with the property `Default_Ignorable_Code_Point`, as inclusive ranges: `DerivedCoreProperties.txt` of Unicode 16.0.0.
const DEFAULT_IGNORABLE_CODE_POINTS: [(char, char); 17] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fff8}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Whether a character has the property `Default_Ignorable_Code_Point`: text is shown without it unless a font knows better.
pub(super) fn is_default_ignorable(character: char) -> bool {
    // ASCII text is the common case.
    character >= '\u{ad}'
        && DEFAULT_IGNORABLE_CODE_POINTS.iter().any(|(first, last)| (*first..=*last).contains(&character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_property_covers_invisible_characters_only() {
        let count = ('\0'..=char::MAX).filter(|character| is_default_ignorable(*character)).count();
        assert_eq!(count, 4174, "the total that DerivedCoreProperties.txt states");
        assert!(DEFAULT_IGNORABLE_CODE_POINTS.is_sorted());
        for visible in ['a', ' ', 'ä', '\u{301}', '한', '漢', '😀', '\u{fffd}'] {
            assert!(!is_default_ignorable(visible), "{visible:?}");
        }
    }
}
