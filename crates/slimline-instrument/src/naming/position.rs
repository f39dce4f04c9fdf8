//! Where an instruction was written, through all functions that it was inlined into.

use std::borrow::Cow;
use std::collections::HashMap;

use slimline_trace::fortran_names;
use slimline_trace::stream::sites::{Frame, ModuleBuilder};

use crate::llvm::{Metadata, MetadataKind, Module};

use super::rust::scopes_of;

/// Most scopes around a position, and most calls inlined into each other, that are followed.
const MAX_DEPTH: usize = 256;

/// Frames of positions, each made once.
pub(super) struct Positions<'m> {
    directory: String,
    frames: HashMap<Metadata<'m>, Option<u32>>,
    /// Functions that others were inlined into as versions of them, with those.
    versions: HashMap<Metadata<'m>, Metadata<'m>>,
}

impl<'m> Positions<'m> {
    pub(super) fn new(module: &'m Module<'_>) -> Self {
        let file = module.named_metadata(c"llvm.dbg.cu").into_iter().find_map(Metadata::file);
        let directory = file.map(|(directory, _)| directory.into_owned()).unwrap_or_default();
        Self { directory, frames: HashMap::new(), versions: HashMap::new() }
    }

    /// The function that this position is in, of those that were inlined into the described one.
    pub(super) fn inlined_into(location: Metadata<'m>, described: Metadata<'m>) -> Option<Metadata<'m>> {
        let chain = std::iter::successors(Some(location), |inner| inner.inlined_at()).take(MAX_DEPTH);
        let outermost = chain.take_while(|location| location.scope() != Some(described)).last()?;
        subprogram_of(outermost.scope()?).filter(|subprogram| *subprogram != described)
    }

    /// Has what is in the described function be of the original, which was inlined into it.
    pub(super) fn is_version(&mut self, described: Metadata<'m>, original: Metadata<'m>) {
        self.versions.insert(described, original);
    }

    pub(super) fn directory(&self) -> &str {
        &self.directory
    }

    /// The index of the frame of a position, with those of its callers before it.
    pub(super) fn frame(&mut self, table: &mut ModuleBuilder, location: Metadata<'m>) -> Option<u32> {
        let is_version = |location: &Metadata<'m>| location.scope().is_some_and(|it| self.versions.contains_key(&it));
        let chain = std::iter::successors(Some(location), |inner| inner.inlined_at()).take(MAX_DEPTH);
        let chain: Vec<_> = chain.take_while(|location| !is_version(location)).collect();
        let mut caller = None;
        for location in chain.into_iter().rev() {
            if let Some(known) = self.frames.get(&location) {
                caller = *known;
                continue;
            }
            let Some((line, column)) = location.line_and_column() else { continue };
            let scope = location.scope();
            let function = table.name(&scope.map(function_of).unwrap_or_default());
            let file = table.name(&scope.map(|scope| self.file(scope)).unwrap_or_default());
            let frame = table.frame(Frame { function, file, line, column, caller });
            self.frames.insert(location, Some(frame));
            caller = Some(frame);
        }
        caller
    }

    /// The index of the frame of what is in a function of this description, in no line of it.
    pub(super) fn frame_of_function(&mut self, table: &mut ModuleBuilder, function: Metadata<'m>) -> u32 {
        let function = self.versions.get(&function).copied().unwrap_or(function);
        let (name, file) = (table.name(&function_of(function)), table.name(&self.file(function)));
        table.frame(Frame { function: name, file, ..Frame::default() })
    }

    /// The file of a scope: as the compiler was given it where it starts in the directory of compilation.
    fn file(&self, scope: Metadata<'m>) -> String {
        let Some((directory, name)) = scope.file() else { return String::new() };
        if name.starts_with('/') || directory.is_empty() || *directory == *self.directory {
            return name.into_owned();
        }
        format!("{directory}/{name}")
    }
}

/// A function as its source has it: Rust's with the path to it, and without the hash that tells it from others of its name; Fortran's
/// with its module. Names of other languages stay as they are.
pub(crate) fn written(linked: &str) -> Cow<'_, str> {
    // Their names are Rust's own: C++'s begin like those before them, and have no hash.
    let is_rust = linked.starts_with("_R") || linked.starts_with("_ZN") && linked.contains("17h");
    match rustc_demangle::try_demangle(linked) {
        Ok(written) if is_rust => format!("{written:#}").into(),
        _ => fortran_names::written(linked).map_or(Cow::Borrowed(linked), Cow::Owned),
    }
}

/// The function that a scope is in.
fn subprogram_of(scope: Metadata<'_>) -> Option<Metadata<'_>> {
    const SCOPE: usize = 1;
    let mut scopes = std::iter::successors(Some(scope), |scope| scope.operand(SCOPE)).take(MAX_DEPTH);
    scopes.find(|scope| scope.kind() == MetadataKind::Subprogram)
}

/// The name of the function that a scope is in.
fn function_of(scope: Metadata<'_>) -> String {
    const NAME: usize = 2;
    const LINKED: usize = 3;
    let Some(function) = subprogram_of(scope) else { return String::new() };
    let linked = function.operand_text(LINKED);
    if let Cow::Owned(written) = written(&linked) {
        return written;
    }
    // Namespaces and classes; C's functions are in files.
    let mut names: Vec<_> = scopes_of(function).map(|scope| scope.operand_text(NAME)).collect();
    names.reverse();
    names.push(function.operand_text(NAME));
    names.retain(|name| !name.is_empty());
    names.join("::")
}

#[cfg(test)]
mod tests {
    use super::written;

    #[test]
    fn functions_as_they_are_written() {
        for (linked, expected) in [
            ("_ZN6bodies5drift17h0123456789abcdefE", "bodies::drift"),
            ("_RNvCsfLfy6EI15iL_7___rustc12___rust_alloc", "__rustc::__rust_alloc"),
            ("main", "main"),
            ("_QMmeshPstep", "mesh::step"),
            ("_ZN3foo3barEv", "_ZN3foo3barEv"),
            ("", ""),
        ] {
            assert_eq!(written(linked), expected);
        }
    }
}
