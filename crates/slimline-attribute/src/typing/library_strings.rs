//! Types that functions of C++ libraries allocate, by their names: the libraries are installed without debug information.

use super::layout::TypeTable;
use crate::tables::{Element, Language, Type, TypeKind};

/// What the strings of a standard library are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Characters {
    name: &'static str,
    bytes: u64,
}

/// Beginnings of the names of `std::basic_string`'s methods in libstdc++ and libc++, as the linker has them (Itanium C++ ABI, 5.1).
/// The type of the characters follows.
const METHODS: [&str; 2] = ["_ZNSt7__cxx1112basic_stringI", "_ZNSt3__112basic_stringI"];
/// Types of characters by their codes there.
const TYPES: [(&str, Characters); 5] = [
    ("c", Characters { name: "char", bytes: 1 }),
    ("w", Characters { name: "wchar_t", bytes: 4 }),
    ("Du", Characters { name: "char8_t", bytes: 1 }),
    ("Ds", Characters { name: "char16_t", bytes: 2 }),
    ("Di", Characters { name: "char32_t", bytes: 4 }),
];

impl Characters {
    /// Of the strings that a function with this name in the linker's symbols is a method of.
    pub fn of_method(linked_name: &str) -> Option<Self> {
        let code = METHODS.iter().find_map(|method| linked_name.strip_prefix(method))?;
        TYPES.iter().find(|(of, _)| code.starts_with(of)).map(|&(_, characters)| characters)
    }

    /// An array of them.
    pub(super) fn element(self, table: &mut TypeTable) -> Element {
        let type_id = table.intern(Type {
            name: self.name.to_owned(),
            language: Language::Cpp,
            kind: TypeKind::Scalar,
            bytes: self.bytes,
            declared_at: None,
            members: Vec::new(),
        });
        Element { type_id, bytes: self.bytes, start: 0, agreement: 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_strings_are_known_by_their_names() {
        let create = "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm";
        assert_eq!(Characters::of_method(create).map(|of| of.name), Some("char"));
        let wide = "_ZNSt7__cxx1112basic_stringIwSt11char_traitsIwESaIwEE9_M_createERmm";
        assert_eq!(Characters::of_method(wide), Some(Characters { name: "wchar_t", bytes: 4 }));
        let other = "_ZNSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEE8overflowEi";
        assert_eq!([other, "_Znwm", ""].map(Characters::of_method), [None; 3]);
    }

    #[test]
    fn one_type_is_one_row() {
        let mut table = TypeTable::new();
        let [(_, char), ..] = TYPES;
        assert_eq!(char.element(&mut table), char.element(&mut table));
        assert_eq!(table.rows().len(), 1);
    }
}
