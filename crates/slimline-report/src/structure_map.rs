//! A structure as blocks on cache lines: how hot each field is, holes, and where lines end; as it is, and as advised.

use crate::text::number::{percent, plural};
use crate::view::{Advice, Field, Group, NewLayout};

/// Bytes of a cache line: 64 on every x86-64.
pub(crate) const LINE_BYTES: u64 = 64;
/// So many lines that tell the same, one after the other, are one row.
const LEAST_ALIKE: u64 = 3;
/// Most rows of a map; the table of fields has all.
pub(crate) const MOST_ROWS: usize = 48;
/// Size of the pointer to what was moved out.
const POINTER_BYTES: u64 = 8;

/// What heat means, coldest first: share from which on it is that, words.
pub(crate) const HEAT: [(f64, &str); 6] = [
    (0.0, "none"),
    (f64::MIN_POSITIVE, "below 1 %"),
    (0.01, "from 1 %"),
    (0.05, "from 5 %"),
    (0.15, "from 15 %"),
    (0.35, "from 35 %"),
];

/// How hot a share is: its place in [`HEAT`].
pub(crate) fn heat(share: f64) -> usize {
    HEAT.iter().rposition(|(from, _)| share >= *from).unwrap_or(0)
}

/// What bytes of a structure are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// A field that is used, and how much: a share, which its colour is by.
    Used(String, f64),
    /// One that only wide loads reach.
    Wide(String),
    /// One that nothing was seen to use.
    Unused(String),
    Hole,
    Padding,
    /// To the part that was moved out.
    Pointer,
    /// Bytes of which nothing is known.
    Unknown,
}

impl What {
    fn of(field: &Field) -> Self {
        let name = field.name.clone();
        match (field.is_only_spanned(), field.is_used()) {
            (true, _) => Self::Wide(name),
            (false, true) => Self::Used(name, field.share),
            (false, false) => Self::Unused(name),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Used(name, _) | Self::Wide(name) | Self::Unused(name) => name,
            Self::Hole => "hole",
            Self::Padding => "padding",
            Self::Pointer => "pointer to the rest",
            Self::Unknown => "not seen used",
        }
    }

    /// How hot it is, in words; nothing of what is no field.
    pub(crate) fn heat_words(&self) -> String {
        match self {
            Self::Used(_, share) => percent(*share),
            Self::Wide(_) => "wide loads only".to_owned(),
            Self::Unused(_) => "not seen used".to_owned(),
            Self::Hole | Self::Padding | Self::Pointer | Self::Unknown => String::new(),
        }
    }

    /// Whether it is nothing that anybody uses.
    pub(crate) fn is_cold(&self) -> bool {
        !matches!(self, Self::Used(..) | Self::Wide(_) | Self::Pointer)
    }
}

/// A structure to be drawn: one element, taken to begin on a cache line.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    pub(crate) bytes: u64,
    /// By offset, without gaps.
    pub(crate) blocks: Vec<Block>,
    /// Whether another element follows.
    pub(crate) is_array: bool,
}

impl Map {
    /// Of blocks that may overlap, as those of unions do, and leave gaps.
    pub(crate) fn of(bytes: u64, mut blocks: Vec<Block>, is_array: bool) -> Self {
        blocks.sort_by_key(|block| block.offset);
        let mut whole: Vec<Block> = Vec::new();
        let mut end = 0;
        for block in blocks {
            if block.offset > end {
                whole.push(Block { offset: end, bytes: block.offset - end, what: What::Unknown });
            }
            let until = block.offset.saturating_add(block.bytes).min(bytes);
            if until > end {
                let offset = block.offset.max(end);
                whole.push(Block { offset, bytes: until - offset, ..block });
                end = until;
            }
        }
        if end < bytes {
            whole.push(Block { offset: end, bytes: bytes - end, what: What::Unknown });
        }
        Self { bytes, blocks: whole, is_array }
    }

    /// Of all fields that there are, so that what lies between them is holes, and behind them padding.
    pub(crate) fn with_holes(bytes: u64, mut fields: Vec<Block>, is_array: bool) -> Self {
        fields.sort_by_key(|field| field.offset);
        let mut blocks: Vec<Block> = Vec::with_capacity(fields.len());
        let mut end = 0;
        for field in fields {
            if field.offset > end {
                blocks.push(Block { offset: end, bytes: field.offset - end, what: What::Hole });
            }
            end = end.max(field.offset + field.bytes);
            blocks.push(field);
        }
        if end < bytes {
            blocks.push(Block { offset: end, bytes: bytes - end, what: What::Padding });
        }
        Self::of(bytes, blocks, is_array)
    }

    /// As a compiler would lay it out; `what` says what the field is that is at an offset as it is.
    pub(crate) fn of_new(layout: &NewLayout, what: impl Fn(u64) -> What, is_array: bool) -> Self {
        let fields = layout.fields.iter().filter(|field| field.bytes > 0);
        let fields = fields.map(|field| Block { offset: field.offset, bytes: field.bytes, what: what(field.from) });
        let pointer = layout.pointer_at.map(|at| Block { offset: at, bytes: POINTER_BYTES, what: What::Pointer });
        Self::with_holes(layout.bytes, fields.chain(pointer).collect(), is_array)
    }

    /// What lies on a line: of each block the part of it that does, counted from the line's begin.
    pub(crate) fn on_line(&self, line: u64) -> impl Iterator<Item = (&Block, u64, u64)> {
        let (begin, end) = (line * LINE_BYTES, (line + 1) * LINE_BYTES);
        let from = self.blocks.partition_point(|block| block.offset + block.bytes <= begin);
        let on_it = self.blocks[from..].iter().take_while(move |block| block.offset < end);
        on_it.map(move |block| {
            let first = block.offset.max(begin);
            (block, first - begin, (block.offset + block.bytes).min(end) - first)
        })
    }

    fn lines(&self) -> u64 {
        self.bytes.div_ceil(LINE_BYTES)
    }

    /// The block that covers all of a line.
    pub(crate) fn only_block(&self, line: u64) -> Option<&Block> {
        self.on_line(line).next().filter(|(.., bytes)| *bytes == LINE_BYTES).map(|(block, ..)| block)
    }

    /// Lines from `first` on that tell the same: nothing of them is used, or one field covers them.
    fn alike(&self, first: u64) -> u64 {
        let mut end = first;
        while end < self.lines() && self.on_line(end).all(|(block, ..)| block.what.is_cold()) {
            // What one block covers needs no look at each line.
            let covered = self.only_block(end).map_or(0, |block| (block.offset + block.bytes) / LINE_BYTES);
            end = covered.max(end + 1);
        }
        match self.only_block(first) {
            Some(block) => end.max((block.offset + block.bytes) / LINE_BYTES),
            None => end,
        }
    }

    /// Lines that are drawn, as first and behind the last of each row: many that tell the same are one. Behind [`MOST_ROWS`] there is one
    /// more where there are more.
    pub(crate) fn rows(&self) -> Vec<(u64, u64)> {
        let mut rows: Vec<(u64, u64)> = Vec::new();
        let mut line = 0;
        while line < self.lines() && rows.len() <= MOST_ROWS {
            let end = self.alike(line);
            let end = if end - line >= LEAST_ALIKE { end } else { line + 1 };
            rows.push((line, end));
            line = end;
        }
        rows
    }

    /// `72 bytes, 2 cache lines`, `40 bytes, 1.6 elements a line`
    pub(crate) fn words(&self) -> String {
        let bytes = plural(self.bytes, "byte");
        if !self.is_array || self.bytes >= LINE_BYTES {
            return format!("{bytes}, {}", plural(self.lines(), "cache line"));
        }
        let elements = format!("{:.2}", LINE_BYTES as f64 / self.bytes as f64);
        format!("{bytes}, {} elements a line", elements.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// The group's element as it is; nothing where it has none, or only one field that is all of it.
pub(crate) fn as_it_is(group: &Group) -> Option<Map> {
    let bytes = group.element_bytes.filter(|&bytes| bytes > 0)?;
    if group.fields.len() < 2 {
        return None;
    }
    let field = |field: &Field| Block { offset: field.offset, bytes: field.bytes, what: What::of(field) };
    let holes = group.layout.iter().flat_map(|layout| &layout.members).filter(|member| member.is_hole());
    let hole = holes.map(|member| Block {
        offset: member.offset,
        bytes: member.bytes,
        what: if member.padding { What::Padding } else { What::Hole },
    });
    let blocks = group.fields.iter().filter(|field| field.bytes > 0).map(field).chain(hole).collect();
    Some(Map::of(bytes, blocks, is_array(group, bytes)))
}

/// What [`as_it_is`] shows of a session whose shares are of this `cost`.
pub(crate) fn title(group: &Group, cost: &str) -> String {
    format!("{} as it is, by {cost}", group.type_name.as_deref().unwrap_or("element"))
}

/// Whether its objects hold several elements.
fn is_array(group: &Group, element_bytes: u64) -> bool {
    group.blocks > 0 && group.bytes / group.blocks >= element_bytes.saturating_mul(2)
}

/// Its new structures with their titles, where fields are to move.
pub(crate) fn as_advised(group: &Group, advice: &Advice, cost: &str) -> Vec<(String, Map)> {
    let Some(bytes) = group.element_bytes else { return Vec::new() };
    let one = |(number, layout): (usize, &NewLayout)| {
        let part = match advice.layouts.len() {
            1 => String::new(),
            parts => format!(", part {} of {parts}", number + 1),
        };
        // What is moved behind a pointer is to be allocated from an array.
        let is_array = is_array(group, bytes) || layout.pointer_at.is_none() && advice.kind == "hot_cold_split";
        (format!("As advised{part}, by {cost}"), new_map(group, layout, is_array))
    };
    advice.layouts.iter().enumerate().map(one).collect()
}

fn new_map(group: &Group, layout: &NewLayout, is_array: bool) -> Map {
    let what = |from: u64| {
        let field = group.fields.iter().find(|field| field.offset == from);
        // Of another group of its type, whose fields are as many.
        field.map_or(What::Unknown, What::of)
    };
    Map::of_new(layout, what, is_array)
}
