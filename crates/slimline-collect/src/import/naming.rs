//! Names that a file gives by itself, and the addresses that stand for them.

use std::collections::HashMap;

use slimline_trace::address::Avma;
use slimline_trace::tables::{Name, NameKind, Names};

/// Bits of an address below those that tell variables apart. User space has fewer on all machines but those with five-level
/// page tables, whose programs get more only where they ask for it.
const ADDRESS_BITS: u32 = 48;
/// Variables that can be told apart.
const MOST_VARIABLES: usize = (1 << (64 - ADDRESS_BITS)) - 1;
/// Distance of the addresses that stand for lines.
const LINE_BYTES: u64 = 16;

/// The names of one process.
#[derive(Debug, Default)]
pub(super) struct Naming {
    rows: Names,
    variables: HashMap<String, usize>,
    code: HashMap<CodeKey, usize>,
    lines: u64,
}

/// Code is told apart by its address, or where there is none by what is said of it.
#[derive(Debug, PartialEq, Eq, Hash)]
enum CodeKey {
    At(u64),
    Line(Code),
}

/// What is said of an instruction; empty or 0 for what is not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Code {
    pub(super) function: String,
    pub(super) file: String,
    pub(super) line: u32,
}

impl Naming {
    /// The table.
    pub(super) fn rows(&self) -> &Names {
        &self.rows
    }

    /// The address that stands for this place of a variable: below what tells variables apart it is `address`, which may as
    /// well be an offset. A place of 0 `bytes`, which nobody told, takes one. `None` where there are too many variables.
    pub(super) fn variable(&mut self, name: &str, address: u64, bytes: u64) -> Option<u64> {
        let row = match self.variables.get(name) {
            Some(&row) => row,
            None if self.variables.len() >= MOST_VARIABLES => return None,
            None => {
                let row = self.rows.len();
                self.variables.insert(name.to_owned(), row);
                let start = Avma(self.tagged(self.variables.len() as u64, address));
                let (kind, name, file) = (NameKind::Variable, name.to_owned(), String::new());
                self.rows.push(Name { start, end: start, kind, name, file, line: 0 });
                row
            }
        };
        let tag = self.rows.start[row].0 >> ADDRESS_BITS;
        let start = self.tagged(tag, address);
        let end = start.saturating_add(bytes.max(1));
        self.rows.start[row] = self.rows.start[row].min(Avma(start));
        self.rows.end[row] = self.rows.end[row].max(Avma(end));
        Some(start)
    }

    fn tagged(&self, tag: u64, address: u64) -> u64 {
        tag << ADDRESS_BITS | address & ((1 << ADDRESS_BITS) - 1)
    }

    /// The address that stands for code: its own where that is told; 0 where nothing is.
    pub(super) fn code(&mut self, ip: Option<u64>, code: Code) -> u64 {
        if code == Code::default() {
            return ip.unwrap_or(0);
        }
        let key = ip.map_or_else(|| CodeKey::Line(code.clone()), CodeKey::At);
        if let Some(&row) = self.code.get(&key) {
            return self.rows.start[row].0;
        }
        self.code.insert(key, self.rows.len());
        let start = ip.unwrap_or_else(|| {
            self.lines += 1;
            self.lines * LINE_BYTES
        });
        let Code { function, file, line } = code;
        let (start, end) = (Avma(start), Avma(start.saturating_add(1)));
        self.rows.push(Name { start, end, kind: NameKind::Code, name: function, file, line });
        start.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_stay_apart_whatever_their_addresses() {
        let mut naming = Naming::default();
        let first = naming.variable("a", 0x7f00_0000_1000, 8).unwrap();
        let same_place = naming.variable("b", 0x7f00_0000_1000, 8).unwrap();
        let later = naming.variable("a", 0x7f00_0000_1010, 4).unwrap();
        let earlier = naming.variable("a", 0x7f00_0000_0ff8, 0).unwrap();
        assert_ne!(first, same_place);
        assert_eq!((later - first, first - earlier), (0x10, 8));
        let rows: Vec<_> = naming.rows().iter().map(|row| (row.name, row.start.0, row.end.0)).collect();
        let expected = [("a".to_owned(), earlier, later + 4), ("b".to_owned(), same_place, same_place + 8)];
        assert_eq!(rows, expected);
    }

    #[test]
    fn variables_beyond_those_that_addresses_tell_apart_have_none() {
        let mut naming = Naming::default();
        assert!((0..MOST_VARIABLES).all(|number| naming.variable(&number.to_string(), 8, 8).is_some()));
        assert_eq!(naming.variable("another", 8, 8), None);
        assert!(naming.variable("7", 16, 8).is_some(), "known already");
    }

    #[test]
    fn code_is_what_is_said_of_it() {
        let mut naming = Naming::default();
        let line = |line| Code { file: "a.c".to_owned(), line, ..Code::default() };
        let first = naming.code(None, line(7));
        assert_eq!(naming.code(None, line(7)), first);
        assert_ne!(naming.code(None, line(8)), first);
        assert_eq!(naming.code(Some(0x40_1000), line(7)), 0x40_1000);
        assert_eq!((naming.code(None, Code::default()), naming.code(Some(9), Code::default())), (0, 9));
        assert_eq!(naming.rows().len(), 3);
    }
}
