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

use std::cell::OnceCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use slimline_trace::address::Svma;

use super::Parsed;
use super::demangled::demangle;
use super::image::{Image, Relocated};
use super::symbols::Symbols;

const WORD_BYTES: u64 = 8;
/// Words before the address point in each table.
const POINT: usize = 2;
/// Larger ones are damage.
const MOST_BYTES: u64 = 1 << 16;

/// The tables of a module, which are read once one is asked for: few programs have virtual bases.
#[derive(Default)]
pub struct VirtualTables<'a> {
    /// None where nobody has said.
    module: Option<Rc<Parsed<'a>>>,
    classes: OnceCell<Classes>,
}

/// By the class's name; `None` where several classes have it.
type Classes = FxHashMap<String, Option<VirtualTable>>;

/// Of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualTable {
    words: Vec<i64>,
    /// Where in the object a base lies, and the word that its pointer points to.
    points: Vec<(u64, usize)>,
}

impl<'a> VirtualTables<'a> {
    /// Those that the symbols of a module name.
    pub(super) fn of_module(module: Rc<Parsed<'a>>) -> Self {
        Self { module: Some(module), classes: OnceCell::new() }
    }

    /// Of the class that is called so in C++.
    pub fn of(&self, name: &str) -> Option<&VirtualTable> {
        self.classes().get(&without_spaces(name))?.as_ref()
    }

    fn classes(&self) -> &Classes {
        self.classes.get_or_init(|| {
            let module = self.module.as_ref();
            module.and_then(|module| Some(read(module.image.as_ref()?, module.symbols()))).unwrap_or_default()
        })
    }
}

/// The tables of `image` that `symbols` name.
fn read(image: &Image<'_>, symbols: &Symbols<'_>) -> Classes {
    let named = |prefix: &'static str| {
        let variables = symbols.variables().iter();
        variables.filter_map(move |variable| Some((variable.name.strip_prefix(prefix)?, variable)))
    };
    let mut classes = Classes::default();
    let typeinfos: FxHashMap<&str, Svma> = named("_ZTI").map(|(class, variable)| (class, variable.start)).collect();
    for (class, table) in named("_ZTV") {
        let Some(bytes) = usize::try_from(table.bytes).ok().filter(|_| table.bytes <= MOST_BYTES) else { continue };
        let Some(bytes) = image.bytes_from(table.start).get(..bytes) else { continue };
        let Some(&typeinfo) = typeinfos.get(class) else { continue };
        let is_typeinfo = |number: usize| {
            let slot = Svma(table.start.0.saturating_add(number as u64 * WORD_BYTES));
            match image.relocated(slot) {
                // Of a library: whoever defines it first. They are all alike.
                Some(Relocated::Import(name)) => name.strip_prefix("_ZTI") == Some(class),
                _ => image.pointer_at(slot) == Some(typeinfo),
            }
        };
        let table = VirtualTable::of(words(bytes).collect(), is_typeinfo);
        if let Some(table) = table.filter(VirtualTable::has_virtual_bases)
            && let Some(name) = class_name(class)
        {
            classes.entry(name).and_modify(|known| *known = None).or_insert(Some(table));
        }
    }
    classes
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

    /// Those of other classes begin with the offset of the object to itself.
    fn has_virtual_bases(&self) -> bool {
        self.points.first().is_some_and(|&(_, point)| point > POINT)
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
        assert!(table.has_virtual_bases());
        // A virtual base without data of its own shares its pointer, and is where the object is.
        let nearly_empty = VirtualTable::of(vec![0, 0, 0, TYPEINFO, 0x1240], |number| number == 3).unwrap();
        assert!(nearly_empty.has_virtual_bases());
        assert_eq!(nearly_empty.virtual_base(0, 24), Some(0));
        assert!(!VirtualTable::of(vec![0, TYPEINFO, 0x1240], |number| number == 1).unwrap().has_virtual_bases());
        assert_eq!(VirtualTable::of(words, |_| false), None);
        assert_eq!(VirtualTable::of(vec![i64::MIN, TYPEINFO], |number| number == 1), None);
    }
}
