//! Virtual tables of C++ classes that have virtual bases (Itanium C++ ABI, 2.5): where these lie in an object that is of just
//! that class.
//!
//! ```text
//!   _ZTV… ┌──────────────────────────────┐
//!         │ offsets of virtual bases     │  from what points here; debug information says in which word
//!         │ offset to the object's begin │  0, or minus where in the object the base lies that points here
//!         │ typeinfo: _ZTI…              │
//!         ├──────────────────────────────┤  address point: what the pointer in the object, or in its base, holds
//!         │ functions                    │
//!         └ … for further bases ─────────┘
//! ```

use rustc_hash::FxHashMap;
use slimline_trace::address::Svma;

use super::demangled::demangle;
use super::image::{Image, Relocated};
use super::symbols::Symbols;

const WORD_BYTES: u64 = 8;
/// Larger ones are damage.
const MOST_BYTES: u64 = 1 << 16;

/// The tables of a module, by the class's name.
#[derive(Debug, Default)]
pub struct VirtualTables {
    /// `None` where several classes have the name.
    classes: FxHashMap<String, Option<VirtualTable>>,
}

/// Of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualTable {
    words: Vec<i64>,
    /// Where in the object a base lies, and the word that its pointer points to.
    points: Vec<(u64, usize)>,
}

impl VirtualTables {
    /// Those of `image` that `symbols` name.
    pub fn read(image: &Image<'_>, symbols: &Symbols<'_>) -> Self {
        let tables = symbols.variables().iter().filter_map(|variable| {
            let class = variable.name.strip_prefix("_ZTV")?;
            let bytes = usize::try_from(variable.bytes).ok().filter(|_| variable.bytes <= MOST_BYTES)?;
            let words: Vec<i64> = words(image.bytes_from(variable.start).get(..bytes)?).collect();
            // Those without virtual bases begin with the offset of the object to itself.
            words.first().is_some_and(|&first| first != 0).then_some((class, variable.start, words))
        });
        let tables: Vec<_> = tables.collect();
        let mut read = Self::default();
        if tables.is_empty() {
            return read;
        }
        let typeinfos: FxHashMap<&str, Svma> = symbols
            .variables()
            .iter()
            .filter_map(|variable| Some((variable.name.strip_prefix("_ZTI")?, variable.start)))
            .collect();
        for (class, start, words) in tables {
            let Some(&typeinfo) = typeinfos.get(class) else { continue };
            let is_typeinfo = |number: usize| {
                let slot = Svma(start.0.saturating_add(number as u64 * WORD_BYTES));
                match image.relocated(slot) {
                    // Of a library: whoever defines it first. They are all alike.
                    Some(Relocated::Import(name)) => name.strip_prefix("_ZTI") == Some(class),
                    _ => image.pointer_at(slot) == Some(typeinfo),
                }
            };
            let table = VirtualTable::of(words, is_typeinfo);
            if let (Some(name), Some(table)) = (class_name(class), table) {
                read.classes.entry(name).and_modify(|known| *known = None).or_insert(Some(table));
            }
        }
        read
    }

    /// Of the class that is called so in C++.
    pub fn of(&self, name: &str) -> Option<&VirtualTable> {
        self.classes.get(&without_spaces(name))?.as_ref()
    }
}

impl VirtualTable {
    /// `None` where there is no table among the words. `is_typeinfo`: whether the word of a number points to the class's.
    fn of(words: Vec<i64>, is_typeinfo: impl Fn(usize) -> bool) -> Option<Self> {
        let points = (1..words.len()).filter(|&number| is_typeinfo(number));
        let points = points.filter_map(|number| {
            let within = u64::try_from(words[number - 1].checked_neg()?).ok()?;
            Some((within, number + 1))
        });
        let points: Vec<(u64, usize)> = points.collect();
        (!points.is_empty()).then_some(Self { words, points })
    }

    /// Where in the object the virtual base lies that a base at `within` (or the object itself, at 0) has in the word so many
    /// bytes before what it points to.
    pub fn virtual_base(&self, within: u64, bytes_before: u64) -> Option<u64> {
        let &(_, point) = self.points.iter().find(|&&(at, _)| at == within)?;
        let before =
            usize::try_from(bytes_before / WORD_BYTES).ok().filter(|_| bytes_before.is_multiple_of(WORD_BYTES))?;
        let offset = *self.words.get(point.checked_sub(before)?)?;
        within.checked_add_signed(offset)
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes.as_chunks().0.iter().map(|word| i64::from_le_bytes(*word))
}

/// `ns::C<int>` of `N2ns1CIiEE`, as debug information has it.
fn class_name(mangled: &str) -> Option<String> {
    let table = demangle(&format!("_ZTV{mangled}"));
    // Debug information has no names for these namespaces.
    Some(without_spaces(table.strip_prefix("{vtable(")?.strip_suffix(")}")?).replace("(anonymousnamespace)::", ""))
}

/// Spaces are written by taste: `a<b<c> >`.
fn without_spaces(name: &str) -> String {
    name.chars().filter(|letter| *letter != ' ').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_named_as_in_the_source() {
        assert_eq!(class_name("N3geo4LastE").as_deref(), Some("geo::Last"));
        assert_eq!(class_name("N3geo4BothIN2ns1XIjEEEE").as_deref(), Some("geo::Both<ns::X<unsignedint>>"));
        assert_eq!(class_name("N12_GLOBAL__N_16HiddenE").as_deref(), Some("Hidden"));
        assert_eq!(class_name("N"), None);
    }

    /// Two tables: of the object, with bases at 32 and 48, and of its base at 16, with one 32 bytes further.
    #[test]
    fn bases_are_where_the_words_before_the_address_point_say() {
        const TYPEINFO: i64 = 0x3db8;
        let words = vec![48, 32, 0, TYPEINFO, 0x1240, 0x1210, 32, -16, TYPEINFO, 0x11f0];
        let is_typeinfo = |number: usize| words[number] == TYPEINFO;
        let table = VirtualTable::of(words.clone(), is_typeinfo).unwrap();
        assert_eq!(table.points, [(0, 4), (16, 9)]);
        assert_eq!((table.virtual_base(0, 24), table.virtual_base(0, 32)), (Some(32), Some(48)));
        assert_eq!(table.virtual_base(16, 24), Some(48));
        assert_eq!(
            (table.virtual_base(0, 40), table.virtual_base(8, 24), table.virtual_base(0, 20)),
            (None, None, None)
        );
        assert_eq!(VirtualTable::of(words, |_| false), None);
        assert_eq!(VirtualTable::of(vec![i64::MIN, TYPEINFO], |number| number == 1), None);
    }
}
