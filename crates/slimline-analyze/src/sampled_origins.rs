//! What keys of sampled accesses stand for, by attribution's tables.

mod fields;

use rustc_hash::FxHashMap;
use slimline_attribute::tables::{CodePlace, GroupKind, Tables};
use slimline_trace::access::{GroupId, SiteId, ThreadId};

use self::fields::Fields;
use crate::full_trace::findings::Place;
use crate::origins::{Data, DataKind, Names, Origin, Origins, Thread};

/// What accesses with one key have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampledKey {
    pub(crate) thread: ThreadId,
    /// The path of regions that it was on.
    pub(crate) region: u32,
    pub(crate) site: SiteId,
    pub(crate) group: GroupId,
    /// Of an accessed byte in its object.
    pub(crate) object_offset: u64,
    /// Which set of ranges of memory they are in.
    pub(crate) ranges: u32,
    /// Accesses seen, and samples.
    pub(crate) accesses: u64,
}

/// The meaning of keys. `process_of` says of a thread which process of the session it is of.
pub(crate) fn origins(
    tables: &Tables,
    keys: impl Iterator<Item = SampledKey>,
    process_of: impl Fn(ThreadId) -> u32,
) -> Origins {
    let mut names = Names::default();
    let mut fields = Fields::new(tables);
    let mut groups: FxHashMap<GroupId, u32> = FxHashMap::default();
    let mut data: Vec<Data> = Vec::new();
    let keys = keys.map(|key| {
        let number = *groups.entry(key.group).or_insert_with(|| {
            data.push(data_of(tables, key.group));
            data.len() as u32 - 1
        });
        let line = match tables.code_place(key.site) {
            Some(CodePlace::Line { file, line }) => names.number(&format!("{file}:{line}")),
            _ => 0,
        };
        let function = tables.site(key.site).frames.first().map_or("", |frame| &frame.function);
        Origin {
            data: number,
            field: names.number(&fields.name(key.group, key.object_offset)),
            function: names.number(function),
            line,
            thread: key.thread.0,
            region: key.region,
            ranges: key.ranges,
            accesses: key.accesses,
            ..Origin::default()
        }
    });
    let keys = keys.collect();
    let threads = (0..).zip(&tables.threads);
    let threads = threads.map(|(id, thread)| Thread { process: process_of(ThreadId(id)), tid: thread.tid });
    Origins::new(keys, data, names, threads.collect())
}

fn data_of(tables: &Tables, id: GroupId) -> Data {
    let group = tables.group(id);
    let kind = match group.kind {
        GroupKind::Heap => DataKind::Heap,
        GroupKind::Static | GroupKind::ThreadLocal => DataKind::Static,
        GroupKind::Unattributed => DataKind::Unattributed,
        _ => DataKind::Variable,
    };
    let function = group.allocated_at.as_ref().map_or_else(String::new, |frame| frame.function.clone());
    let position = group.allocated_at.as_ref().map_or(group.declared_at.as_ref(), |frame| frame.position.as_ref());
    let allocated_at = Place {
        function,
        file: position.map_or_else(String::new, |at| at.file.clone()),
        line: position.map_or(0, |at| at.line),
        column: position.map_or(0, |at| at.column),
    };
    let amount = group.at_one_time();
    Data {
        kind,
        name: group.name.clone(),
        type_name: group.element.map_or_else(String::new, |element| tables.type_(element.type_id).name.clone()),
        allocated_at,
        callers: Vec::new(),
        blocks: amount.objects,
        peak_bytes: amount.bytes,
        largest_block_bytes: group.object_bytes,
    }
}
