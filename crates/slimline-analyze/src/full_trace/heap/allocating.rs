//! What is known of each site that may allocate or free, as site tables come.

use rustc_hash::FxHashMap;
use slimline_trace::stream::decode::{Program, SiteId};
use slimline_trace::stream::sites::{Module, Name, Site, SiteKind};

use super::super::findings::{allocated_at, is_own};

/// What is known of a site that may allocate or free.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allocating {
    /// It tells of a static variable, which nothing frees.
    pub(super) is_static: bool,
    /// It allocates in the source of a library that is in every program: who calls that tells what for.
    pub(super) is_librarys: bool,
    /// Which allocator it calls, by a number of our own; none of what allocates nothing.
    pub(super) allocator: Option<u32>,
    /// The first site of which all that is told is the same: an allocation is told by another one while tracing is paused, and loops
    /// that were unrolled have several.
    pub(super) same: u32,
    /// The C library calls there itself.
    pub(super) is_of_c_library: bool,
}

/// Functions of the GNU C library in which a thread that ends frees what the library kept for it.
const FREED_WITH_THREADS: [&str; 2] = ["__malloc_arena_thread_freeres", "tcache_thread_shutdown"];

/// Whether the C library itself calls there, of code that is translated: of what it frees that nobody allocated, it had kept blocks that
/// were freed already, and lists of its own.
fn is_of_c_library(module: &Module, site: &Site) -> bool {
    let object = module.name(module.object);
    let file = object.rsplit('/').next().unwrap_or(object);
    file.starts_with("libc.so") || FREED_WITH_THREADS.contains(&module.name(site.function))
}

/// All sites.
#[derive(Debug, Default)]
pub(super) struct AllocatingSites {
    sites: Vec<Allocating>,
    /// Allocators that are called, by name, with their numbers.
    allocators: FxHashMap<String, u32>,
    /// By number: whether it is one of the program's own functions, which is traced, too.
    are_traced: Vec<bool>,
    first: FxHashMap<Told, u32>,
    has_librarys: bool,
}

/// All that is told of a site, in words: of code that is translated each process has a table of its own.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Told {
    object: String,
    kind: SiteKind,
    size_bytes: u32,
    names: [String; 5],
    /// Functions and files, lines and columns.
    frames: Vec<([String; 2], [u32; 2])>,
}

impl Told {
    fn of(module: &Module, site: &Site) -> Self {
        let text = |name: Name| module.name(name).to_owned();
        let names = [site.function, site.variable, site.structure, site.field, site.detail].map(text);
        let frames = module.frames_of(site).map(|of| ([of.function, of.file].map(text), [of.line, of.column]));
        let (kind, size_bytes) = (site.kind, site.size_bytes);
        Self { object: text(module.object), kind, size_bytes, names, frames: frames.collect() }
    }
}

fn allocates(kind: SiteKind) -> bool {
    kind.makes_block() || matches!(kind, SiteKind::ResizeBegins | SiteKind::Free)
}

impl AllocatingSites {
    /// Takes in the sites that are new.
    pub(super) fn make_room(&mut self, program: &Program) {
        let known = self.sites.len() as u32;
        let new = known..program.site_count() as u32;
        if new.is_empty() {
            return;
        }
        let allocators = self.are_traced.len();
        for number in new.clone() {
            let (module, site) = program.site(SiteId(number));
            // A variable of a header may be in several units.
            let is_static = site.kind == SiteKind::Static;
            let is_told_apart = !(allocates(site.kind) || is_static) || site.frame.is_none();
            let same = if is_told_apart { number } else { *self.first.entry(Told::of(module, site)).or_insert(number) };
            // Of other sites it is something else: a variable's type, an instruction that is not traced.
            let allocator = allocates(site.kind).then(|| self.allocator(module.name(site.detail)));
            let is_librarys = site.kind.makes_block() && !is_own(&allocated_at(module, site).0);
            // Of code that is found while it runs, calls that were made before are not known.
            self.has_librarys |= is_librarys && !module.is_translated();
            self.sites.push(Allocating {
                is_static,
                is_of_c_library: allocates(site.kind) && is_of_c_library(module, site),
                is_librarys,
                allocator,
                same,
            });
        }
        // Functions that are new may be allocators; where an allocator is new, those that are known already may be it.
        let from = if self.are_traced.len() > allocators { 0 } else { known };
        self.find_traced(program, from..new.end);
    }

    fn allocator(&mut self, name: &str) -> u32 {
        if let Some(known) = self.allocators.get(name) {
            return *known;
        }
        let number = self.are_traced.len() as u32;
        self.are_traced.push(false);
        self.allocators.insert(name.to_owned(), number);
        number
    }

    /// Finds allocators among the functions of these sites.
    fn find_traced(&mut self, program: &Program, sites: std::ops::Range<u32>) {
        // Mostly a function's sites follow each other.
        let mut last = None;
        for number in sites {
            let (module, site) = program.site(SiteId(number));
            let function = (program.module_index(SiteId(number)), site.function);
            if last == Some(function) || site.function.is_none() {
                continue;
            }
            last = Some(function);
            if let Some(allocator) = self.allocators.get(module.name(site.function)) {
                self.are_traced[*allocator as usize] = true;
            }
        }
    }

    /// Whether any site was taken in.
    pub(super) fn has_any(&self) -> bool {
        !self.sites.is_empty()
    }

    /// Whether libraries that are in every program allocate, where it is known from the beginning which functions run.
    pub(super) fn has_librarys(&self) -> bool {
        self.has_librarys
    }

    /// What is known of a site that was taken in.
    pub(super) fn of(&self, site: u32) -> Allocating {
        self.sites[site as usize]
    }

    /// Whether it calls an allocator of the program's own, which is traced, too.
    pub(super) fn is_outer(&self, site: u32) -> bool {
        self.of(site).allocator.is_some_and(|allocator| self.are_traced[allocator as usize])
    }

    /// Whether any does.
    pub(super) fn has_outer(&self) -> bool {
        self.are_traced.contains(&true)
    }
}

#[cfg(test)]
mod tests {
    use slimline_trace::stream::sites::{Frame, ModuleBuilder};

    use super::*;

    /// A module whose sites are of these functions and call these allocators.
    fn module(sites: &[(&str, &str)]) -> Module {
        let mut builder = ModuleBuilder::new();
        let sites: Vec<Site> = sites
            .iter()
            .map(|(function, detail)| {
                let [function, detail] = [*function, *detail].map(|name| builder.name(name));
                let kind = if detail.is_none() { SiteKind::Load } else { SiteKind::Allocate };
                Site { function, detail, ..Site::new(kind, 8) }
            })
            .collect();
        builder.segment(sites);
        builder.finish("", "", "", "test")
    }

    /// A part of an object's table, with a site that is called so; what is before it has other names.
    fn part(object: &str, line: u32, before: &str) -> Module {
        let mut builder = ModuleBuilder::new();
        builder.name(before);
        let [detail, file] = ["malloc", "a.c"].map(|name| builder.name(name));
        let frame = Some(builder.frame(Frame { file, line, ..Frame::default() }));
        builder.segment([Site { detail, frame, ..Site::new(SiteKind::Allocate, 0) }]);
        builder.finish("", object, "", "test")
    }

    #[test]
    fn sites_of_which_the_same_is_told_are_one() {
        let (mut program, mut sites) = (Program::new(), AllocatingSites::default());
        for (number, module) in (1..).zip([part("a", 3, ""), part("a", 3, "x"), part("a", 4, ""), part("b", 3, "")]) {
            program.add(slimline_trace::stream::record::ModuleId::from_hash(number << 40), module);
            sites.make_room(&program);
        }
        assert_eq!([0, 1, 2, 3].map(|site| sites.of(site).same), [0, 0, 2, 3]);
    }

    #[test]
    fn allocators_that_are_traced_are_found_whichever_comes_first() {
        let parts = [
            module(&[("main", "take"), ("main", "malloc"), ("pool", "")]),
            module(&[("take", ""), ("other", "pool")]),
            module(&[("last", "malloc")]),
        ];
        let outer =
            |sites: &AllocatingSites| (0..sites.sites.len() as u32).map(|it| sites.is_outer(it)).collect::<Vec<_>>();
        let (mut program, mut growing) = (Program::new(), AllocatingSites::default());
        let mut seen = Vec::new();
        for part in parts {
            program.add(part.encode().0, part);
            growing.make_room(&program);
            // As if all had been there from the beginning.
            let mut at_once = AllocatingSites::default();
            at_once.make_room(&program);
            assert_eq!(outer(&growing), outer(&at_once));
            seen.push((outer(&growing), growing.has_outer()));
        }
        assert_eq!(seen[0], (vec![false; 3], false));
        assert_eq!(seen[1], (vec![true, false, false, false, true], true));
        assert_eq!(seen[2].0, [true, false, false, false, true, false]);
    }
}
