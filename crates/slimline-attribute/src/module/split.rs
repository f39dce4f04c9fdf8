//! Split debug information (`-gsplit-dwarf`): units whose content is in a `.dwo` file, or in the program's `.dwp`.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use gimli::{DwarfPackage, DwoId};
use rustc_hash::FxHashMap;
use slimline_trace::path_text::text_of_bytes;

use super::image::{Image, Slice};
use super::store::FileStore;

type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;

/// Finds and keeps the split units of one module.
pub(super) struct SplitUnits<'a> {
    store: &'a FileStore<'a>,
    /// Path of the file that has the skeletons of the units.
    path: String,
    package: OnceCell<Option<DwarfPackage<Slice<'a>>>>,
    found: RefCell<FxHashMap<u64, Option<Arc<Dwarf<'a>>>>>,
}

impl<'a> SplitUnits<'a> {
    pub(super) fn new(store: &'a FileStore<'a>, path: &str) -> Self {
        Self { store, path: path.to_owned(), package: OnceCell::new(), found: RefCell::default() }
    }

    /// The sections that hold the unit with that id, which its skeleton in `parent` says to be in `name`, relative to
    /// `directory`. A file with another id is not taken: it is of another build.
    pub(super) fn find(
        &self,
        id: DwoId,
        parent: &Dwarf<'a>,
        directory: Option<Slice<'a>>,
        name: Option<Slice<'a>>,
    ) -> Option<Arc<Dwarf<'a>>> {
        if let Some(known) = self.found.borrow().get(&id.0) {
            return known.clone();
        }
        let packaged = self.package().and_then(|package| package.find_cu(id, parent).ok().flatten());
        let found = packaged.or_else(|| self.open(id, parent, directory, name)).map(Arc::new);
        self.found.borrow_mut().insert(id.0, found.clone());
        found
    }

    fn package(&self) -> Option<&DwarfPackage<Slice<'a>>> {
        self.package
            .get_or_init(|| {
                let image = self.store.open(&format!("{}.dwp", self.path)).and_then(Image::parse)?;
                let load = |id: gimli::SectionId| Ok::<_, gimli::Error>(self.section(&image, id));
                DwarfPackage::load(load, Slice::new(&[], gimli::LittleEndian)).ok()
            })
            .as_ref()
    }

    fn open(
        &self,
        id: DwoId,
        parent: &Dwarf<'a>,
        directory: Option<Slice<'a>>,
        name: Option<Slice<'a>>,
    ) -> Option<Dwarf<'a>> {
        let name = text_of_bytes(name?.slice());
        let path = match directory.map(|directory| text_of_bytes(directory.slice())) {
            Some(directory) if !name.starts_with('/') => format!("{directory}/{name}"),
            _ => name.into_owned(),
        };
        let image = self.store.open(&path).and_then(Image::parse)?;
        let load = |id: gimli::SectionId| Ok::<_, core::convert::Infallible>(self.section(&image, id));
        let mut dwarf = gimli::Dwarf::load(load).unwrap_or_else(|never| match never {});
        dwarf.make_dwo(parent);
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if dwarf.unit(header).is_ok_and(|unit| unit.dwo_id == Some(id)) {
                return Some(dwarf);
            }
        }
        None
    }

    fn section(&self, image: &Image<'a>, id: gimli::SectionId) -> Slice<'a> {
        match id.dwo_name() {
            Some(name) => image.section(self.store, name),
            None => Slice::new(&[], gimli::LittleEndian),
        }
    }
}
