//! Structures as blocks on cache lines: how hot each field is, holes, and where lines end.

use std::fmt::{self, Write};

use super::heat::{HEAT, heat};
use super::page::Escaped;
use crate::text::number::{count, percent, plural};
use crate::view::NewLayout;

/// Bytes of a cache line: 64 on every x86-64.
const LINE_BYTES: u64 = 64;
/// So many lines that tell the same, one after the other, are one row.
const LEAST_ALIKE: u64 = 3;
/// Most rows of a map; the table of fields has all.
const MOST_ROWS: usize = 48;
/// Size of the pointer to what was moved out.
const POINTER_BYTES: u64 = 8;

/// What bytes of a structure are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
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
    fn class(&self) -> &'static str {
        match self {
            Self::Used(_, share) => heat(*share),
            Self::Wide(_) => "wide-load",
            Self::Unused(_) | Self::Unknown => "heat-0",
            Self::Hole | Self::Padding => "hole",
            Self::Pointer => "pointer",
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Used(name, _) | Self::Wide(name) | Self::Unused(name) => name,
            Self::Hole => "hole",
            Self::Padding => "padding",
            Self::Pointer => "pointer to the rest",
            Self::Unknown => "not seen used",
        }
    }

    /// How hot it is, in words; nothing of what is no field.
    fn heat_words(&self) -> String {
        match self {
            Self::Used(_, share) => percent(*share),
            Self::Wide(_) => "wide loads only".to_owned(),
            Self::Unused(_) => "not seen used".to_owned(),
            Self::Hole | Self::Padding | Self::Pointer | Self::Unknown => String::new(),
        }
    }

    /// Whether it is nothing that anybody uses.
    fn is_cold(&self) -> bool {
        !matches!(self, Self::Used(..) | Self::Wide(_) | Self::Pointer)
    }
}

/// A structure to be drawn.
pub(super) struct Map {
    bytes: u64,
    /// By offset, without gaps.
    blocks: Vec<Block>,
    /// Whether another element follows.
    is_array: bool,
}

impl Map {
    /// Of blocks that may overlap, as those of unions do, and leave gaps.
    pub(super) fn of(bytes: u64, mut blocks: Vec<Block>, is_array: bool) -> Self {
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
    pub(super) fn with_holes(bytes: u64, mut fields: Vec<Block>, is_array: bool) -> Self {
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
    pub(super) fn of_new(layout: &NewLayout, what: impl Fn(u64) -> What, is_array: bool) -> Self {
        let fields = layout.fields.iter().filter(|field| field.bytes > 0);
        let fields = fields.map(|field| Block { offset: field.offset, bytes: field.bytes, what: what(field.from) });
        let pointer = layout.pointer_at.map(|at| Block { offset: at, bytes: POINTER_BYTES, what: What::Pointer });
        Self::with_holes(layout.bytes, fields.chain(pointer).collect(), is_array)
    }

    /// What lies on a line: of each block the part of it that does, counted from the line's begin.
    fn on_line(&self, line: u64) -> impl Iterator<Item = (&Block, u64, u64)> {
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
    fn only_block(&self, line: u64) -> Option<&Block> {
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

    /// Lines that are drawn: many that tell the same are one row.
    fn rows(&self) -> Vec<(u64, u64)> {
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
    fn words(&self) -> String {
        let bytes = plural(self.bytes, "byte");
        if !self.is_array || self.bytes >= LINE_BYTES {
            return format!("{bytes}, {}", plural(self.lines(), "cache line"));
        }
        let elements = format!("{:.2}", LINE_BYTES as f64 / self.bytes as f64);
        format!("{bytes}, {} elements a line", elements.trim_end_matches('0').trim_end_matches('.'))
    }

    pub(super) fn write(&self, out: &mut impl Write, title: &str) -> fmt::Result {
        writeln!(
            out,
            "<figure class=\"map\">\n<figcaption>{} <span class=\"faint\">{}</span></figcaption>\n\
             <div class=\"ruler\" aria-hidden=\"true\">{}</div>",
            Escaped(title),
            self.words(),
            (0..LINE_BYTES / 8).map(|eighth| format!("<span>{}</span>", eighth * 8)).collect::<String>()
        )?;
        let rows = self.rows();
        for &(first, end) in rows.iter().take(MOST_ROWS) {
            if end - first > 1 {
                self.lines_alike(out, first, end)?;
            } else {
                self.line(out, first)?;
            }
        }
        if rows.len() > MOST_ROWS {
            writeln!(out, "<p class=\"alike\">The lines behind these are in the table of fields.</p>")?;
        }
        writeln!(out, "</figure>")
    }

    fn lines_alike(&self, out: &mut impl Write, first: u64, end: u64) -> fmt::Result {
        let lines = format!("lines {}–{}", count(first), count(end - 1));
        match self.only_block(first).filter(|block| !block.what.is_cold()) {
            Some(Block { what, .. }) => writeln!(
                out,
                "<p class=\"alike {}\">{lines}: <span class=\"name\">{}</span> {}</p>",
                what.class(),
                Escaped(what.name()),
                what.heat_words()
            ),
            None => writeln!(out, "<p class=\"alike\">{lines}: nothing of them was seen used</p>"),
        }
    }

    fn line(&self, out: &mut impl Write, line: u64) -> fmt::Result {
        write!(
            out,
            "<div class=\"line\"><span class=\"at\"><span class=\"unseen\">cache line </span>{line}</span>\
             <ul class=\"bytes\">"
        )?;
        let mut end = 0;
        for (block, at, bytes) in self.on_line(line) {
            self.block(out, block, at, bytes)?;
            end = at + bytes;
        }
        // The elements that follow on the same line, of an array that begins on one.
        while self.is_array && end < LINE_BYTES && self.bytes > 0 {
            for block in &self.blocks {
                let bytes = block.bytes.min(LINE_BYTES - end);
                if bytes > 0 {
                    write!(
                        out,
                        "<li class=\"next {}\" style=\"grid-column:{}/span {bytes}\" aria-hidden=\"true\"></li>",
                        block.what.class(),
                        end + 1
                    )?;
                    end += bytes;
                }
            }
        }
        writeln!(out, "</ul></div>")
    }

    fn block(&self, out: &mut impl Write, block: &Block, at: u64, bytes: u64) -> fmt::Result {
        let Block { offset, bytes: whole, what } = block;
        let (name, heat) = (what.name(), what.heat_words());
        let comma = if heat.is_empty() { "" } else { ", " };
        let place = format!("offset {offset}, {}", plural(*whole, "byte"));
        let class = match offset / LINE_BYTES != (offset + whole - 1) / LINE_BYTES && !what.is_cold() {
            true => " crossing",
            false => "",
        };
        write!(
            out,
            "<li class=\"{}{class}\" style=\"grid-column:{}/span {bytes}\" title=\"{}\"><span class=\"name\">{}</span>\
             <span class=\"unseen\"> {place}{comma}</span><span class=\"hot\">{heat}</span></li>",
            what.class(),
            at + 1,
            Escaped(&format!("{name}: {place}{comma}{heat}")),
            Escaped(name)
        )
    }
}

/// What colours of blocks mean, which are `of` something.
pub(super) fn legend(out: &mut impl Write, of: &str) -> fmt::Result {
    let others = [("hole", "hole or padding"), ("pointer", "pointer to the rest"), ("wide-load", "wide loads only")];
    let heats = HEAT.iter().map(|&(class, _, words)| (class, words));
    let each = |(class, words): (&str, &str)| {
        format!("<li><span class=\"swatch {class}\" aria-hidden=\"true\"></span>{words}</li>")
    };
    writeln!(
        out,
        "<p class=\"faint\">Maps show one element, taken to begin on a cache line of {LINE_BYTES} bytes: a row is a line, colours \
         are {of}.</p>\n<ul class=\"legend\">{}</ul>",
        heats.chain(others).map(each).collect::<String>()
    )
}
