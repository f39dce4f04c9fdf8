//! Site tables of code that a translator finds while it runs.

use std::collections::HashMap;

use iced_x86::{Decoder, DecoderOptions, OpKind};
use slimline_trace::address::Svma;
use slimline_trace::stream::hooks::Hook;
use slimline_trace::stream::record::{Header, ModuleId, SiteKind};
use slimline_trace::stream::sites::{ModuleBuilder, Site};
use slimline_trace::stream::translated::SegmentCode;

use super::structures::Structures;
use super::{Unit, code_of};
use crate::module::Module;
use crate::module::bias::Load;
use crate::module::debug::Debug;
use crate::module::store::FileStore;
use crate::typing::debug_info::DebugInfo;
use crate::typing::infer::SiteType;
use crate::typing::layout::TypeTable;

/// What "compiled" it.
const PRODUCER: &str = "translated";

/// The files that code of a run comes from.
pub struct TranslatedCode<'a> {
    store: &'a FileStore<'a>,
    /// By path.
    files: HashMap<String, CodeFile<'a>>,
}

/// A file, and what is known of its code so far.
struct CodeFile<'a> {
    module: Module<'a>,
    info: Option<DebugInfo<'a>>,
    loads: Vec<Load>,
    /// Where its units were compiled.
    directories: Vec<String>,
    types: TypeTable,
    /// By where a function begins: what its instructions access. Functions are followed once, however often some of their code is found.
    functions: HashMap<Svma, HashMap<Svma, SiteType>>,
}

impl<'a> TranslatedCode<'a> {
    /// Nothing is known yet; files come from `store`.
    pub fn new(store: &'a FileStore<'a>) -> Self {
        Self { store, files: HashMap::new() }
    }

    /// The blob of a part of a module's table: segments from `first` on, which come from one file, or from none.
    pub fn table(&mut self, module: ModuleId, first: u32, file: Option<&str>, segments: &[SegmentCode]) -> Vec<u8> {
        let Some(path) = file else {
            let mut table = ModuleBuilder::from_segment(first);
            for code in segments {
                table.segment(sites(code, |hook| Site::new(hook.kind, hook.size_bytes)));
            }
            return table.finish("", "", "", PRODUCER).encode_as(module);
        };
        let store = self.store;
        let file = self.files.entry(path.to_owned()).or_insert_with(|| CodeFile::open(store, path));
        for code in segments {
            file.follow(file.svma(code.place));
        }
        let table = ModuleBuilder::from_segment(first);
        let CodeFile { module: of, types, directories, .. } = &*file;
        let types = types.rows();
        let mut unit = Unit { table, structures: Structures::default(), types, module: of, directories };
        for code in segments {
            let sites: Vec<Site> = sites(code, |hook| {
                let hook = Hook { place: file.svma(hook.place).0, ..hook };
                unit.site(&hook, file.accessed(&hook), None)
            })
            .collect();
            unit.table.segment(sites);
        }
        unit.table.finish("", path, "", PRODUCER).encode_as(module)
    }
}

/// The sites of a segment: when it happened, where that is told, and the access.
fn sites(code: &SegmentCode, mut site: impl FnMut(Hook<'static>) -> Site) -> impl Iterator<Item = Site> {
    let kind = SiteKind::from_number(code.kind).filter(|kind| kind.is_plain()).unwrap_or(SiteKind::Load);
    let hook = Hook {
        header: Header::new(ModuleId::RUNTIME, 0),
        place: code.place,
        kind,
        is_atomic: code.is_atomic,
        is_volatile: false,
        size_bytes: code.bytes,
        detail: "",
    };
    let access = site(hook);
    let acquire = code.is_atomic.then(|| Site::new(SiteKind::Acquire, 0));
    acquire.into_iter().chain([access])
}

impl<'a> CodeFile<'a> {
    fn open(store: &'a FileStore<'a>, path: &str) -> Self {
        let module = Module::open(store, path);
        let info = module.debug().map(|debug| DebugInfo::of(debug).with_virtual_tables(module.virtual_tables()));
        let directories = module.debug().map(Debug::directories).unwrap_or_default();
        let loads = module.image().map(|image| image.loads().collect()).unwrap_or_default();
        Self { module, info, loads, directories, types: TypeTable::new(), functions: HashMap::new() }
    }

    /// The address of a byte of the file, as linked.
    fn svma(&self, offset: u64) -> Svma {
        let holds =
            |load: &&Load| (load.file_offset..load.file_offset.saturating_add(load.file_bytes)).contains(&offset);
        let load = self.loads.iter().find(holds);
        Svma(load.map_or(offset, |load| (offset - load.file_offset).wrapping_add(load.svma.0)))
    }

    /// Finds what the instructions of the function around some code access, unless that was done.
    fn follow(&mut self, code: Svma) {
        let Some((start, end)) = self.module.function_bounds(code) else { return };
        let Some(info) = self.info.as_ref().filter(|_| !self.functions.contains_key(&start)) else { return };
        let length = usize::try_from(end.0.saturating_sub(start.0)).unwrap_or(0);
        let bytes = self.module.image().and_then(|image| image.bytes_from(start).get(..length)).unwrap_or(&[]);
        let accessing = Decoder::with_ip(64, bytes, start.0, DecoderOptions::NONE)
            .into_iter()
            .filter(|instruction| instruction.op_kinds().any(|kind| kind == OpKind::Memory))
            .map(|instruction| Svma(instruction.ip()));
        let places: Vec<Svma> = accessing.collect();
        let answers = info.infer(bytes, start, &places, &mut self.types);
        let known = places.into_iter().zip(answers).filter_map(|(place, answer)| Some((place, answer.ok()?)));
        self.functions.insert(start, known.collect());
    }

    fn accessed(&self, hook: &Hook<'_>) -> Option<&SiteType> {
        let (start, _) = self.module.function_bounds(code_of(hook))?;
        self.functions.get(&start)?.get(&Svma(hook.place))
    }
}
