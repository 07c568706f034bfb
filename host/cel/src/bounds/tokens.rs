//! Splits CEL text into tokens, classified by their effect on the nesting.
//!
//! The lexical grammar is that of the CEL specification. Text that is not in the grammar is an error: a parser that skips such text could
//! tokenize what follows differently.

/// A token, classified by its effect on the nesting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// `(`, `[` or `{`.
    Open,
    /// `)`, `]` or `}`.
    Close,
    Comma,
    /// `&&` or `||`.
    Logical,
    Question,
    /// The `?` of optional syntax: `.?`, or before an index, an element or a key. It adds nothing to the nesting.
    Optional,
    /// `!` or `-`.
    Prefix,
    /// Another binary operator.
    Operator,
    Dot,
    Colon,
    /// A name or literal.
    Operand,
}

/// An iterator over tokens with their byte offsets. It ends after the first error.
pub(crate) struct Tokens<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The first byte of the last token.
    last: Option<u8>,
}

/// What is wrong with a character that starts no token.
pub(crate) const UNKNOWN_CHARACTER: &str = "a character that CEL does not have";

/// The byte offset of an error, and what is wrong there.
type TokenError = (usize, &'static str);

impl<'a> Tokens<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), at: 0, last: None }
    }

    /// Returns the offset after the last token.
    pub(crate) fn end(&self) -> usize {
        self.at
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn skip_while(&mut self, is_part: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&is_part) {
            self.at += 1;
        }
    }

    fn skip_whitespace_and_comments(&mut self) {
        loop {
            self.skip_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0c));
            if !self.rest().starts_with(b"//") {
                return;
            }
            self.skip_while(|byte| byte != b'\n');
        }
    }

    fn token(&mut self, first: u8) -> Result<Token, TokenError> {
        const PAIRS: [&[u8; 2]; 6] = [b"==", b"!=", b"<=", b">=", b"&&", b"||"];
        if let Some(pair) = PAIRS.iter().find(|pair| self.rest().starts_with(pair.as_slice())) {
            self.at += 2;
            return Ok(if matches!(pair[0], b'&' | b'|') { Token::Logical } else { Token::Operator });
        }
        match first {
            b'\'' | b'"' => return self.string(false),
            b'`' => return self.escaped_name(),
            b'0'..=b'9' => return Ok(self.number()),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => return self.name(),
            _ => {}
        }
        let token = match first {
            b'(' | b'[' | b'{' => Token::Open,
            b')' | b']' | b'}' => Token::Close,
            b',' => Token::Comma,
            b'?' if matches!(self.last, Some(b'.' | b'[' | b'{' | b',')) => Token::Optional,
            b'?' => Token::Question,
            b'!' | b'-' => Token::Prefix,
            b'<' | b'>' | b'+' | b'*' | b'/' | b'%' => Token::Operator,
            b'.' => Token::Dot,
            b':' => Token::Colon,
            _ => return Err((self.at, UNKNOWN_CHARACTER)),
        };
        self.at += 1;
        Ok(token)
    }

    fn name(&mut self) -> Result<Token, TokenError> {
        let start = self.at;
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let name = &self.bytes[start..self.at];
        if matches!(self.peek(0), Some(b'\'' | b'"')) {
            match name {
                [b'r' | b'R'] | [b'b' | b'B', b'r' | b'R'] => return self.string(true),
                [b'b' | b'B'] => return self.string(false),
                _ => {}
            }
        }
        Ok(if name == b"in" { Token::Operator } else { Token::Operand })
    }

    fn number(&mut self) -> Token {
        let is_digit = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_digit());
        loop {
            self.skip_while(|byte| byte.is_ascii_alphanumeric());
            let is_fraction = self.peek(0) == Some(b'.') && is_digit(self.peek(1));
            let after_e = matches!(self.bytes[self.at - 1], b'e' | b'E');
            let is_exponent = after_e && matches!(self.peek(0), Some(b'+' | b'-')) && is_digit(self.peek(1));
            if !(is_fraction || is_exponent) {
                return Token::Operand;
            }
            self.at += 1;
        }
    }

    fn escaped_name(&mut self) -> Result<Token, TokenError> {
        let start = self.at;
        self.at += 1;
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || b"_.-/ ".contains(&byte));
        if self.at == start + 1 || self.peek(0) != Some(b'`') {
            return Err((start, "a name between backticks is not closed"));
        }
        self.at += 1;
        Ok(Token::Operand)
    }

    fn string(&mut self, is_raw: bool) -> Result<Token, TokenError> {
        let start = self.at;
        let quote = self.bytes[start];
        let is_triple = self.rest().starts_with(&[quote; 3]);
        let length = if is_triple { 3 } else { 1 };
        self.at += length;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' if !is_raw => self.escape()?,
                b'\n' | b'\r' if !is_triple => break,
                _ if self.rest().starts_with(&[quote; 3][..length]) => {
                    self.at += length;
                    return Ok(Token::Operand);
                }
                _ => self.at += 1,
            }
        }
        Err((start, "a string is not closed"))
    }

    fn escape(&mut self) -> Result<(), TokenError> {
        let digits = match self.peek(1) {
            Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`') => 0,
            Some(b'x' | b'X') => 2,
            Some(b'u') => 4,
            Some(b'U') => 8,
            Some(b'0'..=b'3') => {
                let is_octal = |byte: Option<u8>| matches!(byte, Some(b'0'..=b'7'));
                if is_octal(self.peek(2)) && is_octal(self.peek(3)) {
                    self.at += 4;
                    return Ok(());
                }
                return Err((self.at, "an escape that CEL does not have"));
            }
            _ => return Err((self.at, "an escape that CEL does not have")),
        };
        let is_complete =
            (0..digits).all(|digit| self.peek(2 + digit).is_some_and(|byte| byte.is_ascii_hexdigit()));
        if !is_complete {
            return Err((self.at, "an escape that CEL does not have"));
        }
        self.at += 2 + digits;
        Ok(())
    }
}

impl Iterator for Tokens<'_> {
    type Item = Result<(usize, Token), TokenError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_whitespace_and_comments();
        let (start, first) = (self.at, self.peek(0)?);
        let token = self.token(first);
        self.last = Some(first);
        if token.is_err() {
            self.at = self.bytes.len();
        }
        Some(token.map(|token| (start, token)))
    }
}
