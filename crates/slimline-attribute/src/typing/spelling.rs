//! Type names as their language spells them.

use gimli::constants as dw;
use slimline_trace::cpp_names;

use super::debug_info::{DebugInfo, Die, Entry, flag, unsigned};
use super::effort::{Descent, Effort, MAX_DEPTH};
use super::layout::ANONYMOUS;
use crate::tables::Language;

/// Types of which one name is made: nobody reads longer ones.
const MOST_PARTS: u32 = 512;

impl<'a> DebugInfo<'a> {
    /// The type's name as one writes it: `struct node *`, `unsigned int[3]`, `[f64; 3]`, `ns::Node<int>`.
    pub(super) fn spelled(&self, die: Die) -> String {
        self.spelled_within(die, Effort::of(MOST_PARTS).begin())
    }

    fn spelled_within(&self, die: Die, descent: Descent<'_>) -> String {
        match self.language(die.unit) {
            Language::Rust => self.spelled_rust(die, descent),
            language => self.declarator(Some(die), String::new(), language, descent),
        }
    }

    /// The type's name around a declarator, in C's syntax: `double (*)[3]` of `double` and `(*)[3]`.
    pub(super) fn spelled_around(&self, die: Die, inner: &str) -> String {
        let effort = Effort::of(MOST_PARTS);
        self.declarator(Some(die), inner.to_owned(), self.language(die.unit), effort.begin())
    }

    /// Name of an aggregate as [`Type::name`](crate::tables::Type::name) has it.
    pub(super) fn aggregate_name(&self, die: Die) -> String {
        let Some(entry) = self.entry(die) else { return "?".to_owned() };
        self.named(die, &entry, self.language(die.unit))
    }

    /// A structure, union, enumeration, typedef or base type; an anonymous one by the typedef that names it.
    fn named(&self, die: Die, entry: &Entry<'a>, language: Language) -> String {
        let keyword = match entry.tag() {
            dw::DW_TAG_union_type => "union",
            dw::DW_TAG_enumeration_type => "enum",
            dw::DW_TAG_class_type => "class",
            dw::DW_TAG_structure_type => "struct",
            _ => "",
        };
        if entry.tag() == dw::DW_TAG_string_type {
            let length = unsigned(entry, dw::DW_AT_byte_size).map_or_else(|| ":".to_owned(), |bytes| bytes.to_string());
            return format!("character(len={length})");
        }
        if self.own_name(die, entry).is_none() {
            // The type with that signature is a definition.
            if let Some(target) = self.reference(die, entry, dw::DW_AT_signature)
                && let Some(entry) = self.entry(target).filter(|entry| !entry.has_attr(dw::DW_AT_signature))
            {
                return self.named(target, &entry, self.language(target.unit));
            }
            let typedef = self.index(die.unit).typedef_of(die.offset);
            let typedef = typedef.and_then(|offset| self.qualified_name(Die { unit: die.unit, offset }));
            return match typedef {
                Some(name) => name,
                None if keyword.is_empty() => "?".to_owned(),
                None => format!("{keyword} {ANONYMOUS}"),
            };
        }
        let name = self.qualified_name(die).unwrap_or_default();
        if entry.tag() == dw::DW_TAG_common_block {
            return format!("common /{name}/");
        }
        match (language, keyword) {
            (Language::Cpp, _) => cpp_names::written(&name),
            (Language::Fortran, "struct") => format!("type({name})"),
            (_, "") | (Language::Rust | Language::Fortran, _) => name,
            _ => format!("{keyword} {name}"),
        }
    }

    /// C's declarator syntax inside out: `inner` is what stands where the name would.
    fn declarator(&self, die: Option<Die>, inner: String, language: Language, descent: Descent<'_>) -> String {
        let Some((die, entry)) = die.and_then(|die| Some((die, self.entry(die)?))) else {
            return around("void", &inner);
        };
        let Some(descent) = descent.deeper() else { return around("?", &inner) };
        let target = self.reference(die, &entry, dw::DW_AT_type);
        let below = |inner| self.declarator(target, inner, language, descent);
        let points_to = |what: &str| {
            let tag = target.and_then(|target| Some(self.entry(target)?.tag()));
            let wrap = matches!(tag, Some(dw::DW_TAG_array_type | dw::DW_TAG_subroutine_type));
            if wrap { below(format!("({what}{inner})")) } else { below(format!("{what}{inner}")) }
        };
        let qualified = |what: &str| {
            let tag = target.and_then(|target| Some(self.entry(target)?.tag()));
            match tag {
                Some(dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type) => below(around(what, &inner)),
                _ => {
                    let below = below(inner.clone());
                    // Of an array both the whole and each element are said to be.
                    if below.starts_with(&format!("{what} ")) { below } else { format!("{what} {below}") }
                }
            }
        };
        match entry.tag() {
            dw::DW_TAG_pointer_type => points_to("*"),
            dw::DW_TAG_reference_type => points_to("&"),
            dw::DW_TAG_rvalue_reference_type => points_to("&&"),
            dw::DW_TAG_const_type => qualified("const"),
            dw::DW_TAG_volatile_type => qualified("volatile"),
            dw::DW_TAG_restrict_type => qualified("restrict"),
            dw::DW_TAG_atomic_type => qualified("_Atomic"),
            dw::DW_TAG_array_type => {
                let dimensions = self.dimensions(die).unwrap_or_default();
                if language == Language::Fortran {
                    let count = |count: &u64| if *count == 0 { ":".to_owned() } else { count.to_string() };
                    let counts: Vec<_> = dimensions.iter().map(count).collect();
                    return format!("{}, dimension({})", below(inner), counts.join(","));
                }
                let bounds = dimensions.iter().map(|count| match count {
                    0 => "[]".to_owned(),
                    count => format!("[{count}]"),
                });
                below(inner + &bounds.collect::<String>())
            }
            dw::DW_TAG_subroutine_type => below(format!("{inner}({})", self.parameters(die, language, descent))),
            dw::DW_TAG_ptr_to_member_type => {
                let class = self.reference(die, &entry, dw::DW_AT_containing_type);
                let class = class.map_or_else(|| "?".to_owned(), |class| self.spelled_within(class, descent));
                points_to(&format!("{class}::*"))
            }
            _ => around(&self.named(die, &entry, language), &inner),
        }
    }

    fn parameters(&self, die: Die, language: Language, descent: Descent<'_>) -> String {
        let mut parameters = Vec::new();
        let _ = self.for_each_child(die, |child, entry| match entry.tag() {
            dw::DW_TAG_formal_parameter if !flag(entry, dw::DW_AT_artificial) => {
                let target = self.reference(child, entry, dw::DW_AT_type);
                parameters.push(self.declarator(target, String::new(), language, descent));
            }
            dw::DW_TAG_unspecified_parameters => parameters.push("...".to_owned()),
            _ => {}
        });
        if parameters.is_empty() && language == Language::C {
            parameters.push("void".to_owned());
        }
        parameters.join(", ")
    }

    fn spelled_rust(&self, die: Die, descent: Descent<'_>) -> String {
        let Some((entry, descent)) = self.entry(die).zip(descent.deeper()) else { return "?".to_owned() };
        if entry.tag() == dw::DW_TAG_array_type {
            let target = self.reference(die, &entry, dw::DW_AT_type);
            let element = target.map_or_else(|| "?".to_owned(), |target| self.spelled_rust(target, descent));
            let count = self.dimensions(die).unwrap_or_default().iter().product::<u64>();
            return format!("[{element}; {count}]");
        }
        match self.own_name(die, &entry) {
            // References, pointers, slices and tuples are named in full already.
            Some(name) if name.starts_with(['&', '*', '[', '(']) => simplify_rust(name),
            Some(_) => simplify_rust(&self.qualified_name(die).unwrap_or_default()),
            None if entry.tag() == dw::DW_TAG_pointer_type => {
                let target = self.reference(die, &entry, dw::DW_AT_type);
                target.map_or_else(|| "*()".to_owned(), |target| format!("*{}", self.spelled_rust(target, descent)))
            }
            None => "?".to_owned(),
        }
    }

    /// Row name of any type: an aggregate's own, else as spelled.
    pub(super) fn row_name(&self, die: Die) -> String {
        if self.language(die.unit) == Language::Rust { self.spelled(die) } else { self.aggregate_name(die) }
    }

    pub(super) fn is_anonymous(&self, die: Die) -> bool {
        self.name(die).is_none()
    }

    /// The first typedef on the way from `die`, qualifiers looked through, to its structure.
    pub(super) fn typedef_below(&self, die: Die) -> Option<Die> {
        let mut die = die;
        for _ in 0..MAX_DEPTH {
            let entry = self.entry(die)?;
            if entry.tag() == dw::DW_TAG_typedef {
                return Some(die);
            }
            die = self.reference(die, &entry, dw::DW_AT_type)?;
        }
        None
    }

    /// Whether the entry is a typedef.
    pub(super) fn is_typedef(&self, die: Die) -> bool {
        self.entry(die).is_some_and(|entry| entry.tag() == dw::DW_TAG_typedef)
    }
}

fn around(name: &str, inner: &str) -> String {
    match inner.as_bytes().first() {
        None => name.to_owned(),
        Some(b'[') => format!("{name}{inner}"),
        Some(_) => format!("{name} {inner}"),
    }
}

/// Arguments that stand for defaults.
const RUST_DEFAULTS: [&str; 2] = [", alloc::alloc::Global", ", std::hash::random::RandomState"];

fn simplify_rust(name: &str) -> String {
    let mut name = name.to_owned();
    for default in RUST_DEFAULTS {
        name = name.replace(default, "");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_arguments_are_dropped() {
        assert_eq!(simplify_rust("alloc::vec::Vec<demo::Node, alloc::alloc::Global>"), "alloc::vec::Vec<demo::Node>");
    }
}
