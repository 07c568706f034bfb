//! Texts that match a regular expression: literals, classes, groups, alternatives and repetitions. Other constructs are not
//! supported.

use std::iter::Peekable;
use std::str::Chars;

use super::random::Random;

/// The longest pattern in bytes.
const MAX_PATTERN: usize = 1000;
/// The most levels of groups.
const MAX_DEPTH: usize = 20;
/// The longest text in characters.
const MAX_TEXT: usize = 2000;
/// The most repetitions beyond the smallest number.
const MAX_EXTRA: usize = 3;

/// Returns a text that the pattern matches; `None` if the pattern uses an unsupported construct. The caller verifies it.
pub(super) fn matching(pattern: &str, random: &mut Random) -> Option<String> {
    if pattern.len() > MAX_PATTERN {
        return None;
    }
    let mut parser = Parser { rest: pattern.chars().peekable(), depth: 0 };
    let node = parser.alternatives()?;
    if parser.rest.next().is_some() {
        return None;
    }
    let mut text = String::new();
    node.write(random, &mut text)?;
    Some(text)
}

enum Node {
    /// One of these characters.
    Class(Vec<char>),
    Sequence(Vec<Node>),
    Alternatives(Vec<Node>),
    /// The node, at least and at most so many times.
    Repeated(Box<Node>, usize, usize),
}

impl Node {
    /// Appends a text; `None` if it becomes too long.
    fn write(&self, random: &mut Random, text: &mut String) -> Option<()> {
        match self {
            Self::Class(characters) => text.push(*random.one_of(characters)?),
            Self::Sequence(nodes) => nodes.iter().try_for_each(|node| node.write(random, text))?,
            Self::Alternatives(nodes) => random.one_of(nodes)?.write(random, text)?,
            Self::Repeated(node, min, max) => {
                let extra = random.below((max - min).min(MAX_EXTRA) + 1);
                for _ in 0..min + extra {
                    node.write(random, text)?;
                }
            }
        }
        (text.len() <= MAX_TEXT).then_some(())
    }
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    depth: usize,
}

impl Parser<'_> {
    fn alternatives(&mut self) -> Option<Node> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut found = vec![self.sequence()?];
        while self.rest.next_if_eq(&'|').is_some() {
            found.push(self.sequence()?);
        }
        self.depth -= 1;
        Some(Node::Alternatives(found))
    }

    fn sequence(&mut self) -> Option<Node> {
        let mut nodes = Vec::new();
        while let Some(next) = self.rest.next_if(|next| !matches!(next, '|' | ')')) {
            let node = match next {
                // The text is generated as a whole, so that it begins and ends where the pattern does.
                '^' | '$' => continue,
                '(' => self.group()?,
                '[' => Node::Class(self.class()?),
                '.' => Node::Class(vec!['a', 'b', 'c']),
                '\\' => Node::Class(escaped(self.rest.next()?)?),
                '*' | '+' | '?' | '{' => return None,
                literal => Node::Class(vec![literal]),
            };
            nodes.push(self.repeated(node)?);
        }
        Some(Node::Sequence(nodes))
    }

    fn group(&mut self) -> Option<Node> {
        if self.rest.next_if_eq(&'?').is_some() && self.rest.next()? != ':' {
            return None;
        }
        let node = self.alternatives()?;
        (self.rest.next()? == ')').then_some(node)
    }

    fn repeated(&mut self, node: Node) -> Option<Node> {
        let (min, max) = match self.rest.peek() {
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('?') => (0, 1),
            Some('{') => {
                self.rest.next();
                let text: String =
                    std::iter::from_fn(|| self.rest.next_if(|next| *next != '}')).take(20).collect();
                let (min, max) = text.split_once(',').unwrap_or((&text, &text));
                let min = min.parse().ok()?;
                let max = if max.is_empty() { usize::MAX } else { max.parse().ok()? };
                if min > max || min > MAX_TEXT {
                    return None;
                }
                (min, max)
            }
            _ => return Some(node),
        };
        self.rest.next()?;
        // A lazy repetition matches the same texts.
        self.rest.next_if_eq(&'?');
        Some(Node::Repeated(Box::new(node), min, max))
    }

    fn class(&mut self) -> Option<Vec<char>> {
        let is_negated = self.rest.next_if_eq(&'^').is_some();
        let mut characters = Vec::new();
        loop {
            match self.rest.next()? {
                ']' if !characters.is_empty() => break,
                '[' => return None,
                '\\' => characters.extend(escaped(self.rest.next()?)?),
                first => {
                    let mut ahead = self.rest.clone();
                    let end =
                        (ahead.next() == Some('-')).then(|| ahead.next()).flatten().filter(|end| *end != ']');
                    match end {
                        Some(end) if end.is_ascii() && first <= end => {
                            self.rest = ahead;
                            characters.extend(first..=end);
                        }
                        Some(_) => return None,
                        None => characters.push(first),
                    }
                }
            }
        }
        if is_negated {
            let others = ('a'..='z').chain('0'..='9').chain(['-', '_', ' ']);
            characters = others.filter(|other| !characters.contains(other)).collect();
        }
        (!characters.is_empty()).then_some(characters)
    }
}

/// Returns the characters that an escape stands for.
fn escaped(character: char) -> Option<Vec<char>> {
    match character {
        'd' => Some(('0'..='9').collect()),
        'w' => Some(('a'..='z').chain('0'..='9').chain(['_']).collect()),
        's' => Some(vec![' ']),
        'S' => Some(vec!['a', 'b', 'c']),
        other if !other.is_ascii_alphanumeric() => Some(vec![other]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    #[test]
    fn texts_match_common_patterns() {
        for pattern in [
            r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
            r"^(\d+)(ms|s|m|h)$",
            r"^v\d+(?:\.\d+){2}$",
            r"^https?://[^/]+/.*$",
            r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$",
            "^$",
            "[A-Z]{3,}|x{2}",
            r"^[\w.-]+$",
        ] {
            let regex = Regex::new(pattern).expect(pattern);
            for seed in 0..50 {
                let text = matching(pattern, &mut Random::new(seed)).expect(pattern);
                assert!(regex.is_match(&text), "{pattern}: {text}");
            }
        }
    }

    #[test]
    fn unsupported_patterns_are_refused() {
        for pattern in [
            "a{2",
            "(?i)a",
            r"\bword",
            "[[:alpha:]]",
            "*",
            "(a",
            "a)",
            "a{5,2}",
            "a{99999}",
            &"(".repeat(100),
        ] {
            assert_eq!(matching(pattern, &mut Random::new(1)), None, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn no_pattern_panics(pattern in r"[\[\](){}^$.*+?|\\a-c0-9,-]{0,30}", seed: u64) {
            let _ = matching(&pattern, &mut Random::new(seed));
        }
    }
}
