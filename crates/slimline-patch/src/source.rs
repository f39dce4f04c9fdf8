//! A source file's text.

use slimline_source::tokens::{Kind, Spliced, tokens};

/// A source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// As people are told of it.
    pub path: String,
    /// What is in it. Of a file that is not UTF-8 all that is not ASCII is `?`, so that each byte is where it was.
    pub text: String,
    /// The first byte that is not.
    pub not_utf8: Option<usize>,
}

/// A token, with its bytes in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) text: &'a str,
}

impl Token<'_> {
    pub(crate) fn is(&self, text: &str) -> bool {
        self.text == text
    }
}

impl Source {
    /// Of a file's bytes.
    pub fn new(path: String, bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self { path, text, not_utf8: None },
            Err(error) => {
                let not_utf8 = Some(error.utf8_error().valid_up_to());
                let ascii = |byte: &u8| if byte.is_ascii() { char::from(*byte) } else { '?' };
                Self { path, text: error.as_bytes().iter().map(ascii).collect(), not_utf8 }
            }
        }
    }

    /// The line that a byte is in, from 1.
    pub fn line(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
    }

    /// Its code in a range of bytes, without directives of the preprocessor; none where it is not on characters' boundaries.
    pub(crate) fn tokens(&self, from: usize, to: usize) -> Option<Vec<Token<'_>>> {
        let text = self.text.get(from..to)?;
        let spliced = Spliced::of(text.as_bytes());
        let mut found = Vec::new();
        let mut is_directive = false;
        for token in tokens(&spliced, text.as_bytes()) {
            is_directive = token.kind == Kind::Directive || is_directive && token.kind != Kind::LineEnd;
            if is_directive || token.kind == Kind::LineEnd {
                continue;
            }
            let (start, last) = (spliced.source(token.at.start), spliced.source(token.at.end - 1));
            let text = text.get(start..=last)?;
            found.push(Token { kind: token.kind, start: from + start, end: from + last + 1, text });
        }
        Some(found)
    }

    /// Whether there is a directive of the preprocessor in a range of bytes.
    pub(crate) fn has_directive(&self, from: usize, to: usize) -> bool {
        let text = self.text.get(from..to).unwrap_or_default();
        let spliced = Spliced::of(text.as_bytes());
        tokens(&spliced, text.as_bytes()).iter().any(|token| token.kind == Kind::Directive)
    }

    /// The `->` or `.` before a member's name.
    pub(crate) fn member_operator(&self, name: usize) -> Option<(usize, &str)> {
        let before = self.text.get(..name)?.trim_end();
        ["->", "."].into_iter().find_map(|operator| {
            let at = before.strip_suffix(operator)?.len();
            Some((at, operator))
        })
    }

    /// The beginning of the line that a byte is in, and the blanks that it begins with.
    pub(crate) fn indentation(&self, offset: usize) -> (usize, &str) {
        let start = self.text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let rest = self.text.get(start..).unwrap_or_default();
        (start, &rest[..rest.len() - rest.trim_start_matches([' ', '\t']).len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_code_at_their_bytes() {
        let source = Source::new(String::new(), "int a; // x\n#define A 1 \\\n 2\nchar *b;\n".into());
        let words: Vec<&str> = source.tokens(0, source.text.len()).unwrap().iter().map(|token| token.text).collect();
        assert_eq!(words, ["int", "a", ";", "char", "*", "b", ";"]);
        assert!(source.has_directive(5, 20) && !source.has_directive(0, 6));
        assert_eq!((source.line(0), source.line(source.text.len() - 2)), (1, 4));
    }

    #[test]
    fn operators_stand_before_members() {
        let source = |text: &str| Source::new(String::new(), text.into());
        assert_eq!(source("a -> b").member_operator(5), Some((2, "->")));
        assert_eq!(source("a[0].b").member_operator(5), Some((4, ".")));
        assert_eq!(source("b").member_operator(0), None);
    }
}
