//! What rustc writes into debug information otherwise than clang.

use slimline_trace::toolchain_source::is_rusts;

use crate::llvm::{Metadata, MetadataKind, Module};

use super::layout::tag;

/// Most scopes around a type that are followed.
const MAX_DEPTH: usize = 64;
const SCOPE: usize = 1;
/// Where names of namespaces and types are.
const NAME: usize = 2;
/// Crates that come with the compiler, and those that the standard library is made of.
const LIBRARIES: [&str; 6] = ["core", "alloc", "std", "hashbrown", "proc_macro", "test"];
/// Types that nobody writes down, as they are the ones that are meant.
const DEFAULTS: [&str; 2] = [", alloc::alloc::Global", ", std::hash::random::RandomState"];

/// The source and the compiler of a module that rustc has made.
pub(crate) fn unit(module: &Module<'_>) -> Option<(String, String)> {
    const PRODUCER: usize = 1;
    let unit = module.named_metadata(c"llvm.dbg.cu").into_iter().next()?;
    let producer = unit.operand_text(PRODUCER);
    let (_, version) = producer.split_once("(rustc version ")?;
    let (_, file) = unit.file()?;
    // `src/lib.rs/@/crate.1f3a-cgu.0`: each part of a crate is a unit.
    let source = file.split("/@/").next().unwrap_or_default().to_owned();
    Some((source, format!("rustc {}", version.strip_suffix(')').unwrap_or(version))))
}

/// A type with the path to it: `shapes::Circle`.
pub(super) fn path_of(r#type: Metadata<'_>) -> String {
    let own = r#type.type_name();
    if own.is_empty() {
        return String::new();
    }
    let mut names: Vec<_> = scopes_of(r#type).map(|scope| scope.operand_text(NAME).into_owned()).collect();
    names.reverse();
    names.push(plain(&own));
    names.join("::")
}

/// A name without what nobody writes.
pub(super) fn plain(name: &str) -> String {
    DEFAULTS.iter().fold(name.to_owned(), |name, default| name.replace(default, ""))
}

/// Whether a type is one of the standard library's, or one that the compiler has made: tuples, references, closures.
pub(super) fn is_librarys(r#type: Metadata<'_>) -> bool {
    let is_made = r#type.type_name().starts_with('{');
    scopes_of(r#type).last().is_none_or(|outermost| is_made || LIBRARIES.contains(&&*outermost.operand_text(NAME)))
}

/// Whether a file is one of the standard library's.
pub(super) fn is_librarys_file(directory: &str, name: &str) -> bool {
    is_rusts(name) || !name.starts_with('/') && is_rusts(directory)
}

/// What a vector's memory is of: what holds it is made for any type, and has a pointer to bytes.
pub(super) fn vector_element<'m>(r#type: Metadata<'m>, base: usize) -> Option<Metadata<'m>> {
    const TYPE: usize = 1;
    r#type.type_name().starts_with("RawVec<").then(|| r#type.operand(base + 3)?.operand(0)?.operand(TYPE))?
}

/// What a container holds: `T` of `RawVec<T>`, of `Vec<T>` and of `Box<T>`.
pub(super) fn element_of<'m>(container: Metadata<'m>, base: usize) -> Option<Metadata<'m>> {
    const TYPE: usize = 1;
    let name = container.type_name();
    if container.tag() == Some(tag::POINTER) && name.starts_with("alloc::boxed::Box<") {
        return container.operand(base);
    }
    let is_vector = name.starts_with("RawVec<") || name.starts_with("Vec<");
    is_vector.then(|| container.operand(base + 3)?.operand(0)?.operand(TYPE))?
}

/// What a container allocates for, by the functions that were inlined at a position, from the inside.
pub(super) fn made_for<'m>(inlined: impl Iterator<Item = Metadata<'m>>, base: usize) -> Option<Metadata<'m>> {
    for location in inlined {
        let mut scopes = std::iter::successors(location.scope(), |scope| scope.operand(SCOPE)).take(MAX_DEPTH);
        let of = scopes.find(|scope| scope.kind() == MetadataKind::Subprogram)?.operand(SCOPE)?;
        if let Some(element) = element_of(of, base) {
            return Some(element);
        }
        // What is around it allocates for something else.
        let outermost = std::iter::once(of).chain(scopes_of(of)).last()?;
        if outermost.operand_text(NAME) != "alloc" {
            return None;
        }
    }
    None
}

/// What C++'s containers allocate for: `T` of `std::allocator<T>`, whose `allocate` was inlined at a position.
pub(super) fn allocated_by<'m>(inlined: impl Iterator<Item = Metadata<'m>>, base: usize) -> Option<Metadata<'m>> {
    const TYPE: usize = 1;
    const ALLOCATORS: [&str; 3] = ["__new_allocator<", "new_allocator<", "allocator<"];
    for location in inlined {
        let mut scopes = std::iter::successors(location.scope(), |scope| scope.operand(SCOPE)).take(MAX_DEPTH);
        let of = scopes.find(|scope| scope.kind() == MetadataKind::Subprogram)?.operand(SCOPE)?;
        let name = of.operand_text(NAME);
        if ALLOCATORS.iter().any(|allocator| name.starts_with(allocator)) {
            return of.operand(base + 3)?.operand(0)?.operand(TYPE);
        }
        // What is not the library's calls `operator new` for itself.
        if scopes_of(of).last().unwrap_or(of).operand_text(NAME) != "std" {
            return None;
        }
    }
    None
}

/// The innermost function of the program's own of those that were inlined at a position, and the position in it.
pub(super) fn own_function(location: Metadata<'_>) -> Option<(Metadata<'_>, Metadata<'_>)> {
    let mut chain = std::iter::successors(Some(location), |inner| inner.inlined_at()).take(MAX_DEPTH);
    let is_own = |at: &Metadata<'_>| {
        let file = at.scope().and_then(Metadata::file);
        file.is_some_and(|(directory, name)| !is_librarys_file(&directory, &name))
    };
    let at = chain.find(is_own)?;
    let mut scopes = std::iter::successors(at.scope(), |scope| scope.operand(SCOPE)).take(MAX_DEPTH);
    let function = scopes.find(|scope| scope.kind() == MetadataKind::Subprogram)?;
    Some((function, at))
}

/// `0` for `__0`, as fields without names are written.
pub(super) fn field_name(name: &str) -> &str {
    let number = name.strip_prefix("__").filter(|rest| !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_digit()));
    number.unwrap_or(name)
}

/// The namespaces and types around a type, from the inside.
pub(super) fn scopes_of(r#type: Metadata<'_>) -> impl Iterator<Item = Metadata<'_>> {
    const NAMESPACE: u16 = 0x39;
    let is_path = |scope: &Metadata<'_>| scope.tag() == Some(NAMESPACE) || scope.kind() == MetadataKind::CompositeType;
    std::iter::successors(r#type.operand(SCOPE), |scope| scope.operand(SCOPE)).take(MAX_DEPTH).take_while(is_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_they_are_written() {
        assert_eq!(plain("Vec<shapes::Circle, alloc::alloc::Global>"), "Vec<shapes::Circle>");
        assert_eq!(["__0", "__12", "__", "__x", "x"].map(field_name), ["0", "12", "__", "__x", "x"]);
        assert!(is_librarys_file("/w", "/rustc/59807616e/library/core/src/ptr/mod.rs"));
        assert!(is_librarys_file("/rust/deps/hashbrown-0.16.1", "src/raw/alloc.rs"));
        assert!(!is_librarys_file("/w", "src/library/mod.rs"));
    }
}
