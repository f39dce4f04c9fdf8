//! The table of sites: each memory instruction once, whatever number of processes run it.

use rustc_hash::FxHashMap;
use slimline_trace::access::SiteId;
use slimline_trace::address::{Avma, Svma};
use slimline_trace::tables::Name;

use crate::code::source::Loops;
use crate::data::address_space::{AddressSpace, MappingName, Modules};
use crate::data::wrappers::WrapperRules;
use crate::tables::{self, Frame, Loop, ModuleId, Site, SourcePosition, Tables};

/// Accesses counted and weighed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) weight: u64,
    pub(super) accesses: u64,
}

pub(super) struct Sites {
    rows: Vec<Site>,
    tallies: Vec<Tally>,
    /// Number of the module of each row.
    modules: Vec<Option<usize>>,
    by_code: FxHashMap<(Option<usize>, u64), SiteId>,
    /// Of code that an imported file names by itself, by that.
    by_name: FxHashMap<(String, String, u32), SiteId>,
    /// Rows of the table of modules: those that have sites, in the order they were met.
    module_ids: FxHashMap<usize, ModuleId>,
    module_order: Vec<usize>,
    loops: Loops,
    rules: WrapperRules,
}

impl Sites {
    pub(super) fn new(rules: WrapperRules) -> Self {
        Self {
            rows: vec![Site::unknown()],
            tallies: vec![Tally::default()],
            modules: vec![None],
            by_code: FxHashMap::default(),
            by_name: FxHashMap::default(),
            module_ids: FxHashMap::default(),
            module_order: Vec::new(),
            loops: Loops::new(rules.clone()),
            rules,
        }
    }

    /// The site of an instruction; makes its row where it is new.
    pub(super) fn find(&mut self, space: &AddressSpace, modules: &Modules<'_>, ip: Avma, time_ns: u64) -> SiteId {
        if ip.0 == 0 {
            return Tables::UNKNOWN_SITE;
        }
        let loaded = space.module_at(ip, time_ns);
        let module = loaded.map(|loaded| loaded.module);
        let svma = loaded.map_or(Svma(ip.0), |loaded| loaded.svma(ip));
        if let Some(&site) = self.by_code.get(&(module, svma.0)) {
            return site;
        }
        let site = SiteId(self.rows.len() as u32);
        let row = match module {
            Some(number) => {
                let (module, id) = (modules.get(number), self.module_id(number));
                let frames = module.frames(svma);
                let is_own =
                    |frame: &Frame| frame.position.as_ref().is_some_and(|at| !self.rules.is_library_source(&at.file));
                Site {
                    module: Some(id),
                    svma,
                    own_frame: frames.iter().position(is_own),
                    frames,
                    innermost_loop: self.loops.innermost(module, id, svma),
                    is_chased: self.loops.is_chased(module, id, svma),
                    ..Site::unknown()
                }
            }
            None => Site { svma, frames: vec![frame_outside_files(space, ip, time_ns)], ..Site::unknown() },
        };
        self.rows.push(row);
        self.tallies.push(Tally::default());
        self.modules.push(module);
        self.by_code.insert((module, svma.0), site);
        site
    }

    /// The site of code that an imported file names by itself: all that it says the same of is one.
    pub(super) fn named(&mut self, name: &Name) -> SiteId {
        let key = (name.name.clone(), name.file.clone(), name.line);
        if let Some(&site) = self.by_name.get(&key) {
            return site;
        }
        let site = SiteId(self.rows.len() as u32);
        let position =
            (!name.file.is_empty()).then(|| SourcePosition { file: name.file.clone(), line: name.line, column: 0 });
        let function = if name.name.is_empty() { UNTOLD_FUNCTION.to_owned() } else { name.name.clone() };
        let own_frame = position.is_some().then_some(0);
        let frame = Frame { function, module: String::new(), position, inlined: false };
        self.rows.push(Site { svma: Svma(name.start.0), frames: vec![frame], own_frame, ..Site::unknown() });
        self.tallies.push(Tally::default());
        self.modules.push(None);
        self.by_name.insert(key, site);
        site
    }

    fn module_id(&mut self, number: usize) -> ModuleId {
        *self.module_ids.entry(number).or_insert_with(|| {
            self.module_order.push(number);
            ModuleId(self.module_order.len() as u32 - 1)
        })
    }

    pub(super) fn weigh(&mut self, site: SiteId, weight: u64) {
        let tally = &mut self.tallies[site.index()];
        tally.weight += weight;
        tally.accesses += 1;
    }

    pub(super) fn count(&mut self, site: SiteId) {
        self.tallies[site.index()].accesses += 1;
    }

    /// Where a site's code is, by number of its module.
    pub(super) fn code(&self, site: SiteId) -> Option<(usize, Svma)> {
        Some((self.modules[site.index()]?, self.rows[site.index()].svma))
    }

    pub(super) fn row(&self, site: SiteId) -> &Site {
        &self.rows[site.index()]
    }

    pub(super) fn row_mut(&mut self, site: SiteId) -> &mut Site {
        &mut self.rows[site.index()]
    }

    /// Every row of a module, with the module's number.
    pub(super) fn in_modules(&self) -> impl Iterator<Item = (SiteId, usize, &Site)> {
        (0..).map(SiteId).zip(&self.modules).zip(&self.rows).filter_map(|((id, &module), row)| Some((id, module?, row)))
    }

    /// Every row with the number of its module and what was counted.
    pub(super) fn tallies(&self) -> impl Iterator<Item = (&Site, Option<usize>, Tally)> {
        self.rows.iter().zip(&self.modules).zip(&self.tallies).map(|((row, &module), &tally)| (row, module, tally))
    }

    pub(super) fn into_rows(self, modules: &Modules<'_>) -> (Vec<tables::Module>, Vec<Site>, Vec<Loop>) {
        let named = self.module_order.iter().map(|&number| modules.get(number).row()).collect();
        (named, self.rows, self.loops.into_rows())
    }
}

/// Name of the function where an imported file tells a line without it.
const UNTOLD_FUNCTION: &str = "[function not told]";
/// Mappings with code that the kernel gives to every process.
const KERNELS_CODE: [&str; 2] = ["[vdso]", "[vsyscall]"];

/// Code that is in no file is named by its mapping, and by its address; but the kernel's own (`[vdso]`) is one thing.
fn frame_outside_files(space: &AddressSpace, ip: Avma, time_ns: u64) -> Frame {
    let name = match space.mapping_at(ip.0, time_ns).map(|row| space.name(row)) {
        Some(MappingName::Special(name)) if KERNELS_CODE.contains(&name.as_str()) => {
            return Frame { function: name.clone(), module: name.clone(), position: None, inlined: false };
        }
        Some(MappingName::Special(name) | MappingName::File(name)) => name.clone(),
        Some(MappingName::Heap) => "[heap]".to_owned(),
        Some(MappingName::Stack) => "[stack]".to_owned(),
        Some(MappingName::Anonymous) => "[anonymous]".to_owned(),
        None => "[unmapped]".to_owned(),
    };
    Frame { function: format!("{name}+{ip}"), module: name, position: None, inlined: false }
}
