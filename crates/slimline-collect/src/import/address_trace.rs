//! Traces of addresses as text: Valgrind's lackey (`--trace-mem=yes`) and Dinero's `din`.
//!
//! They are read to their end in one pass, whatever their size, and make no session: they name no thread, no instruction
//! and no data.

use std::io::{self, BufRead, Read};

use super::input::{Input, decode_text};

/// Handed on together.
const BATCH: usize = 1 << 12;
/// Longest line. Those of a program that writes between them may be any.
const MOST_LINE_BYTES: u64 = 4096;
/// Bytes of an access: more than any instruction's.
pub(super) const MOST_BYTES: u32 = 4096;
/// Dinero's traces tell no sizes; it takes this.
const DIN_BYTES: u32 = 4;

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressFormat {
    /// ` L 1ffeffe7d0,8`: load, store (S), modify (M), instruction (I), address, size.
    Lackey,
    /// `0 1ffeffe7d0`: read, write (1), instruction fetch (2), address.
    Din,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedKind {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads, then writes.
    Modify,
    /// Fetches an instruction.
    Fetch,
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedAccess {
    /// Its first byte.
    pub address: u64,
    /// How many.
    pub bytes: u32,
    /// What it does.
    pub kind: TracedKind,
}

/// A trace that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressesRead {
    /// How it is written.
    pub format: AddressFormat,
    /// Labels of din that are no accesses: escape records, and flushes of the cache. They are passed over.
    pub passed_over: u64,
}

/// Why such a trace can't be read. Each displays as one line without the file's name.
#[derive(Debug, thiserror::Error)]
pub enum AddressTraceError {
    /// The file can't be opened or read.
    #[error("{0}")]
    Read(io::Error),
    /// The first line is of neither format.
    #[error(
        "line {line}: neither Valgrind's lackey (` L 1ffeffe7d0,8`) nor Dinero's din (`0 1ffeffe7d0`): {text:?} (--columns says what a \
         table's columns are)"
    )]
    Unknown {
        /// Its number, from 1.
        line: u64,
        /// How it begins.
        text: String,
    },
    /// A line is not as the others.
    #[error("line {line}: {reason}: {text:?}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong.
        reason: &'static str,
        /// How it begins.
        text: String,
    },
    /// It is what could be traced.
    #[error(
        "a program, and no trace of one: compile it with slimline cc or slimline cargo, and have its accesses written by \
         slimline trace -o DIR -- COMMAND"
    )]
    Program,
    /// There is no access in it.
    #[error("holds no access{0}")]
    Empty(&'static str),
}

/// Reads a trace to its end, and hands its accesses on in their order. Its first line tells its format, where `format` does not.
///
/// # Errors
/// The trace can't be read, a line can't be, or none is an access.
pub fn read_addresses(
    input: Input,
    format: Option<AddressFormat>,
    take: &mut dyn FnMut(&[TracedAccess]),
) -> Result<AddressesRead, AddressTraceError> {
    read(decode_text(input.into_stream()).map_err(AddressTraceError::Read)?, format, take)
}

fn read(
    mut input: impl BufRead,
    mut format: Option<AddressFormat>,
    take: &mut dyn FnMut(&[TracedAccess]),
) -> Result<AddressesRead, AddressTraceError> {
    let mut batch = Vec::with_capacity(BATCH);
    let mut text = Vec::new();
    let (mut is_empty, mut passed_over) = (true, 0);
    for line in 1.. {
        text.clear();
        let bytes =
            input.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut text).map_err(AddressTraceError::Read)?;
        if bytes == 0 {
            break;
        }
        if line == 1 && text.starts_with(b"\x7fELF") {
            return Err(AddressTraceError::Program);
        }
        let wrong = |reason| AddressTraceError::Line { line, reason, text: beginning(&text) };
        if bytes as u64 == MOST_LINE_BYTES && !text.ends_with(b"\n") {
            return Err(wrong("longer than any access"));
        }
        let told = text.trim_ascii();
        // Valgrind's own lines.
        if told.is_empty() || [&b"=="[..], b"--", b"###"].iter().any(|own| told.starts_with(own)) {
            continue;
        }
        let known = match format {
            Some(format) => format,
            None => guess(told).ok_or_else(|| AddressTraceError::Unknown { line, text: beginning(&text) })?,
        };
        format = Some(known);
        let access = match known {
            AddressFormat::Lackey => lackey(told).map(Some),
            AddressFormat::Din => din(told),
        };
        let Some(access) = access.map_err(wrong)? else {
            passed_over += 1;
            continue;
        };
        batch.push(access);
        is_empty = false;
        if batch.len() == BATCH {
            take(&batch);
            batch.clear();
        }
    }
    if !batch.is_empty() {
        take(&batch);
    }
    match format {
        Some(format) if !is_empty => Ok(AddressesRead { format, passed_over }),
        _ => Err(AddressTraceError::Empty(" (lackey writes them with --trace-mem=yes)")),
    }
}

/// What of a line is shown.
fn beginning(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(60)]).trim_end().to_owned()
}

fn guess(line: &[u8]) -> Option<AddressFormat> {
    match line {
        [b'I' | b'L' | b'S' | b'M', b' ', ..] => Some(AddressFormat::Lackey),
        [b'0'..=b'4', b' ' | b'\t', ..] => Some(AddressFormat::Din),
        _ => None,
    }
}

fn lackey(line: &[u8]) -> Result<TracedAccess, &'static str> {
    let (kind, place) = match line {
        [kind, b' ', place @ ..] => (*kind, place.trim_ascii_start()),
        _ => return Err("not an access as lackey writes it (a program's own output? see --log-file of valgrind)"),
    };
    let kind = match kind {
        b'I' => TracedKind::Fetch,
        b'L' => TracedKind::Load,
        b'S' => TracedKind::Store,
        b'M' => TracedKind::Modify,
        _ => return Err("not an access as lackey writes it (a program's own output? see --log-file of valgrind)"),
    };
    let comma = place.iter().position(|&byte| byte == b',').ok_or("no size behind a comma")?;
    let address = hexadecimal(&place[..comma])?;
    let digits = &place[comma + 1..];
    let bytes =
        std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or("no size behind a comma")?;
    if bytes == 0 || bytes > MOST_BYTES {
        return Err("a size that no access has");
    }
    Ok(TracedAccess { address, bytes, kind })
}

/// `None` of a label that is no access.
fn din(line: &[u8]) -> Result<Option<TracedAccess>, &'static str> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let kind = match words.next() {
        Some(b"0") => TracedKind::Load,
        Some(b"1") => TracedKind::Store,
        Some(b"2") => TracedKind::Fetch,
        // Escape records, and flushes of the cache.
        Some(b"3" | b"4") => return Ok(None),
        _ => return Err("no label of din (0 read, 1 write, 2 instruction fetch)"),
    };
    let address = hexadecimal(words.next().ok_or("no address")?)?;
    Ok(Some(TracedAccess { address, bytes: DIN_BYTES, kind }))
}

fn hexadecimal(digits: &[u8]) -> Result<u64, &'static str> {
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    if digits.is_empty() || digits.len() > 16 {
        return Err("an address of more than 16 digits, or of none");
    }
    digits.iter().try_fold(0_u64, |address, &digit| {
        let value = (digit as char).to_digit(16).ok_or("an address that is not hexadecimal")?;
        Ok(address << 4 | u64::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accesses(text: &str, format: Option<AddressFormat>) -> Result<(AddressFormat, Vec<TracedAccess>), String> {
        let mut found = Vec::new();
        let format = read(text.as_bytes(), format, &mut |batch| found.extend_from_slice(batch));
        format.map(|read| (read.format, found)).map_err(|error| error.to_string())
    }

    fn access(kind: TracedKind, address: u64, bytes: u32) -> TracedAccess {
        TracedAccess { address, bytes, kind }
    }

    #[test]
    fn lackey_is_read_as_valgrind_writes_it() {
        let text = "==12== Lackey, an example Valgrind tool\n### unhandled form\n\nI  04025310,3\n L 1ffeffe7d0,8\n S 00000010,4\r\n M 20,1";
        let expected = vec![
            access(TracedKind::Fetch, 0x402_5310, 3),
            access(TracedKind::Load, 0x1f_feff_e7d0, 8),
            access(TracedKind::Store, 0x10, 4),
            access(TracedKind::Modify, 0x20, 1),
        ];
        assert_eq!(accesses(text, None), Ok((AddressFormat::Lackey, expected)));
    }

    #[test]
    fn din_is_read_as_dinero_reads_it() {
        let text = "2 430d70\n0 0x7fffcca8 anything\n1 10\n3 0\n4 0\n";
        let expected = vec![
            access(TracedKind::Fetch, 0x43_0d70, 4),
            access(TracedKind::Load, 0x7fff_cca8, 4),
            access(TracedKind::Store, 0x10, 4),
        ];
        assert_eq!(accesses(text, None), Ok((AddressFormat::Din, expected)));
    }

    #[test]
    fn labels_that_are_no_accesses_are_counted() {
        let read = read(&b"0 10\n3 0\n4 0\n4 0\n"[..], None, &mut |_| ()).unwrap();
        assert_eq!(read, AddressesRead { format: AddressFormat::Din, passed_over: 3 });
    }

    #[test]
    fn many_accesses_come_in_their_order() {
        let text: String = (0..10_000).map(|n| format!(" L {n:x},8\n")).collect();
        let found = accesses(&text, Some(AddressFormat::Lackey)).unwrap().1;
        assert!(found.iter().map(|access| access.address).eq(0..10_000));
    }

    #[test]
    fn what_is_wrong_is_told_by_line() {
        let cases = [
            ("", "holds no access (lackey writes them with --trace-mem=yes)"),
            ("==1== x\n", "holds no access (lackey writes them with --trace-mem=yes)"),
            ("3 0\n", "holds no access (lackey writes them with --trace-mem=yes)"),
            ("\x7fELF\u{2}\u{1}\n 3", "a program, and no trace of one: compile it with slimline cc"),
            (
                "hello\n",
                "line 1: neither Valgrind's lackey (` L 1ffeffe7d0,8`) nor Dinero's din (`0 1ffeffe7d0`): \"hello\" (--columns says",
            ),
            (" L 10,4\nhello\n", "line 2: not an access as lackey writes it"),
            (" L 10\n", "line 1: no size behind a comma: \" L 10\""),
            (" L 10,x\n", "line 1: no size behind a comma"),
            (" L 10,0\n", "line 1: a size that no access has"),
            (" L 10,4294967295\n", "line 1: a size that no access has"),
            (" L ,4\n", "line 1: an address of more than 16 digits, or of none"),
            (" L 12345678901234567,4\n", "line 1: an address of more than 16 digits, or of none"),
            (" L xyz,4\n", "line 1: an address that is not hexadecimal"),
            ("0 10\n0\n", "line 2: no address"),
            ("0 10\n7 10\n", "line 2: no label of din"),
        ];
        for (text, message) in cases {
            let error = accesses(text, None).unwrap_err();
            assert!(error.starts_with(message), "{text:?}: {error}");
        }
        let endless = accesses(&" ".repeat(1 << 20), None).unwrap_err();
        assert!(endless.starts_with("line 1: longer than any access"), "{endless}");
        assert!(accesses("0 10\n", Some(AddressFormat::Lackey)).unwrap_err().starts_with("line 1: not an access"));
    }
}
