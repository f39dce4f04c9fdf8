//! Addresses that an imported file names by itself.

use slimline_trace::address::Avma;
use slimline_trace::tables::{Name, NameKind, Names};

/// Names by address, variables and code apart.
#[derive(Clone, Debug, Default)]
pub struct NamedAddresses {
    variables: Vec<Name>,
    code: Vec<Name>,
}

impl NamedAddresses {
    /// Of a process's table. Rows without addresses name nothing.
    pub fn new(names: &Names) -> Self {
        let of_kind = |kind| {
            let mut rows: Vec<Name> = names.iter().filter(|row| row.kind == kind && row.start < row.end).collect();
            rows.sort_by_key(|row| row.start);
            rows
        };
        Self { variables: of_kind(NameKind::Variable), code: of_kind(NameKind::Code) }
    }

    /// The variable that an address is in.
    pub fn variable_at(&self, address: Avma) -> Option<&Name> {
        at(&self.variables, address)
    }

    /// What is said of the instruction at an address.
    pub fn code_at(&self, address: Avma) -> Option<&Name> {
        at(&self.code, address)
    }
}

fn at(rows: &[Name], address: Avma) -> Option<&Name> {
    let before = rows.partition_point(|row| row.start <= address).checked_sub(1)?;
    rows.get(before).filter(|row| address < row.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_their_kind_and_extent() {
        let mut names = Names::default();
        let mut push = |start, end, kind, name: &str| {
            let (start, end, name) = (Avma(start), Avma(end), name.to_owned());
            names.push(Name { start, end, kind, name, file: String::new(), line: 0 });
        };
        push(0x2000, 0x2010, NameKind::Variable, "b");
        push(0x1000, 0x1008, NameKind::Variable, "a");
        push(0x1000, 0x1001, NameKind::Code, "f");
        push(0x3000, 0x3000, NameKind::Variable, "nothing");
        let named = NamedAddresses::new(&names);
        let variable = |address| named.variable_at(Avma(address)).map(|row| row.name.as_str());
        assert_eq!(
            [0xfff, 0x1000, 0x1007, 0x1008, 0x200f, 0x3000].map(variable),
            [None, Some("a"), Some("a"), None, Some("b"), None]
        );
        let code = |address| named.code_at(Avma(address)).map(|row| row.name.as_str());
        assert_eq!((code(0x1000), code(0x1001), code(0x2000)), (Some("f"), None, None));
    }
}
