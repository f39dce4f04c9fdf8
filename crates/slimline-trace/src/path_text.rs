//! Paths as text.
//!
//! A path is any bytes but NUL; recordings, JSON and reports are UTF-8. So each byte that is not UTF-8 is written `\xHH`, two
//! capital hexadecimal digits: `caf\xE9/prog` is the file in a directory of a Latin-1 name. A backslash that would be read as
//! the beginning of such a sequence is written `\x5C`. All else stays as it is, so what is UTF-8 and has no such sequence is
//! its own text, line breaks included: whoever shows it to a person escapes these ([`escape`](crate::escape)).
//!
//! The kernel puts ` (deleted)` behind the path of a file that is gone. So of a file that is there and called so the blank is
//! written `\x20` ([`text_of_existing`]): a text that ends in ` (deleted)` is of a file that is gone.
//!
//! The text says which bytes they were: [`path_of`] undoes [`text_of`].

use core::fmt::{self, Write as _};

#[cfg(feature = "session")]
mod paths;

#[cfg(feature = "session")]
pub use paths::{DELETED, bytes_of, is_escaped, path_of, text_of, text_of_bytes, text_of_existing};

/// Shows a path's bytes as their text, piece by piece: nothing is allocated.
#[derive(Clone, Copy, Debug)]
pub struct PathText<'a>(pub &'a [u8]);

impl fmt::Display for PathText<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c == '\\' && sequence(rest).is_some() {
                    to.write_str(r"\x5C")?;
                } else {
                    to.write_char(c)?;
                }
                rest = &rest[c.len_utf8()..];
            }
            for byte in chunk.invalid() {
                write!(to, r"\x{byte:02X}")?;
            }
            rest = &rest[chunk.invalid().len()..];
        }
        Ok(())
    }
}

/// The byte that a sequence at the beginning of `bytes` stands for.
fn sequence(bytes: &[u8]) -> Option<u8> {
    let [b'\\', b'x', high, low, ..] = bytes else { return None };
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    Some(digit(*high)? << 4 | digit(*low)?)
}
