//! A structure's field affinities as a graph for graphviz.

use std::collections::HashMap;
use std::fmt::{self, Write};

use slimline_trace::escape::dot as escape;

use crate::view::{Field, Group, Report};

/// Affinities below this are left out of the picture: an edge would say less than its ink.
const LEAST_AFFINITY: f64 = 0.01;
/// Groups below this share of the session are left out …
const LEAST_SHARE: f64 = 0.005;
/// … and those after the hottest so many: more make a picture that no screen shows.
const MOST_GROUPS: usize = 8;

/// Writes one graph: a box for each group with fields, in it a box for each cluster, nodes that name field, offset and
/// share, edges that carry the affinity. Fields that nothing was seen to use are one node.
pub fn graph(out: &mut impl Write, report: &Report) -> fmt::Result {
    writeln!(out, "graph slimline {{")?;
    // From left to right, groups come one below the other. The older ranking gives up on some clusters whose edges have
    // labels ("trouble in init_rank").
    writeln!(out, "  graph [fontname=\"sans-serif\", rankdir=LR, newrank=true];")?;
    writeln!(out, "  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\"];")?;
    writeln!(out, "  edge [fontname=\"sans-serif\", fontsize=10];")?;
    let shown = report.groups.iter().filter(|group| group.share >= LEAST_SHARE && used(group).count() > 1);
    for group in shown.take(MOST_GROUPS) {
        one(out, group, report.session.weight.noun())?;
    }
    writeln!(out, "}}")
}

fn used(group: &Group) -> impl Iterator<Item = &Field> {
    group.fields.iter().filter(|field| field.is_used())
}

fn one(out: &mut impl Write, group: &Group, cost: &str) -> fmt::Result {
    let id = group.id;
    writeln!(out, "  subgraph cluster_{id} {{")?;
    let name = group.type_name.as_deref().unwrap_or(&group.name);
    writeln!(out, "    label=\"{} ({:.1} % of the {cost})\";", escape(name), group.share * 100.0)?;
    let cluster_of: HashMap<u64, usize> =
        group.clusters.iter().enumerate().flat_map(|(n, offsets)| offsets.iter().map(move |&at| (at, n))).collect();
    for number in 0..group.clusters.len() {
        let mut members = used(group).filter(|field| cluster_of.get(&field.offset) == Some(&number)).peekable();
        if members.peek().is_none() {
            continue;
        }
        writeln!(out, "    subgraph cluster_{id}_{number} {{")?;
        writeln!(out, "      label=\"\"; style=dashed;")?;
        members.try_for_each(|field| node(out, group, field))?;
        writeln!(out, "    }}")?;
    }
    for field in used(group).filter(|field| !cluster_of.contains_key(&field.offset)) {
        node(out, group, field)?;
    }
    let unused = group.fields.len() - used(group).count();
    if unused > 0 {
        let plural = if unused == 1 { "" } else { "s" };
        writeln!(out, "    f{id}_unused [label=\"{unused} field{plural} not seen used\", style=\"rounded,dashed\"];")?;
    }
    let has_node = |offset: u64| used(group).any(|field| field.offset == offset);
    for pair in
        group.affinity.iter().filter(|pair| pair.value >= LEAST_AFFINITY && has_node(pair.a) && has_node(pair.b))
    {
        let width = 0.5 + 4.0 * pair.value;
        // From earlier to later clusters: where edges between clusters go round in a circle, dot gives up ("trouble in
        // init_rank").
        let place = |offset: u64| (cluster_of.get(&offset).copied().unwrap_or(usize::MAX), offset);
        let (first, second) = if place(pair.a) <= place(pair.b) { (pair.a, pair.b) } else { (pair.b, pair.a) };
        writeln!(out, "    f{id}_{first} -- f{id}_{second} [label=\"{:.2}\", penwidth={width:.1}];", pair.value)?;
    }
    writeln!(out, "  }}")
}

fn node(out: &mut impl Write, group: &Group, field: &Field) -> fmt::Result {
    // Heat: white for nothing, full orange for all of the group's time.
    let saturation = field.share.clamp(0.0, 1.0);
    writeln!(
        out,
        "      f{}_{} [label=\"{}\\n+{}  {}\", fillcolor=\"0.08 {saturation:.2} 1.0\"];",
        group.id,
        field.offset,
        escape(&field.name),
        field.offset,
        if field.is_only_spanned() { "wide".to_owned() } else { format!("{:.1} %", field.share * 100.0) }
    )
}
