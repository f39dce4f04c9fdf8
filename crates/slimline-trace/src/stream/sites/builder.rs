//! Putting a site table together.

use std::collections::{HashMap, HashSet};

use super::{Frame, Module, Name, Segment, Site, Skipped, Structure};

/// A [`Module`] that is being filled: each name and each frame is kept once.
#[derive(Debug)]
pub struct ModuleBuilder {
    module: Module,
    names: HashMap<String, Name>,
    frames: HashMap<Frame, u32>,
    structures: HashSet<Name>,
}

impl Default for ModuleBuilder {
    fn default() -> Self {
        let module = Module { names: vec![String::new()], ..Module::default() };
        let names = HashMap::from([(String::new(), Name::NONE)]);
        Self { module, names, frames: HashMap::new(), structures: HashSet::new() }
    }
}

impl ModuleBuilder {
    /// A table of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The name of this text.
    pub fn name(&mut self, text: &str) -> Name {
        if let Some(name) = self.names.get(text) {
            return *name;
        }
        let name = Name(self.module.names.len() as u32);
        self.module.names.push(text.to_owned());
        self.names.insert(text.to_owned(), name);
        name
    }

    /// The text of a name that [`Self::name`] gave out.
    pub fn text(&self, name: Name) -> &str {
        self.module.name(name)
    }

    /// The index of this frame, whose caller must have one already.
    pub fn frame(&mut self, frame: Frame) -> u32 {
        *self.frames.entry(frame).or_insert_with(|| {
            self.module.frames.push(frame);
            self.module.frames.len() as u32 - 1
        })
    }

    /// Whether a structure of this name was added.
    pub fn has_structure(&self, name: Name) -> bool {
        self.structures.contains(&name)
    }

    /// Adds a structure, unless there is one of its name.
    pub fn structure(&mut self, structure: Structure) {
        if self.structures.insert(structure.name) {
            self.module.structures.push(structure);
        }
    }

    /// Adds a segment of these sites and gives its number.
    pub fn segment(&mut self, sites: impl IntoIterator<Item = Site>) -> u32 {
        let first = self.module.sites.len();
        self.module.sites.extend(sites);
        let own = &self.module.sites[first..];
        let words = own.iter().map(Site::words).sum::<usize>() as u32;
        self.module.segments.push(Segment { first_site: first as u32, sites: own.len() as u32, words });
        self.module.segments.len() as u32 - 1
    }

    /// Segments so far.
    pub fn segments(&self) -> usize {
        self.module.segments.len()
    }

    /// Notes a function that stays as it is.
    pub fn skip(&mut self, function: &str, reason: &str) {
        let skipped = Skipped { function: self.name(function), reason: self.name(reason) };
        self.module.skipped.push(skipped);
    }

    /// The table. Who compiled what where is asked here: [`Module::source`] and its neighbours.
    pub fn finish(mut self, source: &str, object: &str, directory: &str, producer: &str) -> Module {
        self.module.source = self.name(source);
        self.module.object = self.name(object);
        self.module.directory = self.name(directory);
        self.module.producer = self.name(producer);
        self.module
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::record::SiteKind;

    #[test]
    fn names_and_frames_are_kept_once() {
        let mut builder = ModuleBuilder::new();
        let main = builder.name("main");
        assert_eq!(builder.name(""), Name::NONE);
        assert_eq!(builder.name("main"), main);
        let outer = Frame { function: main, line: 3, ..Frame::default() };
        let at = builder.frame(outer);
        let inner = builder.frame(Frame { line: 9, caller: Some(at), ..outer });
        assert_eq!((builder.frame(outer), inner), (at, 1));
        let node = Structure { name: main, size_bytes: 8, ..Structure::default() };
        assert!(!builder.has_structure(main));
        builder.structure(node.clone());
        builder.structure(Structure { size_bytes: 16, ..node.clone() });
        assert!(builder.has_structure(main));
        let copy = Site { frame: Some(inner), ..Site::new(SiteKind::Copy, 0) };
        assert_eq!(builder.segment([copy, Site::new(SiteKind::Load, 8)]), 0);
        assert_eq!(builder.segment([Site::new(SiteKind::Fill, 0)]), 1);
        let module = builder.finish("a.c", "a.o", "/", "clang");
        assert_eq!(module.segments[1], Segment { first_site: 2, sites: 1, words: 2 });
        assert_eq!(module.segments[0].words, 4);
        assert_eq!(module.structures, [node]);
        assert_eq!(Module::read_section(&module.encode().1).unwrap()[0].1, module);
    }
}
