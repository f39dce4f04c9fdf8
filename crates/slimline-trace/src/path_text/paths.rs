//! Whole paths and their texts.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use super::{PathText, sequence};

/// The text of a path, or of a part of one.
pub fn text_of(path: &OsStr) -> Cow<'_, str> {
    text_of_bytes(path.as_bytes())
}

/// The text of a path's bytes.
pub fn text_of_bytes(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(text) if !has_sequence(bytes) => Cow::Borrowed(text),
        _ => Cow::Owned(PathText(bytes).to_string()),
    }
}

/// The text of the path of a file that is there, whatever it is called.
pub fn text_of_existing(path: &OsStr) -> String {
    let text = text_of(path).into_owned();
    match text.strip_suffix(DELETED) {
        Some(rest) => format!(r"{rest}\x20(deleted)"),
        None => text,
    }
}

/// The path of such a text.
pub fn path_of(text: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes_of(text)))
}

/// The bytes of such a text.
pub fn bytes_of(text: &str) -> Vec<u8> {
    let mut rest = text.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let [first, behind @ ..] = rest {
        if let Some(byte) = sequence(rest) {
            bytes.push(byte);
            rest = &rest[SEQUENCE_BYTES..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    bytes
}

/// Whether the text has bytes that are not UTF-8.
pub fn is_escaped(text: &str) -> bool {
    has_sequence(text.as_bytes())
}

/// What the kernel puts behind the path of a file that is gone.
pub const DELETED: &str = " (deleted)";

const SEQUENCE_BYTES: usize = 4;

fn has_sequence(bytes: &[u8]) -> bool {
    bytes.windows(SEQUENCE_BYTES).any(|window| sequence(window).is_some())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_are_shown_and_found_again() {
        for (bytes, text) in [
            (&b"/work/caf\xe9/hot.out"[..], r"/work/caf\xE9/hot.out"),
            ("/work/größe".as_bytes(), "/work/größe"),
            (b"a\nb\tc", "a\nb\tc"),
            (br"a\b\012", r"a\b\012"),
            (br"a\xE9", r"a\x5CxE9"),
            (br"a\xe9", r"a\xe9"),
            (b"\\\xff", r"\\xFF"),
            (b"\\x\xff", r"\x\xFF"),
            (b"\xe2\x82", r"\xE2\x82"),
        ] {
            assert_eq!(text_of_bytes(bytes), text);
            assert_eq!(bytes_of(text), bytes, "{text}");
        }
        assert!(is_escaped(r"a\xE9") && !is_escaped(r"a\xe9") && !is_escaped(r"\x5"));
    }

    #[test]
    fn what_is_there_is_not_gone() {
        let text = text_of_existing(OsStr::new("/a b (deleted)"));
        assert_eq!((text.as_str(), path_of(&text)), (r"/a b\x20(deleted)", PathBuf::from("/a b (deleted)")));
        assert_eq!(text_of_existing(OsStr::new("/a (deleted) b")), "/a (deleted) b");
    }

    proptest! {
        #[test]
        fn every_path_survives(bytes in proptest::collection::vec(prop_oneof![Just(b'\\'), Just(b'x'), Just(b'5'), Just(b'C'), any::<u8>()], 0..24)) {
            let text = text_of_bytes(&bytes);
            prop_assert_eq!(bytes_of(&text), bytes);
        }
    }
}
