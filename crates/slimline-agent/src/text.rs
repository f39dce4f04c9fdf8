//! Text put together without memory of its own.

use core::ffi::CStr;
use core::fmt::{self, Write};

/// A text that has room for so many bytes, a NUL at its end included.
pub(crate) struct Text<const BYTES: usize> {
    bytes: [u8; BYTES],
    length: usize,
}

/// One that any path has room in.
pub(crate) type Path = Text<{ libc::PATH_MAX as usize }>;

impl<const BYTES: usize> Text<BYTES> {
    /// An empty one.
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; BYTES], length: 0 }
    }

    /// Adds bytes of any kind, as paths have them.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> fmt::Result {
        // One byte stays for the NUL.
        let end = self.length + bytes.len();
        if end >= BYTES {
            return Err(fmt::Error);
        }
        self.bytes[self.length..end].copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }

    /// The text so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The text so far; None where there is a NUL in it.
    pub(crate) fn as_c_str(&self) -> Option<&CStr> {
        CStr::from_bytes_with_nul(self.bytes.get(..=self.length)?).ok()
    }
}

impl<const BYTES: usize> Write for Text<BYTES> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_with_its_nul_is_an_error_and_left_out() {
        let mut text = Text::<8>::new();
        assert!(write!(text, "/dev").is_ok());
        assert!(write!(text, "/shm").is_err());
        assert_eq!(text.as_c_str(), Some(c"/dev"));
        assert!(write!(text, "/pt").is_ok());
        assert_eq!((text.bytes(), text.as_c_str()), (&b"/dev/pt"[..], Some(c"/dev/pt")));
        let mut bytes = Text::<8>::new();
        assert!(bytes.push(b"caf\xe9").is_ok() && bytes.push(b"/abc").is_err());
        assert_eq!(bytes.as_c_str(), Some(c"caf\xe9"));
    }
}
