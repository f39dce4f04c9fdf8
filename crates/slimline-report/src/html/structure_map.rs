//! [Maps of structures](crate::structure_map) as a browser draws them.

use std::fmt::{self, Write};

use super::heat::heat;
use super::page::Escaped;
use crate::structure_map::{Block, HEAT, LINE_BYTES, MOST_ROWS, Map, What};
use crate::text::number::{count, plural};

impl What {
    /// Of the style sheet.
    fn class(&self) -> &'static str {
        match self {
            Self::Used(_, share) => heat(*share),
            Self::Wide(_) => "wide-load",
            Self::Unused(_) | Self::Unknown => heat(0.0),
            Self::Hole | Self::Padding => "hole",
            Self::Pointer => "pointer",
        }
    }
}

impl Map {
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
                Escaped(what.heat_words())
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
             <span class=\"unseen\"> {place}{comma}</span><span class=\"hot\">{}</span></li>",
            what.class(),
            at + 1,
            Escaped(&format!("{name}: {place}{comma}{heat}")),
            Escaped(name),
            Escaped(&heat)
        )
    }
}

/// What colours of blocks mean, which are `of` something.
pub(super) fn legend(out: &mut impl Write, of: &str) -> fmt::Result {
    let others = [("hole", "hole or padding"), ("pointer", "pointer to the rest"), ("wide-load", "wide loads only")];
    let heats = HEAT.iter().map(|&(share, words)| (heat(share), words));
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
