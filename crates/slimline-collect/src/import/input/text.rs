//! Text in other encodings than UTF-8, and its byte order mark.

use std::io::{self, BufRead, BufReader, Read};

use super::BUFFER_BYTES;

/// `text` as UTF-8 without a byte order mark; UTF-16 is known by its mark, or by every other byte of its begin being zero.
/// Half a character is U+FFFD.
///
/// # Errors
/// Reading fails, or it is UTF-32.
pub(in crate::import) fn decode_text(mut text: Box<dyn BufRead>) -> io::Result<Box<dyn BufRead>> {
    let (order, mark_bytes) = match text.fill_buf()? {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => {
            return Err(io::Error::other(
                "text in UTF-32, which is not read: make it UTF-8 (iconv -f UTF-32 -t UTF-8)",
            ));
        }
        [0xef, 0xbb, 0xbf, ..] => (None, 3),
        [0xff, 0xfe, ..] => (Some(Order::Little), 2),
        [0xfe, 0xff, ..] => (Some(Order::Big), 2),
        [1..=0xff, 0, 1..=0xff, 0, ..] => (Some(Order::Little), 0),
        [0, 1..=0xff, 0, 1..=0xff, ..] => (Some(Order::Big), 0),
        _ => (None, 0),
    };
    text.consume(mark_bytes);
    Ok(match order {
        None => text,
        Some(order) => Box::new(BufReader::with_capacity(
            BUFFER_BYTES,
            Utf16 { text, order, utf8: Vec::new(), taken: 0, high: None },
        )),
    })
}

#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

/// UTF-16 that is read as UTF-8.
struct Utf16 {
    text: Box<dyn BufRead>,
    order: Order,
    utf8: Vec<u8>,
    taken: usize,
    /// The first half of a character.
    high: Option<u16>,
}

impl Utf16 {
    /// Decodes as much as is there; nothing at the end.
    fn decode(&mut self) -> io::Result<()> {
        (self.taken, _) = (0, self.utf8.clear());
        while self.utf8.is_empty() {
            let there = self.text.fill_buf()?;
            let (units, rest) = there.as_chunks::<2>();
            let bytes = there.len() - rest.len();
            let units: Vec<u16> = match (units, rest) {
                ([], []) => {
                    let units = Vec::from_iter(self.high.take());
                    push(&mut self.utf8, units);
                    return Ok(());
                }
                // A unit lies across two buffers.
                ([], _) => {
                    let mut unit = [0; 2];
                    self.text.read_exact(&mut unit).map_err(|error| match error.kind() {
                        io::ErrorKind::UnexpectedEof => {
                            io::Error::new(error.kind(), "cut off within a character of UTF-16")
                        }
                        _ => error,
                    })?;
                    vec![self.order.unit(unit)]
                }
                (units, _) => {
                    let units = units.iter().map(|unit| self.order.unit(*unit)).collect();
                    self.text.consume(bytes);
                    units
                }
            };
            let mut units: Vec<u16> = self.high.take().into_iter().chain(units).collect();
            self.high = units.pop_if(|last| (0xd800..0xdc00).contains(last));
            push(&mut self.utf8, units);
        }
        Ok(())
    }
}

impl Order {
    fn unit(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }
}

fn push(utf8: &mut Vec<u8>, units: Vec<u16>) {
    for character in char::decode_utf16(units) {
        let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
        utf8.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

impl Read for Utf16 {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.utf8.len() {
            self.decode()?;
        }
        let mut left = &self.utf8[self.taken..];
        let bytes = left.read(into)?;
        self.taken += bytes;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8], buffer_bytes: usize) -> io::Result<String> {
        let text = BufReader::with_capacity(buffer_bytes, io::Cursor::new(bytes.to_vec()));
        let mut found = String::new();
        decode_text(Box::new(text))?.read_to_string(&mut found).map(|_| found)
    }

    #[test]
    fn all_encodings_are_the_same_text() {
        let text = "a;b\r\n1;\u{e4}\u{1f600}\u{20ac}\n";
        let units = || text.encode_utf16();
        let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
        let marked = |mark: &[u8], text: &[u8]| [mark, text].concat();
        let all = [
            text.as_bytes().to_vec(),
            marked(b"\xef\xbb\xbf", text.as_bytes()),
            marked(b"\xff\xfe", &little),
            marked(b"\xfe\xff", &big),
            little.clone(),
            big,
        ];
        for bytes in &all {
            for buffer_bytes in [5, 7, 4096] {
                assert_eq!(decoded(bytes, buffer_bytes).unwrap(), text, "{bytes:?} {buffer_bytes}");
            }
        }
        let cut = decoded(&little[..little.len() - 1], 4096).unwrap_err();
        assert_eq!(cut.to_string(), "cut off within a character of UTF-16");
        assert_eq!(decoded(b"\xff\xfea\0\x3d\xd8", 4096).unwrap(), "a\u{fffd}");
        assert!(decoded(b"\xff\xfe\0\0a\0\0\0", 4096).unwrap_err().to_string().contains("UTF-32"));
        assert_eq!(decoded(b"", 4096).unwrap(), "");
    }
}
