//! Site tables of code that a translator finds while it runs.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use iced_x86::{Decoder, DecoderOptions, OpKind};
use slimline_trace::address::Svma;
use slimline_trace::stream::hooks::Hook;
use slimline_trace::stream::record::{Header, ModuleId, SiteKind};
use slimline_trace::stream::sites::{ModuleBuilder, Site, TRANSLATED};
use slimline_trace::stream::translated::{Position, SiteCode};

use super::scalars::value;
use super::structures::Structures;
use super::{Allocated, Unit, code_of, compiled_in};
use crate::module::Module;
use crate::module::bias::Load;
use crate::module::store::FileStore;
use crate::typing::infer::SiteType;
use crate::typing::layout::TypeTable;

/// The files that code of a run comes from.
pub struct TranslatedCode<'a> {
    store: &'a FileStore<'a>,
    /// By path.
    files: HashMap<String, CodeFile<'a>>,
}

/// A file, and what is known of its code so far.
struct CodeFile<'a> {
    module: Module<'a>,
    loads: Vec<Load>,
    /// As [`compiled_in`] has it.
    directory: String,
    types: TypeTable,
    /// By where a function begins: what its instructions access. Functions are followed once, however often some of their code is found.
    functions: HashMap<Svma, HashMap<Svma, SiteType>>,
}

impl<'a> TranslatedCode<'a> {
    /// Nothing is known yet; files come from `store`.
    pub fn new(store: &'a FileStore<'a>) -> Self {
        Self { store, files: HashMap::new() }
    }

    /// The blob of a part of a module's table: segments from `first` on, whose sites come from one file, or from none, and call these
    /// functions.
    pub fn table(
        &mut self,
        (module, first): (ModuleId, u32),
        file: Option<&str>,
        code: &[SiteCode],
        functions: &[String],
    ) -> Vec<u8> {
        let mut table = ModuleBuilder::from_segment(first);
        let Some(path) = file else {
            let sites: Vec<Site> = code
                .iter()
                .map(|code| {
                    let hook = hook(code, code.place, functions);
                    let detail = table.name(hook.detail);
                    Site { detail, value: code.value, ..Site::new(hook.kind, hook.size_bytes) }
                })
                .collect();
            add_segments(&mut table, code, &sites);
            return table.finish("", "", "", TRANSLATED).encode_as(module);
        };
        let store = self.store;
        let file = self.files.entry(path.to_owned()).or_insert_with(|| CodeFile::open(store, path));
        let hooks: Vec<Hook<'_>> = code.iter().map(|code| hook(code, file.svma(code.place).0, functions)).collect();
        let made: Vec<Option<Allocated>> = hooks.iter().map(|hook| file.follow(hook)).collect();
        let CodeFile { module: of, types: table_of_types, directory, .. } = &*file;
        let types = table_of_types.rows();
        let mut unit = Unit { table, structures: Structures::default(), types, module: of, directory };
        let site = |((hook, made), code): ((&Hook<'_>, &Option<Allocated>), &SiteCode)| {
            let accessed = file.accessed(hook);
            let of = accessed.map(|accessed| accessed.accessed);
            let value = code.value.map(|by_instruction| value(table_of_types, of, hook.size_bytes, by_instruction));
            let site = unit.site(hook, accessed, made.as_ref());
            // By which one that is a part of several blocks is known again.
            let detail =
                if hook.kind.is_plain() { unit.table.name(&format!("{:#x}", hook.place)) } else { site.detail };
            Site { value, detail, ..site }
        };
        let sites: Vec<Site> = hooks.iter().zip(&made).zip(code).map(site).collect();
        add_segments(&mut unit.table, code, &sites);
        unit.table.finish("", path, directory, TRANSLATED).encode_as(module)
    }
}

/// Adds the segments that these sites are of, with when each happened where that is told.
fn add_segments(table: &mut ModuleBuilder, code: &[SiteCode], sites: &[Site]) {
    let mut rest = code.iter().zip(sites).peekable();
    let mut before = None;
    while let Some((first, site)) = rest.next() {
        let with_stamp = |code: &SiteCode, site: &Site| {
            let stamp = code.is_stamped.then(|| Site::new(SiteKind::Acquire, 0));
            stamp.into_iter().chain([Site { relative: code.relative, ..*site }])
        };
        let mut own: Vec<Site> = with_stamp(first, site).collect();
        while let Some((code, site)) = rest.next_if(|(code, _)| code.position == Position::Joins) {
            own.extend(with_stamp(code, site));
        }
        let continues = before.filter(|_| first.position == Position::Continues);
        before = Some(table.segment_behind(continues, own));
    }
}

/// What a site does at that place, as of a hook that gcc calls.
fn hook<'f>(code: &SiteCode, place: u64, functions: &'f [String]) -> Hook<'f> {
    let kind = SiteKind::from_number(code.kind).filter(|kind| kind.may_be_relative() || is_of_allocator(*kind));
    Hook {
        header: Header::new(ModuleId::RUNTIME, 0),
        place,
        kind: kind.unwrap_or(SiteKind::Load),
        is_atomic: code.is_stamped && kind == Some(SiteKind::Update),
        is_volatile: false,
        size_bytes: code.bytes,
        detail: code.function.and_then(|function| functions.get(function as usize)).map_or("", String::as_str),
    }
}

fn is_of_allocator(kind: SiteKind) -> bool {
    kind.makes_block() || matches!(kind, SiteKind::Free | SiteKind::ResizeBegins)
}

impl<'a> CodeFile<'a> {
    fn open(store: &'a FileStore<'a>, path: &str) -> Self {
        let module = Module::open(store, path);
        let directory = compiled_in(&module);
        let loads = module.image().map(|image| image.loads().collect()).unwrap_or_default();
        Self { module, loads, directory, types: TypeTable::new(), functions: HashMap::new() }
    }

    /// The address of a byte of the file, as linked.
    fn svma(&self, offset: u64) -> Svma {
        let holds =
            |load: &&Load| (load.file_offset..load.file_offset.saturating_add(load.file_bytes)).contains(&offset);
        let load = self.loads.iter().find(holds);
        Svma(load.map_or(offset, |load| (offset - load.file_offset).wrapping_add(load.svma.0)))
    }

    /// Finds what the instructions of the function around a hook access, unless that was done; of an allocation what is allocated.
    fn follow(&mut self, hook: &Hook<'_>) -> Option<Allocated> {
        let (start, end) = self.module.function_bounds(code_of(hook))?;
        let info = self.module.debug_info()?;
        let code = self.module.code((start, end)).unwrap_or(&[]);
        if is_of_allocator(hook.kind) {
            return hook.kind.makes_block().then(|| Allocated::by(info, (code, start), hook, &mut self.types));
        }
        if let Entry::Vacant(unknown) = self.functions.entry(start) {
            let accessing = Decoder::with_ip(64, code, start.0, DecoderOptions::NONE)
                .into_iter()
                .filter(|instruction| instruction.op_kinds().any(|kind| kind == OpKind::Memory))
                .map(|instruction| Svma(instruction.ip()));
            let places: Vec<Svma> = accessing.collect();
            let answers = info.infer(code, start, &places, &mut self.types);
            let known = places.into_iter().zip(answers).filter_map(|(place, answer)| Some((place, answer.ok()?)));
            unknown.insert(known.collect());
        }
        None
    }

    fn accessed(&self, hook: &Hook<'_>) -> Option<&SiteType> {
        if !hook.kind.is_plain() {
            return None;
        }
        let (start, _) = self.module.function_bounds(code_of(hook))?;
        self.functions.get(&start)?.get(&Svma(hook.place))
    }
}
