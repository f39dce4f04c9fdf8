//! What types are called, and how a source spells them.

use slimline_trace::cpp_names;

use crate::llvm::{Metadata, MetadataKind, Value};

use super::layout::{Layouts, MAX_DEPTH, NAME, tag};
use super::rust;

impl<'m> Layouts<'m> {
    /// What a structure is called: its identifier and its name, as the compiler has it and as it is written.
    pub(super) fn names(&self, r#type: Metadata<'m>) -> impl Iterator<Item = String> + use<'m> {
        let identifier = r#type.operand_text(self.base + 4).into_owned();
        let name = r#type.type_name().into_owned();
        let written = Some(cpp_names::written(&name)).filter(|written| *written != name);
        [identifier, name].into_iter().chain(written).filter(|name| !name.is_empty())
    }

    /// What a type is called, seen through qualifiers.
    pub(super) fn type_name(&self, r#type: Metadata<'m>) -> String {
        let (bare, name) = self.bare(r#type);
        let own = bare.map(|bare| self.title(bare)).unwrap_or_default();
        if own.is_empty() { name } else { own }
    }

    /// The name that a structure has of its own.
    pub(super) fn title(&self, structure: Metadata<'m>) -> String {
        let is_path = self.is_rust && structure.kind() == MetadataKind::CompositeType;
        if is_path { rust::path_of(structure) } else { cpp_names::written(&structure.type_name()) }
    }

    /// Whether a structure is one that a library or the compiler brings, and what is in it nobody's to name.
    pub(super) fn is_librarys(&self, structure: Metadata<'m>) -> bool {
        self.is_rust && rust::is_librarys(structure)
    }

    /// A type as C spells it where no name stands in it: `struct node *`, `char[16]`. Structures without a name, functions and
    /// the bounds of arrays of arrays are not written out.
    pub(super) fn spelled(&self, r#type: Option<Metadata<'m>>) -> String {
        if self.is_rust {
            return r#type.map(|r#type| self.spelled_as_rust(r#type, 0)).unwrap_or_default();
        }
        let mut at = r#type;
        let [mut before, mut after, mut bounds] = [const { String::new() }; 3];
        for _ in 0..MAX_DEPTH {
            let Some(of) = at else { break };
            let inner = of.operand(self.base);
            match of.tag() {
                Some(tag::POINTER) => after.insert(0, '*'),
                Some(tag::REFERENCE) => after.insert(0, '&'),
                Some(tag::RVALUE_REFERENCE) => after.insert_str(0, "&&"),
                Some(tag::ARRAY) if of.operand(self.base + 1).is_some_and(|bounds| bounds.operands().len() > 1) => {
                    bounds = format!("[…]{bounds}");
                }
                Some(tag::ARRAY) => {
                    let elements = inner.map_or(0, |inner| of.size_bits() / 8 / self.bytes(inner).max(1));
                    bounds = format!("[{elements}]{bounds}");
                }
                Some(tag::CONST | tag::VOLATILE) => {
                    let word = if of.tag() == Some(tag::CONST) { "const" } else { "volatile" };
                    match inner.and_then(Metadata::tag) {
                        Some(tag::POINTER) => after.insert_str(0, word),
                        _ => before = format!("{before}{word} "),
                    }
                }
                Some(tag::RESTRICT | tag::ATOMIC) => {}
                Some(tag::SUBROUTINE) => return format!("… (*)(…){bounds}"),
                tag => {
                    let keyword = match tag {
                        Some(tag::STRUCTURE) => "struct ",
                        Some(tag::UNION) => "union ",
                        Some(tag::ENUMERATION) => "enum ",
                        _ => "",
                    };
                    let name = cpp_names::written(&of.type_name());
                    let name = if name.is_empty() { "{ … }" } else { &name };
                    let space = if after.is_empty() { "" } else { " " };
                    return format!("{before}{keyword}{name}{space}{after}{bounds}");
                }
            }
            at = inner;
        }
        let space = if after.is_empty() { "" } else { " " };
        format!("{before}void{space}{after}{bounds}")
    }

    /// A type as Rust spells it, with paths.
    fn spelled_as_rust(&self, r#type: Metadata<'m>, depth: usize) -> String {
        let inner = r#type.operand(self.base).filter(|_| depth < MAX_DEPTH);
        let spelled = |inner| self.spelled_as_rust(inner, depth + 1);
        match r#type.tag() {
            Some(tag::ARRAY) => {
                let elements = inner.map_or(0, |inner| r#type.size_bits() / 8 / self.bytes(inner).max(1));
                format!("[{}; {elements}]", inner.map(spelled).unwrap_or_default())
            }
            Some(tag::POINTER) if r#type.type_name().is_empty() => {
                format!("*const {}", inner.map(spelled).unwrap_or_default())
            }
            Some(tag::POINTER) => rust::plain(&r#type.type_name()),
            _ => self.title(r#type),
        }
    }

    /// A name for a structure without one, as clang calls it; empty where nobody knows where it is declared.
    pub(super) fn given_name(&mut self, structure: Metadata<'m>) -> String {
        const CALL: &str = "operator()";
        let Some((_, file)) = structure.file().filter(|_| structure.type_line() > 0 && !self.is_rust) else {
            return String::new();
        };
        let members = structure.operand(self.base + 1).map(Metadata::operands).unwrap_or_default();
        let mut functions = members.into_iter().flatten().map(Value::as_metadata);
        // Of a lambda's functions there is its call, or none. Without any a class that is no lambda has nothing to say.
        let is_own =
            |member: Metadata<'m>| member.kind() == MetadataKind::Subprogram && member.operand_text(NAME) != CALL;
        let what = match structure.tag() {
            Some(tag::CLASS) if !functions.any(is_own) => "lambda",
            Some(tag::CLASS) => "anonymous class",
            Some(tag::UNION) => "anonymous union",
            _ => "anonymous struct",
        };
        let members = self.members(structure);
        let members = members
            .iter()
            .map(|member| (member.name.clone(), self.spelled(member.r#type), member.from_bytes, member.bytes));
        let content = (structure.size_bits(), members.collect());
        self.nameless.name(what, &file, structure.type_line(), content)
    }

    /// The first name of an array's elements.
    pub(super) fn element_alias(&self, array: Metadata<'m>) -> String {
        let mut element = Some(array);
        for _ in 0..MAX_DEPTH {
            let Some((bare, alias)) = element.map(|element| self.bare(element)) else { break };
            match bare.filter(|bare| bare.tag() == Some(tag::ARRAY)) {
                Some(array) => element = array.operand(self.base),
                None => return alias,
            }
        }
        String::new()
    }
}
