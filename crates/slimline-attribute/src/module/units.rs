//! What debug information says of the whole of a module: who compiled what, and how.

use std::collections::BTreeMap;

use gimli::{AttributeValue, constants as dw};
use slimline_trace::path_text::text_of_bytes;

use super::debug::Debug;
use super::image::Slice;

/// The compilation units of a module, summed up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// Units that say their language, by its name in DWARF without `DW_LANG_` (`C11`, `Rust`).
    pub languages: BTreeMap<String, u64>,
    /// Units by what `DW_AT_producer` says: compiler, version, often its flags; not clang's command lines, which differ for each.
    pub producers: BTreeMap<String, u64>,
    /// Units whose content is in a `.dwo` file (`-gsplit-dwarf`) that is not there.
    pub lacking: u64,
}

/// What looks at a unit, and at where its compiler ran.
type Visit<'v, 'a> = dyn FnMut(&gimli::Dwarf<Slice<'a>>, &gimli::Unit<Slice<'a>>, Option<Slice<'a>>) + 'v;

/// A unit that a compiler made of a source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CompiledUnit {
    /// Where the compiler ran.
    pub directory: String,
    /// The source, as it was named there.
    pub file: String,
    /// What `DW_AT_producer` says.
    pub producer: String,
    /// By its name in DWARF without `DW_LANG_`.
    pub language: &'static str,
}

impl<'a> Debug<'a> {
    /// Looks at the outermost entry of each unit. What is damaged is left out.
    pub fn units(&self) -> Units {
        let mut units = Units::default();
        let lacking = self.each_unit(&mut |dwarf, unit, _| units.add(dwarf, unit));
        Units { lacking, ..units }
    }

    /// What each unit was made of, and by whom. Those that do not tell are left out.
    pub fn compiled_units(&self) -> Vec<CompiledUnit> {
        let mut found = Vec::new();
        self.each_unit(&mut |dwarf, unit, directory| found.extend(CompiledUnit::of(dwarf, unit, directory)));
        found
    }

    /// Hands on each unit, or the one in a `.dwo` file that it stands for, and where its compiler ran; how many of these files are not there.
    fn each_unit(&self, visit: &mut Visit<'_, 'a>) -> u64 {
        let mut lacking = 0;
        let dwarf = self.dwarf();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Ok(unit) = dwarf.unit(header) else { continue };
            if unit.dwo_id.is_none() {
                visit(dwarf, &unit, unit.comp_dir);
                continue;
            }
            let Some(split) = self.split_unit(&unit) else {
                lacking += 1;
                continue;
            };
            if let Ok(Some(header)) = split.units().next()
                && let Ok(own) = split.unit(header)
            {
                visit(&split, &own, unit.comp_dir);
            }
        }
        lacking
    }
}

impl CompiledUnit {
    fn of<'a>(
        dwarf: &gimli::Dwarf<Slice<'a>>,
        unit: &gimli::Unit<Slice<'a>>,
        directory: Option<Slice<'a>>,
    ) -> Option<Self> {
        let mut entries = unit.entries();
        let root = entries.next_dfs().ok()??;
        let text = |attribute| {
            let value = dwarf.attr_string(unit, root.attr_value(attribute)?).ok()?;
            Some(text_of_bytes(value.slice()).into_owned())
        };
        let Some(AttributeValue::Language(language)) = root.attr_value(dw::DW_AT_language) else { return None };
        Some(Self {
            directory: directory.map(|directory| text_of_bytes(directory.slice()).into_owned()).unwrap_or_default(),
            file: text(dw::DW_AT_name)?,
            producer: text(dw::DW_AT_producer).unwrap_or_default(),
            language: language_name(language),
        })
    }
}

fn language_name(language: gimli::DwLang) -> &'static str {
    language.static_string().unwrap_or("unknown").trim_start_matches("DW_LANG_")
}

/// What a producer says without the command line that clang writes behind it where it is asked to.
fn without_command(producer: &str) -> &str {
    match producer.find(" /") {
        Some(at) if producer[..at].contains("clang version") => &producer[..at],
        _ => producer,
    }
}

impl Units {
    fn add<'a>(&mut self, dwarf: &gimli::Dwarf<Slice<'a>>, unit: &gimli::Unit<Slice<'a>>) {
        let mut entries = unit.entries();
        let Ok(Some(root)) = entries.next_dfs() else { return };
        if let Some(AttributeValue::Language(language)) = root.attr_value(dw::DW_AT_language) {
            *self.languages.entry(language_name(language).to_owned()).or_default() += 1;
        }
        let producer = root.attr_value(dw::DW_AT_producer).and_then(|value| dwarf.attr_string(unit, value).ok());
        if let Some(producer) = producer {
            *self.producers.entry(without_command(&producer.to_string_lossy()).to_owned()).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::without_command;

    #[test]
    fn command_lines_of_clang_are_no_part_of_its_version() {
        let clang = "Debian clang version 19.1.7 (3~deb12u1)";
        assert_eq!(without_command(&format!("{clang} /usr/bin/clang -O2 a.c")), clang);
        assert_eq!(without_command(clang), clang);
        assert_eq!(without_command("GNU C17 12.2.0 -O2 -I /usr"), "GNU C17 12.2.0 -O2 -I /usr");
    }
}
