//! Estimates how long a regular expression takes to compile, before it is compiled.
//!
//! The size limit of `regex` counts what the compiler emits. What happens before that has no limit of its own: with the flag `i`, each code
//! point of a class is visited to find those that differ only in case, up to 1,114,112 for a class of some bytes. The items of a class, and
//! alternatives of one character, are inserted into a sorted list one by one.

use std::convert::Infallible;

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{
    self, Ast, ClassPerlKind, ClassSetBinaryOp, ClassSetItem, ClassSetRange, Flag, Flags, GroupKind, Visitor,
};

/// All code points.
const ALL: u64 = 0x11_0000;
/// Upper bound of the code points of `\w`.
const WORD: u64 = 150_000;
/// The work for a class with many ranges that is only looked up.
const LOOKUP: u64 = 2_000;
/// The work for any other part of a pattern.
const PART: u64 = 16;

/// Returns an upper bound of the work to compile a pattern before the size limit takes effect. The unit is the visit of one code point, some
/// nanoseconds. A malformed pattern costs no more than to parse it.
///
/// The work is overestimated where the flag `i` is set in only a part of the pattern, and for classes by their names.
#[must_use]
pub fn pattern_work(pattern: &str) -> u64 {
    let parsing = PART * pattern.len() as u64;
    match Parser::new().parse(pattern) {
        Ok(tree) => parsing + ast::visit(&tree, Work::default()).unwrap_or_else(|never| match never {}),
        Err(_) => parsing,
    }
}

#[derive(Default)]
struct Work {
    total: u64,
    /// Whether the flag `i` was set before this place, anywhere in the pattern.
    ignores_case: bool,
    /// The items of the bracketed class so far.
    items: u64,
}

impl Work {
    fn read_flags(&mut self, flags: &Flags) {
        self.ignores_case |= flags.flag_state(Flag::CaseInsensitive) == Some(true);
    }

    /// Adds a class of this many code points that is looked up by a name.
    fn named_class(&mut self, code_points: u64) {
        self.total += if self.ignores_case { code_points.max(LOOKUP) } else { LOOKUP };
    }

    /// Adds a class inside of another one.
    fn nested_class(&mut self) {
        self.total += if self.ignores_case { ALL } else { PART };
    }

    fn range(&mut self, range: &ClassSetRange) {
        let width = u64::from(u32::from(range.end.c)).saturating_sub(u64::from(u32::from(range.start.c))) + 1;
        self.total += if self.ignores_case { width } else { 1 };
    }
}

impl Visitor for Work {
    type Output = u64;
    type Err = Infallible;

    fn finish(self) -> Result<u64, Infallible> {
        Ok(self.total)
    }

    fn visit_pre(&mut self, part: &Ast) -> Result<(), Infallible> {
        self.total += PART;
        match part {
            Ast::Flags(set) => self.read_flags(&set.flags),
            Ast::Group(group) => {
                if let GroupKind::NonCapturing(flags) = &group.kind {
                    self.read_flags(flags);
                }
            }
            Ast::ClassUnicode(_) => self.named_class(ALL),
            // Outside of brackets, these are not folded.
            Ast::ClassPerl(_) => self.total += LOOKUP,
            Ast::ClassBracketed(_) => self.items = 0,
            Ast::Alternation(alternation) => {
                let alternatives = alternation.asts.len() as u64;
                self.total += alternatives * alternatives;
            }
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Infallible> {
        self.items += 1;
        self.total += PART + 3 * self.items;
        match item {
            ClassSetItem::Range(range) => self.range(range),
            ClassSetItem::Unicode(_) => self.named_class(ALL),
            ClassSetItem::Perl(class) => match class.kind {
                ClassPerlKind::Word if !class.negated => self.named_class(WORD),
                _ if class.negated => self.named_class(ALL),
                _ => self.named_class(0),
            },
            ClassSetItem::Ascii(class) if class.negated => self.named_class(ALL),
            // Its code points are visited again with those of the class around it, at each level.
            ClassSetItem::Bracketed(_) => self.nested_class(),
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_binary_op_pre(&mut self, _: &ClassSetBinaryOp) -> Result<(), Infallible> {
        // Both sides are visited before they are combined, and the result after that.
        self.nested_class();
        self.nested_class();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_classes_count_when_case_is_ignored() {
        let wide = r"[\x01-\u{10ffff}]";
        for (pattern, at_least, below) in [
            ("", 0, 100),
            ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 0, 2_000),
            ("(?i)^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 0, 2_000),
            (r"^\w+@\w+\.\p{L}$", 0, 10_000),
            (wide, 0, 1_000),
            (&format!("(?i){wide}"), ALL - 1, ALL + 1_000),
            (&format!("(?i:{wide}{wide})"), 2 * ALL - 2, 2 * ALL + 1_000),
            (&format!("a|(?i)b{{3}}(?-i)[{wide}&&{wide}]"), 6 * ALL - 2, 6 * ALL + 2_000),
            (&format!("(?i){}{wide}{}", "[a".repeat(20), "]".repeat(20)), 20 * ALL, 22 * ALL),
            (&format!("{}{wide}{}", "[a".repeat(20), "]".repeat(20)), 0, 10_000),
            ("(?i)[b[^a]]", ALL, ALL + 1_000),
            (r"(?i)[\W]\PL[[:^alpha:]]", 3 * ALL, 3 * ALL + 1_000),
            ("(?i)[", 0, 100),
            ("(?-i)[^b[^a]]", 0, 5_000),
        ] {
            let work = pattern_work(pattern);
            assert!((at_least..below).contains(&work), "{pattern}: {work}");
        }
    }

    #[test]
    fn many_items_count_more_than_each_alone() {
        let text = |count: u32, separator: &str| -> String {
            let letter = |number| char::from_u32(0x4e00 + 2 * number).expect("a code point").to_string();
            (0..count).map(letter).collect::<Vec<_>>().join(separator)
        };
        assert!(pattern_work(&format!("[{}]", text(100, ""))) < 30_000);
        assert!(pattern_work(&format!("[{}]", text(1_000, ""))) > 1_000_000);
        assert!(pattern_work(&text(1_000, "|")) > 1_000_000);
    }
}
