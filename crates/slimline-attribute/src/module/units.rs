//! What debug information says of the whole of a module: who compiled what, and how.

use std::collections::BTreeMap;

use gimli::{AttributeValue, constants as dw};

use super::debug::Debug;

/// The compilation units of a module, summed up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// Units that say their language, by its name in DWARF without `DW_LANG_` (`C11`, `Rust`).
    pub languages: BTreeMap<String, u64>,
    /// Units by what `DW_AT_producer` says: compiler, version, often its flags.
    pub producers: BTreeMap<String, u64>,
    /// Units whose content is in a `.dwo` file (`-gsplit-dwarf`).
    pub split: u64,
}

impl Debug<'_> {
    /// Looks at the outermost entry of each unit. What is damaged is left out.
    pub fn units(&self) -> Units {
        let mut units = Units::default();
        let dwarf = self.dwarf();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Ok(unit) = dwarf.unit(header) else { continue };
            let mut entries = unit.entries();
            let Ok(Some(root)) = entries.next_dfs() else { continue };
            let text = |attribute| {
                let string = dwarf.attr_string(&unit, root.attr_value(attribute)?).ok()?;
                Some(string.to_string_lossy().into_owned())
            };
            if let Some(AttributeValue::Language(language)) = root.attr_value(dw::DW_AT_language) {
                let name = language.static_string().unwrap_or("unknown").trim_start_matches("DW_LANG_");
                *units.languages.entry(name.to_owned()).or_default() += 1;
            }
            if let Some(producer) = text(dw::DW_AT_producer) {
                *units.producers.entry(producer).or_default() += 1;
            }
            let is_split = [dw::DW_AT_dwo_name, dw::DW_AT_GNU_dwo_name].iter().any(|&name| root.attr(name).is_some());
            units.split += u64::from(is_split);
        }
        units
    }
}
