//! A structure's field affinities as a graph for graphviz.

use std::collections::HashMap;
use std::fmt::{self, Write};

use crate::escape::dot as escape;
use crate::view::{Group, Report};

/// Affinities below this are left out of the picture: an edge would say less than its ink.
const LEAST_AFFINITY: f64 = 0.01;

/// Writes one graph: a box for each group with fields, in it a box for each cluster, nodes that name field, offset and
/// share, edges that carry the affinity.
pub fn graph(out: &mut impl Write, report: &Report) -> fmt::Result {
    writeln!(out, "graph slimline {{")?;
    writeln!(out, "  graph [fontname=\"sans-serif\", compound=true];")?;
    writeln!(out, "  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\"];")?;
    writeln!(out, "  edge [fontname=\"sans-serif\", fontsize=10];")?;
    for group in report.groups.iter().filter(|group| group.fields.len() > 1) {
        one(out, group)?;
    }
    writeln!(out, "}}")
}

fn one(out: &mut impl Write, group: &Group) -> fmt::Result {
    let id = group.id;
    writeln!(out, "  subgraph cluster_{id} {{")?;
    let name = group.type_name.as_deref().unwrap_or(&group.name);
    writeln!(out, "    label=\"{} ({:.1} % of the time)\";", escape(name), group.share * 100.0)?;
    let cluster_of: HashMap<u64, usize> =
        group.clusters.iter().enumerate().flat_map(|(n, offsets)| offsets.iter().map(move |&at| (at, n))).collect();
    for (number, offsets) in group.clusters.iter().enumerate() {
        writeln!(out, "    subgraph cluster_{id}_{number} {{")?;
        writeln!(out, "      label=\"\"; style=dashed;")?;
        for field in group.fields.iter().filter(|field| offsets.contains(&field.offset)) {
            node(out, group, field)?;
        }
        writeln!(out, "    }}")?;
    }
    for field in group.fields.iter().filter(|field| !cluster_of.contains_key(&field.offset)) {
        node(out, group, field)?;
    }
    for pair in group.affinity.iter().filter(|pair| pair.value >= LEAST_AFFINITY) {
        let width = 0.5 + 4.0 * pair.value;
        writeln!(out, "    f{id}_{} -- f{id}_{} [label=\"{:.2}\", penwidth={width:.1}];", pair.a, pair.b, pair.value)?;
    }
    writeln!(out, "  }}")
}

fn node(out: &mut impl Write, group: &Group, field: &crate::view::Field) -> fmt::Result {
    // Heat: white for nothing, full orange for all of the group's time.
    let saturation = field.share.clamp(0.0, 1.0);
    writeln!(
        out,
        "      f{}_{} [label=\"{}\\n+{}  {:.1} %\", fillcolor=\"0.08 {saturation:.2} 1.0\"];",
        group.id,
        field.offset,
        escape(&field.name),
        field.offset,
        field.share * 100.0
    )
}
