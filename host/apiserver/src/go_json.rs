//! The messages of Go's `encoding/json` about text that is not JSON.

use crate::go;

/// What surrounds the next value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Object,
    Array,
}

impl Container {
    fn end(self) -> u8 {
        match self {
            Self::Object => b'}',
            Self::Array => b']',
        }
    }
}

/// Returns the message about a text, or `None` if it is JSON.
pub(crate) fn syntax_error(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { text, position: 0 };
    scanner.document().err().map(|error| match error {
        SyntaxError::End => "unexpected end of JSON input".to_owned(),
        SyntaxError::Character(byte, context) => {
            format!("invalid character {} {context}", quoted_character(byte))
        }
    })
}

/// Formats a byte as Go does, which takes it for a code point.
fn quoted_character(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let quoted = go::quoted(&char::from(byte).to_string());
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}

enum SyntaxError {
    End,
    /// A byte, and where it is.
    Character(u8, String),
}

struct Scanner<'t> {
    text: &'t [u8],
    position: usize,
}

impl Scanner<'_> {
    /// Scans a value and what follows it. Containers are kept in a list, so that no text is too deep.
    fn document(&mut self) -> Result<(), SyntaxError> {
        let mut containers = Vec::new();
        let mut is_first = false;
        loop {
            let container = containers.last().copied();
            if is_first && container.map(Container::end) == Some(self.peek()?) {
                // An empty container is a value.
                self.position += 1;
                containers.pop();
            } else {
                if container == Some(Container::Object) {
                    self.key()?;
                }
                let begun = match self.peek()? {
                    b'{' => Some(Container::Object),
                    b'[' => Some(Container::Array),
                    _ => None,
                };
                if let Some(begun) = begun {
                    self.position += 1;
                    containers.push(begun);
                    is_first = true;
                    continue;
                }
                self.scalar()?;
            }
            is_first = false;
            if self.end_of_value(&mut containers)? {
                return Ok(());
            }
        }
    }

    /// Scans what follows a value, to the next member or item. Returns whether the text ends.
    fn end_of_value(&mut self, containers: &mut Vec<Container>) -> Result<bool, SyntaxError> {
        loop {
            let Some(container) = containers.last() else {
                return match self.peek() {
                    Err(_) => Ok(true),
                    Ok(_) => Err(self.unexpected("after top-level value")),
                };
            };
            let context = match container {
                Container::Object => "after object key:value pair",
                Container::Array => "after array element",
            };
            match self.peek()? {
                b',' => {
                    self.position += 1;
                    return Ok(false);
                }
                byte if byte == container.end() => {
                    self.position += 1;
                    containers.pop();
                }
                _ => return Err(self.unexpected(context)),
            }
        }
    }

    fn key(&mut self) -> Result<(), SyntaxError> {
        if self.peek()? != b'"' {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        self.string()?;
        if self.peek()? != b':' {
            return Err(self.unexpected("after object key"));
        }
        self.position += 1;
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), SyntaxError> {
        match self.peek()? {
            b'"' => self.string(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn string(&mut self) -> Result<(), SyntaxError> {
        self.position += 1;
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => match self.next()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            if !self.next()?.is_ascii_hexdigit() {
                                return Err(self.unexpected_last("in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    _ => return Err(self.unexpected_last("in string escape code")),
                },
                0..0x20 => return Err(self.unexpected_last("in string literal")),
                _ => {}
            }
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), SyntaxError> {
        for expected in word.bytes() {
            if self.next()? != expected {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(self.unexpected_last(&context));
            }
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        if self.current() == Some(b'-') {
            self.position += 1;
        }
        // No digit follows a leading 0.
        if self.current() == Some(b'0') {
            self.position += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.current() == Some(b'.') {
            self.position += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.current(), Some(b'e' | b'E')) {
            self.position += 1;
            if matches!(self.current(), Some(b'+' | b'-')) {
                self.position += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    /// Scans at least one digit.
    fn digits(&mut self, context: &str) -> Result<(), SyntaxError> {
        if !self.next()?.is_ascii_digit() {
            return Err(self.unexpected_last(context));
        }
        while self.current().is_some_and(|byte| byte.is_ascii_digit()) {
            self.position += 1;
        }
        Ok(())
    }

    fn current(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    /// Returns the next byte that is no space, and stays before it.
    fn peek(&mut self) -> Result<u8, SyntaxError> {
        while matches!(self.current(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.position += 1;
        }
        self.current().ok_or(SyntaxError::End)
    }

    fn next(&mut self) -> Result<u8, SyntaxError> {
        let byte = self.current().ok_or(SyntaxError::End)?;
        self.position += 1;
        Ok(byte)
    }

    /// Returns the error about the current byte.
    fn unexpected(&self, context: &str) -> SyntaxError {
        self.current().map_or(SyntaxError::End, |byte| SyntaxError::Character(byte, context.to_owned()))
    }

    /// Returns the error about the byte before the current one.
    fn unexpected_last(&mut self, context: &str) -> SyntaxError {
        self.position -= 1;
        self.unexpected(context)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Messages of kube-apiserver 1.36.
    #[test]
    fn messages_are_those_of_go() {
        for (text, message) in [
            ("", "unexpected end of JSON input"),
            ("{\"metadata\": ", "unexpected end of JSON input"),
            ("\"abc", "unexpected end of JSON input"),
            ("[1,", "unexpected end of JSON input"),
            ("{\"a\": }", "invalid character '}' looking for beginning of value"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{]", "invalid character ']' looking for beginning of object key string"),
            ("{\"a\":{\"b\":1,}}", "invalid character '}' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\": 1 \"b\"}", "invalid character '\"' after object key:value pair"),
            ("{\"a\": 01}", "invalid character '1' after object key:value pair"),
            ("{\"a\": tru}", "invalid character '}' in literal true (expecting 'e')"),
            ("no", "invalid character 'o' in literal null (expecting 'u')"),
            ("{\"a\":{}} x", "invalid character 'x' after top-level value"),
        ] {
            assert_eq!(syntax_error(text.as_bytes()).as_deref(), Some(message), "{text}");
        }
        assert_eq!(syntax_error(b"[1 2]").as_deref(), Some("invalid character '2' after array element"));
        assert_eq!(syntax_error(b"-x").as_deref(), Some("invalid character 'x' in numeric literal"));
        assert_eq!(
            syntax_error(b"\xc3").as_deref(),
            Some("invalid character 'Ã' looking for beginning of value")
        );
        assert_eq!(
            syntax_error(b"'").as_deref(),
            Some("invalid character '\\'' looking for beginning of value")
        );
    }

    #[test]
    fn text_of_any_depth_is_scanned() {
        assert_eq!(
            syntax_error("[".repeat(3 << 20).as_bytes()).as_deref(),
            Some("unexpected end of JSON input")
        );
        let closed = format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
        assert_eq!(syntax_error(closed.as_bytes()), None);
    }

    proptest! {
        /// The scanner accepts what the parser accepts. Texts with surrogates or long numbers are left out: the parser refuses more of them.
        #[test]
        fn scanner_agrees_with_the_parser(text in r#"[\[\]{}:,"a\\ntrue1.e \-]{0,24}"#) {
            let is_json = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            let is_scanned = syntax_error(text.as_bytes()).is_none();
            prop_assert!(!is_json || is_scanned, "{text}");
            prop_assert!(is_json || !is_scanned || text.contains('e'), "{text}");
        }
    }
}
