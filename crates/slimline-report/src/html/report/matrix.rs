//! Which loops spend how much on a structure, and on which of its fields.

use std::fmt::{self, Write};

use super::{Page, heat_class};
use crate::html::page::Escaped;
use crate::text::number::{percent, plural};
use crate::text::{hottest, lines};
use crate::view::{Field, Group, Loop, LoopGroup};

/// Most loops and fields: what is beyond is told by how many.
const MOST_LOOPS: usize = 24;
const MOST_FIELDS: usize = 16;

/// Nothing where no loop uses it.
pub(super) fn loops_and_fields(out: &mut impl Write, page: &Page<'_>, group: &Group) -> fmt::Result {
    let is_worth_it = |part: &LoopGroup| part.id == group.id && (part.share > 0.0 || !part.fields.is_empty());
    let uses = |found: &'_ Loop| found.groups.iter().position(is_worth_it);
    let loops = page.report.loops.iter().filter_map(|found| Some((found, &found.groups[uses(found)?])));
    let mut loops: Vec<(&Loop, &LoopGroup)> = loops.collect();
    loops.sort_by(|a, b| b.1.share.total_cmp(&a.1.share));
    let used: Vec<&Field> = group.fields.iter().filter(|field| !field.loops.is_empty()).collect();
    if loops.is_empty() {
        return Ok(());
    }
    let fields = hottest(&used, MOST_FIELDS);
    writeln!(
        out,
        "<div class=\"wide\"><table class=\"matrix\">\n<caption>{} {}: shares of its {}</caption>\n\
         <thead><tr><th scope=\"col\">loop</th>{}<th scope=\"col\" class=\"number\">all</th></tr></thead>\n<tbody>",
        if fields.is_empty() { "Loops that use" } else { "Loops and what they use of" },
        Escaped(&group.name),
        page.cost,
        fields.iter().map(|field| head(field)).collect::<String>()
    )?;
    let of_group = |share: f64| if group.share > 0.0 { share / group.share } else { 0.0 };
    for (found, part) in loops.iter().take(MOST_LOOPS) {
        let name = format!("{} {}", found.function, lines(found));
        let title = Escaped(&name);
        write!(out, "<tr><th scope=\"row\" title=\"{title}\">{title}</th>")?;
        for field in &fields {
            let place = part.fields.iter().position(|&at| at == field.offset);
            match place.and_then(|place| part.field_shares.get(place)) {
                Some(&share) => {
                    let share = of_group(share);
                    write!(out, "<td class=\"number {}\">{}</td>", heat_class(share), percent(share))?;
                }
                None => write!(out, "<td class=\"number\"></td>")?,
            }
        }
        writeln!(out, "<td class=\"number\">{}</td></tr>", percent(of_group(part.share)))?;
    }
    writeln!(out, "</tbody>\n</table></div>")?;
    let more = [(loops.len().saturating_sub(MOST_LOOPS), "loop"), (used.len().saturating_sub(MOST_FIELDS), "field")];
    let more: Vec<String> = more.iter().filter(|(n, _)| *n > 0).map(|&(n, noun)| plural(n as u64, noun)).collect();
    match more.is_empty() {
        true => Ok(()),
        false => writeln!(out, "<p class=\"faint\">{} with less left out</p>", more.join(" and ")),
    }
}

fn head(field: &Field) -> String {
    let name = Escaped(&field.name);
    format!("<th scope=\"col\" class=\"number\" title=\"{name}, offset {}\">{name}</th>", field.offset)
}
