//! Tokens of C and C++, as far as it takes to know what is code: lines are spliced, comments are nothing, strings are one token.

use std::ops::Range;

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A name or a keyword.
    Name,
    /// A string literal with its quotes and prefix.
    Text,
    /// A number or a character.
    Constant,
    /// `#`, or `%:`, that begins a line.
    Directive,
    /// One other character.
    Mark(u8),
    /// The end of a line that no `\` continues.
    LineEnd,
}

/// One of them, at these bytes of the spliced text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Where.
    pub at: Range<usize>,
}

/// A source with its continued lines put together, and which byte of the source each is.
pub struct Spliced {
    /// Its text.
    pub bytes: Vec<u8>,
    from: Vec<usize>,
    source_bytes: usize,
}

impl Spliced {
    /// Of a source.
    pub fn of(source: &[u8]) -> Self {
        let mut spliced =
            Self { bytes: Vec::with_capacity(source.len()), from: Vec::new(), source_bytes: source.len() };
        let mut at = 0;
        while let Some(&byte) = source.get(at) {
            if byte == b'\\'
                && let Some(length) = line_end(&source[at + 1..])
            {
                at += 1 + length;
                continue;
            }
            spliced.bytes.push(byte);
            spliced.from.push(at);
            at += 1;
        }
        spliced
    }

    /// The byte of the source that one of these is.
    pub fn source(&self, at: usize) -> usize {
        self.from.get(at).copied().unwrap_or(self.source_bytes)
    }
}

/// How long the end of a line is that stands here, with the blanks that compilers pass over behind a `\`.
fn line_end(rest: &[u8]) -> Option<usize> {
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\x0b' | b'\x0c' | b'\r')).count();
    (rest.get(blanks) == Some(&b'\n')).then_some(blanks + 1)
}

/// All tokens of a source.
pub fn tokens(spliced: &Spliced, source: &[u8]) -> Vec<Token> {
    let mut lexer = Lexer { text: &spliced.bytes, at: 0, begins_line: true };
    let mut tokens = Vec::new();
    while let Some(mut token) = lexer.next() {
        if token.kind == Kind::Text && is_raw(&spliced.bytes[token.at.clone()]) {
            // In these `\` continues nothing.
            token.at.end = raw_end(spliced, source, &token).unwrap_or(token.at.end);
            lexer.at = token.at.end;
        }
        lexer.begins_line = token.kind == Kind::LineEnd;
        tokens.push(token);
    }
    tokens
}

fn is_raw(text: &[u8]) -> bool {
    text.iter().position(|byte| *byte == b'"').is_some_and(|quote| text[..quote].ends_with(b"R"))
}

/// Where a raw string ends.
fn raw_end(spliced: &Spliced, source: &[u8], token: &Token) -> Option<usize> {
    let begin = spliced.source(token.at.start);
    let quote = begin + source[begin..].iter().position(|byte| *byte == b'"')?;
    let open = source[quote..].iter().take(MAX_DELIMITER + 2).position(|byte| *byte == b'(')? + quote;
    let mut close = b")".to_vec();
    close.extend(&source[quote + 1..open]);
    close.push(b'"');
    let length = source[open..].windows(close.len()).position(|window| window == close)?;
    let end = open + length + close.len();
    Some(spliced.from.partition_point(|from| *from < end))
}

/// Of a raw string's.
const MAX_DELIMITER: usize = 16;

struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    begins_line: bool,
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or_default()
    }

    fn next(&mut self) -> Option<Token> {
        self.skip();
        let start = self.at;
        let byte = *self.text.get(start)?;
        let kind = match byte {
            b'\n' => self.mark(1, Kind::LineEnd),
            b'#' if self.begins_line => self.mark(1, Kind::Directive),
            b'%' if self.begins_line && self.peek(1) == b':' => self.mark(2, Kind::Directive),
            b'"' => self.quoted(b'"', Kind::Text),
            b'\'' => self.quoted(b'\'', Kind::Constant),
            b'0'..=b'9' => self.number(),
            b'.' if self.peek(1).is_ascii_digit() => self.number(),
            _ if is_of_name(byte) => {
                while is_of_name(self.peek(0)) {
                    self.at += 1;
                }
                match (&self.text[start..self.at], self.peek(0)) {
                    (b"u8" | b"u" | b"U" | b"L" | b"R" | b"u8R" | b"uR" | b"UR" | b"LR", b'"') => {
                        self.quoted(b'"', Kind::Text)
                    }
                    (b"u8" | b"u" | b"U" | b"L", b'\'') => self.quoted(b'\'', Kind::Constant),
                    _ => Kind::Name,
                }
            }
            _ => self.mark(1, Kind::Mark(byte)),
        };
        Some(Token { kind, at: start..self.at })
    }

    fn mark(&mut self, length: usize, kind: Kind) -> Kind {
        self.at += length;
        kind
    }

    /// Passes over blanks and comments.
    fn skip(&mut self) {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b' ' | b'\t' | b'\r' | b'\x0b' | b'\x0c', _) => self.at += 1,
                (b'/', b'/') => self.at += self.text[self.at..].iter().take_while(|byte| **byte != b'\n').count(),
                (b'/', b'*') => {
                    let rest = &self.text[self.at + 2..];
                    let length = rest.windows(2).position(|end| end == b"*/").map_or(rest.len(), |length| length + 2);
                    self.at += 2 + length;
                }
                _ => return,
            }
        }
    }

    /// To the other quote, or to the end of the line: what is no code need not have one.
    fn quoted(&mut self, quote: u8, kind: Kind) -> Kind {
        self.at += 1;
        while let Some(&byte) = self.text.get(self.at).filter(|byte| **byte != b'\n') {
            self.at += 1;
            match byte {
                b'\\' if self.peek(0) != b'\n' => self.at = self.text.len().min(self.at + 1),
                _ if byte == quote => break,
                _ => {}
            }
        }
        kind
    }

    fn number(&mut self) -> Kind {
        while is_of_name(self.peek(0))
            || self.peek(0) == b'.'
            || (self.peek(0) == b'\'' && is_of_name(self.peek(1)))
            || (matches!(self.peek(0), b'+' | b'-') && matches!(self.text[self.at - 1], b'e' | b'E' | b'p' | b'P'))
        {
            self.at += 1;
        }
        Kind::Constant
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &[&str]) {
        let spliced = Spliced::of(source.as_bytes());
        let tokens = tokens(&spliced, source.as_bytes());
        let words: Vec<_> = tokens
            .iter()
            .filter(|token| token.kind != Kind::LineEnd)
            .map(|token| std::str::from_utf8(&spliced.bytes[token.at.clone()]).unwrap())
            .collect();
        assert_eq!(words, expected);
    }

    #[test]
    fn comments_and_strings_are_told_from_code() {
        check("a/* b\n// */c // d\\\n e\nf", &["a", "c", "f"]);
        check(r#"x "a // \" b" y'"'z"#, &["x", r#""a // \" b""#, "y", "'\"'", "z"]);
        check("don't\nu8\"x\" L'a'", &["don", "'t", "u8\"x\"", "L'a'"]);
        check("1'000'000 .5e+3f 0x1p-3", &["1'000'000", ".5e+3f", "0x1p-3"]);
        check("\"open\nnext /* open", &["\"open", "next"]);
        check("'\\", &["'\\"]);
    }

    #[test]
    fn raw_strings_end_where_they_say() {
        check("R\"(a \" \n)\" b", &["R\"(a \" \n)\"", "b"]);
        check("uR\"x()\" \\\n)x\" b", &["uR\"x()\" )x\"", "b"]);
        check("FOR\"a\" b", &["FOR", "\"a\"", "b"]);
    }

    #[test]
    fn lines_are_spliced() {
        check("a\\\nb \\ \nc\\d", &["ab", "c", "\\", "d"]);
        let spliced = Spliced::of(b"a\\\r\nb");
        assert_eq!((&spliced.bytes[..], spliced.source(1), spliced.source(2)), (&b"ab"[..], 4, 5));
    }

    #[test]
    fn directives_begin_lines() {
        let kinds = |source: &str| {
            let spliced = Spliced::of(source.as_bytes());
            tokens(&spliced, source.as_bytes()).into_iter().map(|token| token.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(" /**/ # x"), [Kind::Directive, Kind::Name]);
        assert_eq!(kinds("%:"), [Kind::Directive]);
        assert_eq!(kinds("a #"), [Kind::Name, Kind::Mark(b'#')]);
        assert_eq!(kinds("a\n#"), [Kind::Name, Kind::LineEnd, Kind::Directive]);
    }
}
