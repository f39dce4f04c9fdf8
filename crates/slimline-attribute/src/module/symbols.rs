//! Functions and variables by address, from the symbol tables.

use object::elf;
use slimline_trace::address::Svma;

use super::image::Image;

/// A function that a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// First address.
    pub start: Svma,
    /// Address after the last; where the symbol has no size, that of the next symbol or the end of its section.
    pub end: Svma,
    /// Whether the symbol has a size.
    pub sized: bool,
    /// Name as linked.
    pub name: &'a str,
}

/// A variable that a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable<'a> {
    /// Address; of a thread-local one, its offset in the module's block of thread-local storage.
    pub start: Svma,
    /// Size; 0 where the symbol has none.
    pub bytes: u64,
    /// Name as linked.
    pub name: &'a str,
}

/// The symbol tables of a module (and of its debug file), in order of address, one name an address.
#[derive(Default)]
pub struct Symbols<'a> {
    functions: Vec<Function<'a>>,
    variables: Vec<Variable<'a>>,
    thread_locals: Vec<Variable<'a>>,
}

impl<'a> Symbols<'a> {
    /// Reads all tables of `images`; where several name one address, a global name wins over a weak one over a local
    /// one, and the earlier over the later.
    pub fn read<'i>(images: impl Iterator<Item = &'i Image<'a>>) -> Self
    where
        'a: 'i,
    {
        let mut functions = Vec::new();
        let mut variables = Vec::new();
        let mut thread_locals = Vec::new();
        for image in images {
            image.for_each_symbol(|symbol| {
                let rank = match symbol.binding {
                    elf::STB_GLOBAL => 0_u8,
                    elf::STB_WEAK => 1,
                    _ => 2,
                };
                let row = (symbol.address, rank, symbol.bytes, symbol.name, symbol.section_end);
                match symbol.kind {
                    elf::STT_FUNC | elf::STT_GNU_IFUNC => functions.push(row),
                    elf::STT_NOTYPE if symbol.executable => functions.push(row),
                    elf::STT_OBJECT | elf::STT_COMMON => variables.push(row),
                    elf::STT_TLS => thread_locals.push(row),
                    _ => {}
                }
            });
        }
        Self {
            functions: as_functions(functions),
            variables: as_variables(variables),
            thread_locals: as_variables(thread_locals),
        }
    }

    /// The function whose extent covers an address.
    pub fn function_at(&self, svma: Svma) -> Option<&Function<'a>> {
        let after = self.functions.partition_point(|function| function.start <= svma);
        // A small function may lie inside the extent of a bigger one (hand-written code, outlined parts).
        self.functions[..after].iter().rev().take(4).find(|function| svma < function.end)
    }

    /// The variable whose extent covers an address. A variable without size covers its first byte only.
    pub fn variable_at(&self, svma: Svma) -> Option<&Variable<'a>> {
        covering(&self.variables, svma)
    }

    /// The thread-local variable at an offset in the module's block.
    pub fn thread_local_at(&self, offset: Svma) -> Option<&Variable<'a>> {
        covering(&self.thread_locals, offset)
    }

    /// The part of `start..end` around an address that no variable covers.
    pub fn gap_at(&self, svma: Svma, start: Svma, end: Svma) -> (Svma, Svma) {
        gap(&self.variables, svma, start, end)
    }

    /// The same in the module's block of thread-local storage.
    pub fn thread_local_gap_at(&self, offset: Svma, end: Svma) -> (Svma, Svma) {
        gap(&self.thread_locals, offset, Svma(0), end)
    }

    /// All variables, in order of address.
    pub fn variables(&self) -> &[Variable<'a>] {
        &self.variables
    }

    /// All thread-local variables, likewise.
    pub fn thread_locals(&self) -> &[Variable<'a>] {
        &self.thread_locals
    }
}

fn gap(variables: &[Variable<'_>], svma: Svma, start: Svma, end: Svma) -> (Svma, Svma) {
    let after = variables.partition_point(|variable| variable.start <= svma);
    let next = variables.get(after).map_or(end, |variable| variable.start.min(end));
    let before = variables[..after].iter().rev().take(4);
    let previous = before.map(|variable| Svma(variable.start.0.saturating_add(variable.bytes.max(1)))).max();
    (previous.map_or(start, |previous| previous.max(start)), next)
}

fn covering<'s, 'a>(variables: &'s [Variable<'a>], svma: Svma) -> Option<&'s Variable<'a>> {
    let after = variables.partition_point(|variable| variable.start <= svma);
    variables[..after].iter().rev().take(4).find(|variable| svma.0 - variable.start.0 < variable.bytes.max(1))
}

/// (address, rank of the binding, size, name, end of the section)
type Row<'a> = (u64, u8, u64, &'a str, u64);

fn one_an_address(rows: &mut Vec<Row<'_>>) {
    // A sized symbol says more than one without size; the sort is stable, so the earlier file wins among equals.
    rows.sort_by_key(|&(address, rank, bytes, ..)| (address, bytes == 0, rank));
    rows.dedup_by_key(|row| row.0);
}

fn as_functions(mut rows: Vec<Row<'_>>) -> Vec<Function<'_>> {
    one_an_address(&mut rows);
    let next: Vec<u64> = rows.iter().skip(1).map(|row| row.0).chain([u64::MAX]).collect();
    rows.iter()
        .zip(next)
        .map(|(&(address, _, bytes, name, section_end), next)| Function {
            start: Svma(address),
            end: Svma(if bytes == 0 { next.min(section_end) } else { address.saturating_add(bytes) }),
            sized: bytes != 0,
            name,
        })
        .collect()
}

fn as_variables(mut rows: Vec<Row<'_>>) -> Vec<Variable<'_>> {
    one_an_address(&mut rows);
    rows.iter().map(|&(address, _, bytes, name, _)| Variable { start: Svma(address), bytes, name }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_without_size_end_at_the_next_symbol_or_the_section() {
        let rows = vec![
            (0x1000, 2, 0, "local_alias", 0x2000),
            (0x1000, 0, 0x20, "sized", 0x2000),
            (0x1040, 0, 0, "open", 0x2000),
            (0x1080, 0, 0, "last", 0x2000),
        ];
        let symbols = Symbols { functions: as_functions(rows), ..Symbols::default() };
        let name = |svma| symbols.function_at(Svma(svma)).map(|function| function.name);
        assert_eq!(name(0xfff), None);
        assert_eq!(name(0x101f), Some("sized"));
        assert_eq!(name(0x1020), None);
        assert_eq!(name(0x107f), Some("open"));
        assert_eq!(name(0x1fff), Some("last"));
        assert_eq!(name(0x2000), None);
    }

    #[test]
    fn variables_cover_their_size() {
        let rows = vec![(0x4000, 0, 16, "table", 0), (0x4010, 2, 0, "mark", 0), (0x4020, 2, 4, "count", 0)];
        let symbols = Symbols { variables: as_variables(rows), ..Symbols::default() };
        let name = |svma| symbols.variable_at(Svma(svma)).map(|variable| variable.name);
        assert_eq!(name(0x400f), Some("table"));
        assert_eq!(name(0x4010), Some("mark"));
        assert_eq!(name(0x4011), None);
        assert_eq!(name(0x4023), Some("count"));
    }
}
