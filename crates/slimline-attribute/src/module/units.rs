//! What debug information says of the whole of a module: who compiled what, and how.

use std::collections::BTreeMap;

use gimli::{AttributeValue, constants as dw};

use super::debug::Debug;
use super::image::Slice;

/// The compilation units of a module, summed up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// Units that say their language, by its name in DWARF without `DW_LANG_` (`C11`, `Rust`).
    pub languages: BTreeMap<String, u64>,
    /// Units by what `DW_AT_producer` says: compiler, version, often its flags.
    pub producers: BTreeMap<String, u64>,
    /// Units whose content is in a `.dwo` file (`-gsplit-dwarf`) that is not there.
    pub lacking: u64,
}

impl Debug<'_> {
    /// Looks at the outermost entry of each unit. What is damaged is left out.
    pub fn units(&self) -> Units {
        let mut units = Units::default();
        let dwarf = self.dwarf();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Ok(unit) = dwarf.unit(header) else { continue };
            if unit.dwo_id.is_none() {
                units.add(dwarf, &unit);
                continue;
            }
            let Some(split) = self.split_unit(&unit) else {
                units.lacking += 1;
                continue;
            };
            if let Ok(Some(header)) = split.units().next()
                && let Ok(unit) = split.unit(header)
            {
                units.add(&split, &unit);
            }
        }
        units
    }
}

impl Units {
    fn add<'a>(&mut self, dwarf: &gimli::Dwarf<Slice<'a>>, unit: &gimli::Unit<Slice<'a>>) {
        let mut entries = unit.entries();
        let Ok(Some(root)) = entries.next_dfs() else { return };
        if let Some(AttributeValue::Language(language)) = root.attr_value(dw::DW_AT_language) {
            let name = language.static_string().unwrap_or("unknown").trim_start_matches("DW_LANG_");
            *self.languages.entry(name.to_owned()).or_default() += 1;
        }
        let producer = root.attr_value(dw::DW_AT_producer).and_then(|value| dwarf.attr_string(unit, value).ok());
        if let Some(producer) = producer {
            *self.producers.entry(producer.to_string_lossy().into_owned()).or_default() += 1;
        }
    }
}
