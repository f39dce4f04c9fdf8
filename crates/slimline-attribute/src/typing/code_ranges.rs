//! Which code an entry of debug information describes.

use gimli::{AttributeValue, constants as dw};

use super::debug_info::{DebugInfo, Entry, Unit};

impl<'a> DebugInfo<'a> {
    /// Link-time addresses of the code of an entry of a unit, each range with its end behind its beginning. What was thrown
    /// away by the linker begins at 0 and is left out, as is what can't be read.
    pub(super) fn code_ranges(&self, unit: u32, entry: &Entry<'a>) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let Some(parsed) = self.unit(unit).filter(|parsed| !self.ends_nowhere(unit, parsed, entry)) else {
            return found;
        };
        if let Ok(mut ranges) = self.dwarf_of(unit).die_ranges(parsed, entry) {
            while let Ok(Some(range)) = ranges.next() {
                if range.begin != 0 && range.begin < range.end {
                    found.push((range.begin, range.end));
                }
            }
        }
        found
    }

    /// Whether an entry's size reaches beyond all addresses: gimli adds it unchecked.
    fn ends_nowhere(&self, unit: u32, parsed: &Unit<'a>, entry: &Entry<'a>) -> bool {
        let Some(AttributeValue::Udata(bytes)) = entry.attr_value(dw::DW_AT_high_pc) else { return false };
        let start = entry.attr_value(dw::DW_AT_low_pc).map(|start| self.dwarf_of(unit).attr_address(parsed, start));
        matches!(start, Some(Ok(Some(start))) if start.checked_add(bytes).is_none())
    }
}
