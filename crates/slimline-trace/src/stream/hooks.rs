//! Where records are written in code that has no site table: gcc tells of its accesses by calls of hooks, and what is
//! accessed there only the debug information of the linked file says.
//!
//! Such code has an entry for each of its segments in the section [`SECTION`], which linkers concatenate:
//!
//! ```text
//!    0 ┌──────────────────────────┐
//!      │ header of its records    │  u64, little-endian, as all numbers here
//!    8 │ place − address of this  │  i64: the code, relative to this word, so that nothing has to be relocated
//!   16 │ kind of its only site    │  u8
//!   17 │ flags                    │  u8: 1 atomic, 2 volatile
//!   18 │ bytes of the name        │  u16
//!   20 │ bytes of the access      │  u32
//!   24 │ name                     │  of the function that is called, if that says anything; zeros up to a multiple of 8
//!      └──────────────────────────┘
//! ```
//!
//! Who has the file's debug information makes site tables of it, as compilers do that know by themselves: then nobody
//! else needs to know of this section.

use twox_hash::XxHash64;

use super::record::{Header, ModuleId, SiteKind};

/// Name of the section.
pub const SECTION: &str = "slimline_hooks";
/// The access is atomic.
pub const ATOMIC: u8 = 1;
/// The access is volatile.
pub const VOLATILE: u8 = 2;
/// Bytes of an entry before its name.
const HEAD_BYTES: usize = 24;

/// A segment of such code; it has one site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hook<'a> {
    /// What its records begin with.
    pub header: Header,
    /// Its code, as linked: an instruction whose memory operand is what is accessed; of a call that gives out a block where
    /// it returns to.
    pub place: u64,
    /// What it does.
    pub kind: SiteKind,
    /// Whether atomically.
    pub is_atomic: bool,
    /// Whether it is volatile.
    pub is_volatile: bool,
    /// Bytes of the access; 0 where words say it.
    pub size_bytes: u32,
    /// The function that is called, if that says anything.
    pub detail: &'a str,
}

/// The section holds something else from this byte on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("byte {0} of section {SECTION} is of no hook")]
pub struct HooksError(pub usize);

/// The module of a unit with hooks: of its code before they were put into it.
pub fn module_of(code: &[u8]) -> ModuleId {
    ModuleId::from_hash(XxHash64::oneshot(0, code))
}

/// The entries of a section that is linked to `address`.
pub fn read_section(section: &[u8], address: u64) -> Result<Vec<Hook<'_>>, HooksError> {
    let mut hooks = Vec::new();
    let mut at = 0;
    while let Some(rest) = section.get(at..).filter(|rest| !rest.is_empty()) {
        // Linkers fill with zeros between what objects bring; a header's last byte is not zero.
        if rest.iter().take(8).all(|byte| *byte == 0) {
            at += rest.len().min(8);
            continue;
        }
        let (hook, bytes) = hook(rest, address.wrapping_add(at as u64)).ok_or(HooksError(at))?;
        hooks.push(hook);
        at += bytes;
    }
    Ok(hooks)
}

/// The entry at this address, and how many bytes it has.
fn hook(bytes: &[u8], address: u64) -> Option<(Hook<'_>, usize)> {
    let head = bytes.first_chunk::<HEAD_BYTES>()?;
    let number = |from: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[from + byte]));
    let [kind, flags, low, high] = *head[16..].first_chunk()?;
    let name_bytes = usize::from(u16::from_le_bytes([low, high]));
    let hook = Hook {
        header: Header::from_word(number(0))?,
        place: address.wrapping_add(8).wrapping_add(number(8)),
        kind: SiteKind::from_number(kind)?,
        is_atomic: flags & ATOMIC != 0,
        is_volatile: flags & VOLATILE != 0,
        size_bytes: (number(16) >> 32) as u32,
        detail: std::str::from_utf8(bytes.get(HEAD_BYTES..HEAD_BYTES + name_bytes)?).ok()?,
    };
    (flags & !(ATOMIC | VOLATILE) == 0).then_some((hook, (HEAD_BYTES + name_bytes).next_multiple_of(8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(header: u64, distance: i64, kind: u8, flags: u8, size_bytes: u32, name: &str) -> Vec<u8> {
        let mut entry = [header.to_le_bytes(), distance.to_le_bytes()].concat();
        entry.extend([kind, flags]);
        entry.extend((name.len() as u16).to_le_bytes());
        entry.extend(size_bytes.to_le_bytes());
        entry.extend(name.bytes());
        entry.resize(entry.len().next_multiple_of(8), 0);
        entry
    }

    #[test]
    fn entries_are_read_where_they_lie() {
        let header = Header::new(module_of(b"code"), 7);
        let one = entry(header.word(), -0x1000, 1, 3, 12, "");
        let other = entry(header.word() + 1, 0x20, 9, 0, 0, "malloc");
        let section = [&one[..], &[0; 16], &other, &[0; 8]].concat();
        let hooks = read_section(&section, 0x5000).unwrap();
        let first = Hook {
            header,
            place: 0x4008,
            kind: SiteKind::Store,
            is_atomic: true,
            is_volatile: true,
            size_bytes: 12,
            detail: "",
        };
        let place = 0x5000 + 24 + 16 + 8 + 0x20;
        let second = Hook {
            header: Header::from_word(header.word() + 1).unwrap(),
            place,
            kind: SiteKind::Allocate,
            is_atomic: false,
            is_volatile: false,
            size_bytes: 0,
            detail: "malloc",
        };
        assert_eq!(hooks, [first, second]);
        assert_eq!(read_section(&[], 0), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        let header = Header::new(module_of(b""), 0).word();
        let good = entry(header, 0, 0, 0, 4, "");
        for bad in [
            entry(1, 0, 0, 0, 4, ""),
            entry(header, 0, 200, 0, 4, ""),
            entry(header, 0, 0, 4, 4, ""),
            good[..23].to_vec(),
            entry(header, 0, 9, 0, 0, "malloc")[..25].to_vec(),
        ] {
            assert_eq!(read_section(&[&good[..], &bad].concat(), 0), Err(HooksError(24)), "{bad:?}");
        }
    }
}
