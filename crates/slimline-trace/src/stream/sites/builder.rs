//! Putting a site table together.

use std::collections::HashMap;

use super::{Body, Frame, LoadedAddress, Module, Name, Segment, Site, Skipped, Structure, Unasked};

/// A [`Module`] that is being filled: each name and each frame is kept once.
#[derive(Debug)]
pub struct ModuleBuilder {
    module: Module,
    names: HashMap<String, Name>,
    frames: HashMap<Frame, u32>,
    structures: HashMap<Name, u32>,
}

impl Default for ModuleBuilder {
    fn default() -> Self {
        let module = Module { names: vec![String::new()], ..Module::default() };
        let names = HashMap::from([(String::new(), Name::NONE)]);
        Self { module, names, frames: HashMap::new(), structures: HashMap::new() }
    }
}

impl ModuleBuilder {
    /// A table of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A part of a table, from this segment on.
    pub fn from_segment(first: u32) -> Self {
        let mut part = Self::default();
        part.module.first_segment = first;
        part
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

    /// The index of the structure of this name, if one was added.
    pub fn structure_named(&self, name: Name) -> Option<u32> {
        self.structures.get(&name).copied()
    }

    /// Adds a structure, unless there is one of its name, and gives its index. What it is made of must have been added.
    pub fn structure(&mut self, structure: Structure) -> u32 {
        if let Some(known) = self.structure_named(structure.name) {
            return known;
        }
        let index = self.module.structures.len() as u32;
        if !structure.name.is_none() {
            self.structures.insert(structure.name, index);
        }
        self.module.structures.push(structure);
        index
    }

    /// Adds a segment of these sites and gives its number.
    pub fn segment(&mut self, sites: impl IntoIterator<Item = Site>) -> u32 {
        self.segment_behind(None, sites)
    }

    /// The same of one whose record goes on where that of a segment that was added before ends.
    pub fn segment_behind(&mut self, continues: Option<u32>, sites: impl IntoIterator<Item = Site>) -> u32 {
        let first = self.module.sites.len();
        self.module.sites.extend(sites);
        let own = &self.module.sites[first..];
        let before = continues.map_or(0, |segment| self.module.segments[segment as usize].words);
        let words = before + own.iter().map(Site::words).sum::<usize>() as u32;
        self.module.segments.push(Segment { continues, first_site: first as u32, sites: own.len() as u32, words });
        self.module.segments.len() as u32 - 1
    }

    /// Sites so far: the next one has this index.
    pub fn sites(&self) -> usize {
        self.module.sites.len()
    }

    /// Notes what is known of the address of a load, and of what it loads.
    pub fn address(&mut self, address: LoadedAddress) {
        self.module.addresses.push(address);
    }

    /// Notes what the loops of a function are made of, and what is around them; of these bodies each tells by its index among them which one is
    /// around it.
    pub fn bodies(&mut self, bodies: Vec<Body>) {
        let before = self.module.bodies.len() as u32;
        let of_module = |body: Body| Body { around: body.around.map(|around| before + around), ..body };
        self.module.bodies.extend(bodies.into_iter().map(of_module));
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

    /// Notes a function with loops in which nobody asks whether it is to be traced.
    pub fn unasked(&mut self, function: &str, frame: Option<u32>, reason: &str) {
        let unasked = Unasked { function: self.name(function), frame, reason: self.name(reason) };
        self.module.unasked.push(unasked);
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
        assert_eq!(builder.structure_named(main), None);
        assert_eq!(builder.structure(node.clone()), 0);
        builder.structure(Structure { size_bytes: 16, ..node.clone() });
        assert_eq!(builder.structure_named(main), Some(0));
        let nameless = Structure { size_bytes: 4, ..Structure::default() };
        assert_eq!([nameless.clone(), nameless.clone()].map(|it| builder.structure(it)), [1, 2]);
        let copy = Site { frame: Some(inner), ..Site::new(SiteKind::Copy, 0) };
        assert_eq!(builder.segment([copy, Site::new(SiteKind::Load, 8)]), 0);
        assert_eq!(builder.segment([Site::new(SiteKind::Fill, 0)]), 1);
        let module = builder.finish("a.c", "a.o", "/", "clang");
        assert_eq!(module.segments[1], Segment { continues: None, first_site: 2, sites: 1, words: 2 });
        assert_eq!(module.segments[0].words, 4);
        assert_eq!(module.structures, [node, nameless.clone(), nameless]);
        assert_eq!(Module::read_section(&module.encode().1).unwrap()[0].1, module);
    }
}
