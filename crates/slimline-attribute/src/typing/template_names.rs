//! Names of template instances with their arguments, where the compiler leaves the arguments out.
//!
//! Without `-gsimple-template-names` clang writes `Slot<int, 1>` into `DW_AT_name`. With it there is `Slot`, and the entry's
//! children hold the arguments. The names made here are those of clang without the option: other units and symbols have them
//! so. Clang leaves arguments out only where the children say all of them, and no compiler leaves out those of operators.
//!
//! `-gsimple-template-names=mangled`, which tests of compilers use, has both: `_STN|Slot|<int, 1>`.

use std::borrow::Cow;
use std::fmt::Write as _;

use gimli::{AttributeValue, constants as dw};

use super::debug_info::{DebugInfo, Die, Entry, flag, is_aggregate};
use super::effort::{Descent, Effort, MAX_DEPTH};
use crate::tables::Language;

/// Types and arguments of which one name is made: nobody reads longer ones.
const MOST_PARTS: u32 = 512;
/// Stands before a name that is followed by its arguments.
const SEPARATED: &str = "_STN|";
/// What both compilers call a namespace without a name.
const ANONYMOUS_NAMESPACE: &str = "(anonymous namespace)";

impl<'a> DebugInfo<'a> {
    /// `DW_AT_name` of the entry itself, with the template arguments that it lacks.
    pub(super) fn full_name(&self, die: Die, entry: &Entry<'a>) -> Option<Cow<'a, str>> {
        let name = self.own_name(die, entry)?;
        if let Some((base, arguments)) = name.strip_prefix(SEPARATED).and_then(|rest| rest.split_once('|')) {
            return Some(Cow::Owned(format!("{base}{arguments}")));
        }
        // An operator's name may end so, too, and has its arguments.
        if name.ends_with('>') || !self.may_lack_arguments(die, entry) {
            return Some(Cow::Borrowed(name));
        }
        if let Some(known) = self.template_names.borrow().get(&die) {
            return Some(known.as_ref().map_or(Cow::Borrowed(name), |known| Cow::Owned(known.clone())));
        }
        let effort = Effort::of(MOST_PARTS);
        let full = self.arguments(die, effort.begin()).map(|arguments| format!("{name}{arguments}"));
        self.template_names.borrow_mut().insert(die, full.clone());
        Some(full.map_or(Cow::Borrowed(name), Cow::Owned))
    }

    fn may_lack_arguments(&self, die: Die, entry: &Entry<'a>) -> bool {
        let may_be_template =
            is_aggregate(entry.tag()) || matches!(entry.tag(), dw::DW_TAG_subprogram | dw::DW_TAG_variable);
        may_be_template && entry.has_children() && self.language(die.unit) == Language::Cpp
    }

    /// `<int, 1>`, of the children; `None` where these are no template's.
    fn arguments(&self, die: Die, descent: Descent<'_>) -> Option<String> {
        let mut all = None;
        self.collect_arguments(die, &mut all, descent)?;
        let all: Vec<String> = all?;
        let mut written = format!("<{}", all.join(", "));
        written.push_str(if written.ends_with('>') { " >" } else { ">" });
        Some(written)
    }

    fn collect_arguments(&self, die: Die, all: &mut Option<Vec<String>>, descent: Descent<'_>) -> Option<()> {
        let descent = descent.deeper()?;
        self.for_each_child(die, |child, entry| match entry.tag() {
            dw::DW_TAG_template_type_parameter => {
                let type_ = self.reference(child, entry, dw::DW_AT_type);
                all.get_or_insert_default().push(self.argument_type(type_, descent));
            }
            dw::DW_TAG_template_value_parameter => {
                all.get_or_insert_default().push(self.argument_value(child, entry, descent));
            }
            dw::DW_TAG_GNU_template_template_param => {
                let name = entry.attr_value(dw::DW_AT_GNU_template_name);
                let name = name.and_then(|name| self.text(child, name)).unwrap_or("?");
                all.get_or_insert_default().push(name.to_owned());
            }
            dw::DW_TAG_GNU_template_parameter_pack => {
                all.get_or_insert_default();
                let _ = self.collect_arguments(child, all, descent);
            }
            _ => {}
        })
    }

    fn argument_value(&self, die: Die, entry: &Entry<'a>, descent: Descent<'_>) -> String {
        let type_ = self.reference(die, entry, dw::DW_AT_type).map(|type_| self.without_qualifiers(type_));
        let tag = type_.and_then(|type_| Some(self.entry(type_)?.tag()));
        let Some(value) = entry.attr_value(dw::DW_AT_const_value) else {
            return self.argument_place(entry, die, tag).unwrap_or_else(|| "?".to_owned());
        };
        let name = type_.map(|type_| self.argument_type(Some(type_), descent)).unwrap_or_default();
        let bytes = type_.and_then(|type_| self.shape(type_)).map_or(8, |shape| shape.bytes());
        match (tag, integer(&value, bytes)) {
            (_, None) => "?".to_owned(),
            (Some(dw::DW_TAG_enumeration_type), Some(value)) if type_.is_some_and(|type_| self.is_unsigned(type_)) => {
                format!("({name}){value}")
            }
            (Some(dw::DW_TAG_enumeration_type), Some(value)) => format!("({name}){}", signed(value, bytes)),
            (Some(dw::DW_TAG_pointer_type | dw::DW_TAG_unspecified_type), Some(0)) => "nullptr".to_owned(),
            (_, Some(value)) => literal(&name, value, bytes),
        }
    }

    /// Whether the numbers of an enumeration have no sign.
    fn is_unsigned(&self, enumeration: Die) -> bool {
        let named = self.entry(enumeration).and_then(|entry| self.reference(enumeration, &entry, dw::DW_AT_signature));
        let enumeration = named.unwrap_or(enumeration);
        let number = self.entry(enumeration).and_then(|entry| self.reference(enumeration, &entry, dw::DW_AT_type));
        let number = number.and_then(|number| self.entry(self.without_qualifiers(number)));
        let encoding = number.and_then(|number| number.attr_value(dw::DW_AT_encoding));
        let unsigned = [dw::DW_ATE_unsigned, dw::DW_ATE_unsigned_char, dw::DW_ATE_boolean, dw::DW_ATE_UTF];
        matches!(encoding, Some(AttributeValue::Encoding(encoding)) if unsigned.contains(&encoding))
    }

    /// An argument that is the address of a variable.
    fn argument_place(&self, entry: &Entry<'a>, die: Die, tag: Option<gimli::DwTag>) -> Option<String> {
        let AttributeValue::Exprloc(expression) = entry.attr_value(dw::DW_AT_location)? else { return None };
        let unit = self.unit(die.unit)?;
        let address = match expression.operations(unit.encoding()).next().ok()?? {
            gimli::Operation::Address { address } => address,
            gimli::Operation::AddressIndex { index } => self.dwarf_of(die.unit).address(unit, index).ok()?,
            _ => return None,
        };
        let is_there = |&offset: &u32| {
            let variable = Die { unit: die.unit, offset };
            self.entry(variable).and_then(|entry| self.static_address(variable, &entry)) == Some(address)
        };
        let offset = self.index(die.unit).variables.iter().copied().find(is_there)?;
        let name = self.scoped_name(Die { unit: die.unit, offset }, Effort::of(MOST_PARTS).begin());
        Some(if tag == Some(dw::DW_TAG_pointer_type) { format!("&{name}") } else { name })
    }

    /// A type as clang writes it where it is an argument: `const char *`, `void (*)(int)`, `ns::Node<int>`.
    fn argument_type(&self, type_: Option<Die>, descent: Descent<'_>) -> String {
        let mut written = Written::default();
        self.before(type_, &mut written, descent);
        self.after(type_, &mut written, descent);
        written.text
    }

    /// Writes what stands before the place of a name.
    fn before(&self, type_: Option<Die>, to: &mut Written, descent: Descent<'_>) {
        let Some((die, entry)) = type_.and_then(|die| Some((die, self.entry(die)?))) else { return to.word("void") };
        let Some(descent) = descent.deeper() else { return to.word("?") };
        let target = self.reference(die, &entry, dw::DW_AT_type);
        let needs_parentheses = || {
            let tag =
                target.map(|target| self.without_const(target)).and_then(|target| Some(self.entry(target)?.tag()));
            matches!(tag, Some(dw::DW_TAG_array_type | dw::DW_TAG_subroutine_type))
        };
        let mut pointer_like = |what: &str| {
            self.before(target, to, descent);
            to.space();
            if needs_parentheses() {
                to.text.push('(');
            }
            to.mark(what);
        };
        match entry.tag() {
            dw::DW_TAG_pointer_type => pointer_like("*"),
            dw::DW_TAG_reference_type => pointer_like("&"),
            dw::DW_TAG_rvalue_reference_type => pointer_like("&&"),
            dw::DW_TAG_ptr_to_member_type => {
                let class = self.reference(die, &entry, dw::DW_AT_containing_type);
                pointer_like(&format!("{}::*", self.argument_type(class, descent)));
            }
            dw::DW_TAG_array_type => self.before(target, to, descent),
            dw::DW_TAG_subroutine_type => {
                self.before(target, to, descent);
                to.space();
            }
            dw::DW_TAG_const_type | dw::DW_TAG_volatile_type => {
                let (inner, qualifiers) = self.qualified(die);
                let innermost = self.element_tag(inner);
                match innermost {
                    Some(dw::DW_TAG_pointer_type | dw::DW_TAG_ptr_to_member_type) => {
                        self.before(inner, to, descent);
                        to.word(qualifiers);
                    }
                    // Of a function they stand behind its parameters.
                    Some(dw::DW_TAG_subroutine_type) => self.before(inner, to, descent),
                    _ => {
                        to.word(qualifiers);
                        to.space();
                        self.before(inner, to, descent);
                    }
                }
            }
            dw::DW_TAG_restrict_type => {
                self.before(target, to, descent);
                to.word("__restrict");
            }
            dw::DW_TAG_atomic_type => {
                let inner = self.argument_type(target, descent);
                to.word(&format!("_Atomic({inner})"));
            }
            dw::DW_TAG_unspecified_type if self.own_name(die, &entry) == Some("decltype(nullptr)") => {
                to.word("std::nullptr_t");
            }
            _ => to.word(&self.scoped_name(die, descent)),
        }
    }

    /// Writes what stands behind the place of a name.
    fn after(&self, type_: Option<Die>, to: &mut Written, descent: Descent<'_>) {
        let Some((die, entry)) = type_.and_then(|die| Some((die, self.entry(die)?))) else { return };
        let Some(descent) = descent.deeper() else { return };
        let target = self.reference(die, &entry, dw::DW_AT_type);
        match entry.tag() {
            dw::DW_TAG_pointer_type
            | dw::DW_TAG_reference_type
            | dw::DW_TAG_rvalue_reference_type
            | dw::DW_TAG_ptr_to_member_type => {
                let bare = target.map(|target| self.without_const(target));
                let tag = bare.and_then(|bare| Some(self.entry(bare)?.tag()));
                if matches!(tag, Some(dw::DW_TAG_array_type | dw::DW_TAG_subroutine_type)) {
                    to.text.push(')');
                }
                match bare.filter(|_| tag == Some(dw::DW_TAG_subroutine_type)) {
                    Some(function) if entry.tag() == dw::DW_TAG_ptr_to_member_type => {
                        self.after_member_function(function, to, descent);
                    }
                    _ => self.after(target, to, descent),
                }
            }
            dw::DW_TAG_const_type | dw::DW_TAG_volatile_type => {
                let (inner, qualifiers) = self.qualified(die);
                self.after(inner, to, descent);
                if self.element_tag(inner) == Some(dw::DW_TAG_subroutine_type) {
                    let _ = write!(to.text, " {qualifiers}");
                }
            }
            dw::DW_TAG_restrict_type => self.after(target, to, descent),
            dw::DW_TAG_array_type => {
                for count in self.dimensions(die).unwrap_or_default() {
                    match count {
                        0 => to.text.push_str("[]"),
                        count => drop(write!(to.text, "[{count}]")),
                    }
                }
                self.after(target, to, descent);
            }
            dw::DW_TAG_subroutine_type => {
                let _ = write!(to.text, "({})", self.argument_parameters(die, descent).0.join(", "));
                to.text.push_str(reference_qualifier(&entry));
                self.after(target, to, descent);
            }
            _ => {}
        }
    }

    /// Parameters of a member function, and what it says of the object that it is called for.
    fn after_member_function(&self, die: Die, to: &mut Written, descent: Descent<'_>) {
        let (parameters, object) = self.argument_parameters(die, descent);
        let _ = write!(to.text, "({})", parameters.join(", "));
        let Some(entry) = self.entry(die) else { return };
        let pointed = object.map(|object| self.without_const(object));
        let pointed = pointed.and_then(|object| self.reference(object, &self.entry(object)?, dw::DW_AT_type));
        let (_, qualifiers) = pointed.map_or((None, ""), |pointed| self.qualified(pointed));
        if !qualifiers.is_empty() {
            let _ = write!(to.text, " {qualifiers}");
        }
        to.text.push_str(reference_qualifier(&entry));
        self.after(self.reference(die, &entry, dw::DW_AT_type), to, descent);
    }

    /// Types of a function's parameters, and the type of the one that the compiler adds for the object.
    fn argument_parameters(&self, die: Die, descent: Descent<'_>) -> (Vec<String>, Option<Die>) {
        let (mut parameters, mut object) = (Vec::new(), None);
        let _ = self.for_each_child(die, |child, entry| match entry.tag() {
            dw::DW_TAG_formal_parameter => {
                let type_ = self.reference(child, entry, dw::DW_AT_type);
                match flag(entry, dw::DW_AT_artificial) {
                    true => object = object.or(type_),
                    false => parameters.push(self.argument_type(type_, descent)),
                }
            }
            dw::DW_TAG_unspecified_parameters => parameters.push("...".to_owned()),
            _ => {}
        });
        (parameters, object)
    }

    /// A name with all that it is in, namespaces without a name included.
    fn scoped_name(&self, die: Die, descent: Descent<'_>) -> String {
        let mut parts = Vec::new();
        let mut at = Some(die);
        for _ in 0..MAX_DEPTH {
            let Some((die, entry)) = at.and_then(|die| Some((die, self.entry(die)?))) else { break };
            if entry.tag() == dw::DW_TAG_subprogram && !parts.is_empty() {
                break;
            }
            if let Some(target) = self.reference(die, &entry, dw::DW_AT_signature) {
                at = Some(target);
                continue;
            }
            let is_open = entry.tag() == dw::DW_TAG_namespace;
            parts.push(match self.own_name(die, &entry) {
                None if is_open => ANONYMOUS_NAMESPACE.to_owned(),
                None => "?".to_owned(),
                Some(name) if name.ends_with('>') || !self.may_lack_arguments(die, &entry) => {
                    match name.strip_prefix(SEPARATED).and_then(|rest| rest.split_once('|')) {
                        Some((base, arguments)) => format!("{base}{arguments}"),
                        None => name.to_owned(),
                    }
                }
                Some(name) => format!("{name}{}", self.arguments(die, descent).unwrap_or_default()),
            });
            at = self.index(die.unit).parent(die.offset).map(|offset| Die { unit: die.unit, offset });
        }
        parts.reverse();
        parts.join("::")
    }

    /// The type that is qualified, and by what.
    fn qualified(&self, die: Die) -> (Option<Die>, &'static str) {
        let (mut at, mut is_const, mut is_volatile) = (Some(die), false, false);
        for _ in 0..MAX_DEPTH {
            let Some((die, entry)) = at.and_then(|die| Some((die, self.entry(die)?))) else { break };
            match entry.tag() {
                dw::DW_TAG_const_type => is_const = true,
                dw::DW_TAG_volatile_type => is_volatile = true,
                _ => break,
            }
            at = self.reference(die, &entry, dw::DW_AT_type);
        }
        let qualifiers = match (is_const, is_volatile) {
            (true, true) => "const volatile",
            (true, false) => "const",
            (false, true) => "volatile",
            (false, false) => "",
        };
        (at, qualifiers)
    }

    fn without_const(&self, die: Die) -> Die {
        self.qualified(die).0.unwrap_or(die)
    }

    /// The tag of what an array consists of; else of the type itself.
    fn element_tag(&self, type_: Option<Die>) -> Option<gimli::DwTag> {
        let mut at = type_?;
        for _ in 0..MAX_DEPTH {
            let entry = self.entry(at)?;
            if entry.tag() != dw::DW_TAG_array_type {
                return Some(entry.tag());
            }
            at = self.reference(at, &entry, dw::DW_AT_type)?;
        }
        None
    }
}

/// Text to which types are added.
#[derive(Default)]
struct Written {
    text: String,
    /// It ends in a word, from which the next thing has to keep apart.
    is_word: bool,
}

impl Written {
    fn word(&mut self, text: &str) {
        self.text.push_str(text);
        self.is_word = true;
    }

    fn mark(&mut self, text: &str) {
        self.text.push_str(text);
        self.is_word = false;
    }

    fn space(&mut self) {
        if std::mem::take(&mut self.is_word) {
            self.text.push(' ');
        }
    }
}

fn reference_qualifier(entry: &Entry<'_>) -> &'static str {
    if flag(entry, dw::DW_AT_reference) {
        " &"
    } else if flag(entry, dw::DW_AT_rvalue_reference) {
        " &&"
    } else {
        ""
    }
}

/// The bits of a constant of so many bytes.
fn integer(value: &AttributeValue<super::debug_info::Slice<'_>>, bytes: u64) -> Option<u64> {
    let value = match *value {
        AttributeValue::Sdata(value) => value.cast_unsigned(),
        ref value => value.udata_value()?,
    };
    Some(if bytes < 8 { value & ((1 << (bytes * 8)) - 1) } else { value })
}

fn signed(value: u64, bytes: u64) -> i64 {
    let unused = 64 - bytes.clamp(1, 8) * 8;
    (value << unused).cast_signed() >> unused
}

/// A number as clang writes it where it is an argument of that type.
fn literal(type_: &str, value: u64, bytes: u64) -> String {
    let number = signed(value, bytes);
    match type_ {
        "bool" => (value != 0).to_string(),
        "int" => number.to_string(),
        "long" => format!("{number}L"),
        "long long" => format!("{number}LL"),
        "unsigned int" => format!("{value}U"),
        "unsigned long" => format!("{value}UL"),
        "unsigned long long" => format!("{value}ULL"),
        "unsigned short" => format!("({type_}){value}"),
        "char" => character("", value),
        "signed char" | "unsigned char" => format!("({type_}){}", character("", value)),
        "wchar_t" => character("L", value),
        "char8_t" => character("u8", value),
        "char16_t" => character("u", value),
        "char32_t" => character("U", value),
        _ => format!("({type_}){number}"),
    }
}

fn character(prefix: &str, value: u64) -> String {
    let shown = match u8::try_from(value) {
        Ok(b'\\') => r"\\".to_owned(),
        Ok(b'\'') => r"\'".to_owned(),
        Ok(7) => r"\a".to_owned(),
        Ok(8) => r"\b".to_owned(),
        Ok(9) => r"\t".to_owned(),
        Ok(10) => r"\n".to_owned(),
        Ok(11) => r"\v".to_owned(),
        Ok(12) => r"\f".to_owned(),
        Ok(13) => r"\r".to_owned(),
        Ok(printed @ 32..127) => char::from(printed).to_string(),
        Ok(byte) => format!("\\x{byte:02x}"),
        Err(_) if value <= 0xffff => format!("\\u{value:04x}"),
        Err(_) => format!("\\U{value:08x}"),
    };
    format!("{prefix}'{shown}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_sign_of_their_type() {
        assert_eq!(literal("int", 0xffff_ffff, 4), "-1");
        assert_eq!(literal("short", 0xfffe, 2), "(short)-2");
        assert_eq!(literal("unsigned long", u64::MAX, 8), "18446744073709551615UL");
        assert_eq!(signed(0x80, 1), -128);
        assert_eq!(signed(7, 0), 7);
    }

    #[test]
    fn characters_are_escaped() {
        assert_eq!(literal("char", 0xe9, 1), r"'\xe9'");
        assert_eq!(literal("unsigned char", 10, 1), r"(unsigned char)'\n'");
        assert_eq!(literal("wchar_t", 0x20ac, 4), r"L'\u20ac'");
    }
}
