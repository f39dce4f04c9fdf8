//! The static variables of a file as a site table: each one's declaration is a site, whose words say where it is.
//!
//! What a pointer was called that an instruction goes by does not say which variable it points to; where variables are does. So
//! they are told as blocks are that a program allocates, when their file is loaded.

use slimline_trace::address::{Avma, FileOffset, Svma};
use slimline_trace::stream::record::{Header, MAX_SEGMENT_WORDS, ModuleId};
use slimline_trace::stream::sites::{Frame, ModuleBuilder, Site, SiteKind};

use crate::module::bias::{FileMapping, Load, load_biases};
use crate::module::{Module, demangle};
use crate::typing::debug_info::DebugInfo;
use crate::typing::layout::TypeTable;
use crate::typing::statics::StaticVariable;

/// Variables that a record tells.
const RECORD_VARIABLES: usize = MAX_SEGMENT_WORDS / 2;
/// Bytes of the smallest mapping.
const PAGE_BYTES: u64 = 4096;

/// The static variables of one file.
pub struct StaticsTable {
    blob: Vec<u8>,
    module: ModuleId,
    /// Where each is in the file's own addresses, and its bytes; in the order of the sites.
    variables: Vec<(Svma, u64)>,
    loads: Vec<Load>,
}

impl StaticsTable {
    /// What debug information or, where that has none, symbols tell of a file's variables, those of threads left out; none where there
    /// are none.
    pub fn of(module: &Module<'_>) -> Option<Self> {
        let image = module.image()?;
        let mut types = TypeTable::new();
        let declared =
            module.debug().map(|debug| DebugInfo::of(debug).static_variables(&mut types)).unwrap_or_default();
        let mut table = ModuleBuilder::new();
        let mut found: Vec<(Svma, u64, Site)> = Vec::new();
        for StaticVariable { name, address, bytes, type_id, declared_at, .. } in declared {
            let frame = declared_at.map(|at| {
                let file = table.name(&at.file);
                table.frame(Frame { file, line: at.line, column: at.column, ..Frame::default() })
            });
            // Members are as instructions name them: compilers know better which bits of which union they are.
            let [variable, detail] = [&name, &types.rows()[type_id.index()].name].map(|text| table.name(text));
            found.push((address, bytes, Site { variable, detail, frame, ..Site::new(SiteKind::Static, 0) }));
        }
        for symbol in module.symbols().variables() {
            let variable = table.name(&demangle(as_declared(symbol.name)));
            found.push((symbol.start, symbol.bytes, Site { variable, ..Site::new(SiteKind::Static, 0) }));
        }
        // The first and the largest of those that share bytes; what is declared before its symbol, as the sort is stable.
        found.sort_by_key(|&(address, bytes, _)| (address, std::cmp::Reverse(bytes)));
        let mut end = 0;
        found.retain(|&(Svma(address), bytes, _)| {
            let is_apart = bytes > 0 && address >= end && address.checked_add(bytes).is_some();
            if is_apart {
                end = address + bytes;
            }
            is_apart
        });
        if found.is_empty() {
            return None;
        }
        for sites in found.chunks(RECORD_VARIABLES) {
            table.segment(sites.iter().map(|(.., site)| *site));
        }
        let (module, blob) = table.finish("", module.path(), "", "").encode();
        let variables = found.iter().map(|&(address, bytes, _)| (address, bytes)).collect();
        Some(Self { blob, module, variables, loads: image.loads().collect() })
    }

    /// The table, as it stands in [`SECTION`](slimline_trace::stream::sites::SECTION).
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// Records that say where they are in a process where byte `offset` of the file is at `start`; none where the file has no such byte.
    pub fn records(&self, start: u64, offset: u64) -> Option<Vec<u64>> {
        let mapping =
            FileMapping { start: Avma(start), end: Avma(start.checked_add(PAGE_BYTES)?), offset: FileOffset(offset) };
        let bias = load_biases(&[mapping], &self.loads).pop()??;
        let mut words = Vec::with_capacity(self.variables.len() * 2 + self.variables.len() / RECORD_VARIABLES + 1);
        for (segment, variables) in (0..).zip(self.variables.chunks(RECORD_VARIABLES)) {
            words.push(Header::new(self.module, segment).word());
            words.extend(variables.iter().flat_map(|&(Svma(address), bytes)| [address.wrapping_add(bias), bytes]));
        }
        Some(words)
    }
}

/// A symbol without the numbers that compilers append, to parts of variables and to those of functions: `TABLE.0`, `calls.1234`.
fn as_declared(symbol: &str) -> &str {
    match symbol.rsplit_once('.') {
        Some((name, number)) if !name.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => symbol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_behind_names_are_the_compilers() {
        let of = ["_ZN3app7TOUCHED17hf7c16ea5c88ddf68E.0", "calls.1234", "walk.calls", ".5", "table"];
        let declared = ["_ZN3app7TOUCHED17hf7c16ea5c88ddf68E", "calls", "walk.calls", ".5", "table"];
        assert_eq!(of.map(as_declared), declared);
    }
}
