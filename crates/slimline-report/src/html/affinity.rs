//! Which fields are used together, as a picture and in words.

use std::f64::consts::{PI, TAU};
use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use super::bar::TONES;
use super::page::Escaped;
use crate::text::braced;
use crate::text::number::{count, percent};

/// Most nodes: with more nobody tells edges apart.
const MOST_NODES: usize = 14;
/// Affinities below this are no edges, and not told.
const LEAST_AFFINITY: f64 = 0.05;
/// Most pairs told in words.
const MOST_PAIRS: usize = 24;

/// All in the picture's units.
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const RADIUS: f64 = 104.0;
const LEAST_NODE: f64 = 6.0;
const LARGEST_NODE: f64 = 24.0;

/// Fields of a structure that are used, and which of them together.
pub(super) struct Together<'a> {
    /// What the structure is called.
    pub(super) of: &'a str,
    /// Those that are used, by offset.
    pub(super) fields: Vec<Used<'a>>,
    /// Offsets of two of them, and how much they are used together, 0 to 1; strongest first.
    pub(super) pairs: Vec<(u64, u64, f64)>,
    /// Offsets of those that belong together.
    pub(super) clusters: Vec<Vec<u64>>,
}

/// A field that is used.
#[derive(Clone, Copy)]
pub(super) struct Used<'a> {
    pub(super) offset: u64,
    pub(super) name: &'a str,
    /// Its part of what its structure costs, or of the visits; by that nodes are large.
    pub(super) share: f64,
}

impl Together<'_> {
    fn name(&self, offset: u64) -> String {
        let field = self.fields.iter().find(|field| field.offset == offset);
        field.map_or_else(|| format!("+{offset}"), |field| plain(field.name))
    }
}

/// Nothing where no two fields are used.
pub(super) fn used_together(out: &mut impl Write, together: &Together<'_>) -> fmt::Result {
    let Together { fields, pairs, clusters, .. } = together;
    let pairs: Vec<(u64, u64, f64)> = pairs.iter().copied().filter(|(.., value)| *value >= LEAST_AFFINITY).collect();
    if fields.len() < 2 {
        return Ok(());
    }
    writeln!(out, "<h4>Used together</h4>\n<div class=\"together\">")?;
    if fields.len() > 2 && !pairs.is_empty() {
        graph(out, together, &pairs)?;
    }
    let name = |offset| together.name(offset);
    writeln!(out, "<div>")?;
    if pairs.is_empty() {
        writeln!(out, "<p>No two fields are used together.</p>")?;
    } else {
        writeln!(out, "<p>Affinity, 0 to 1, of fields that are used together:</p>\n<ul class=\"pairs\">")?;
        for &(a, b, value) in pairs.iter().take(MOST_PAIRS) {
            writeln!(out, "<li>{}–{} {value:.2}</li>", Escaped(&name(a)), Escaped(&name(b)))?;
        }
        if pairs.len() > MOST_PAIRS {
            writeln!(out, "<li>{} more</li>", count((pairs.len() - MOST_PAIRS) as u64))?;
        }
        writeln!(out, "</ul>")?;
    }
    let is_used = |at: &u64| fields.iter().any(|field| field.offset == *at);
    let clusters = clusters.iter().map(|cluster| cluster.iter().copied().filter(is_used).collect::<Vec<_>>());
    let clusters: Vec<String> =
        clusters.filter(|cluster| !cluster.is_empty()).map(|cluster| braced(&cluster, &name)).collect();
    if clusters.len() > 1 {
        writeln!(out, "<p>Belong together:</p>\n<ul class=\"pairs\">")?;
        for cluster in &clusters {
            writeln!(out, "<li><code>{}</code></li>", Escaped(cluster))?;
        }
        writeln!(out, "</ul>")?;
    }
    writeln!(out, "</div>\n</div>")
}

/// A node: where it is, how large, what it says.
struct Node<'a> {
    field: Used<'a>,
    cluster: usize,
    angle: f64,
    radius: f64,
}

impl Node<'_> {
    fn x(&self) -> f64 {
        WIDTH / 2.0 + RADIUS * self.angle.sin()
    }

    fn y(&self) -> f64 {
        HEIGHT / 2.0 - RADIUS * self.angle.cos()
    }
}

/// The hottest fields on a circle, those of a cluster side by side.
fn graph(out: &mut impl Write, together: &Together<'_>, pairs: &[(u64, u64, f64)]) -> fmt::Result {
    let clusters = &together.clusters;
    let cluster = |field: &Used<'_>| {
        let found = clusters.iter().position(|cluster| cluster.contains(&field.offset));
        found.unwrap_or(clusters.len())
    };
    let mut fields = together.fields.clone();
    fields.sort_by(|a, b| b.share.total_cmp(&a.share));
    fields.truncate(MOST_NODES);
    fields.sort_by_key(|field| (cluster(field), field.offset));
    let step = TAU / fields.len() as f64;
    let radius = |share: f64| LEAST_NODE + (LARGEST_NODE - LEAST_NODE) * share.clamp(0.0, 1.0).sqrt();
    let angles = (0..fields.len()).map(|place| place as f64 * step);
    let nodes: Vec<Node<'_>> = fields
        .iter()
        .zip(angles)
        .map(|(&field, angle)| Node { field, cluster: cluster(&field), angle, radius: radius(field.share) })
        .collect();
    let said = format!("Graph of {} fields of {}; what it shows is told beside it", nodes.len(), together.of);
    writeln!(
        out,
        "<svg class=\"graph\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        Escaped(&said)
    )?;
    let at = |offset: u64| nodes.iter().find(|node| node.field.offset == offset);
    for &(a, b, value) in pairs {
        if let (Some(a), Some(b)) = (at(a), at(b)) {
            writeln!(
                out,
                "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke-width=\"{:.1}\"/>",
                a.x(),
                a.y(),
                b.x(),
                b.y(),
                0.5 + 4.5 * value
            )?;
        }
    }
    for node in &nodes {
        let title = format!("{}: offset {}, {}", node.field.name, node.field.offset, percent(node.field.share));
        writeln!(
            out,
            "<circle class=\"{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{:.1}\"><title>{}</title></circle>",
            TONES[node.cluster % TONES.len()],
            node.x(),
            node.y(),
            node.radius,
            Escaped(&title)
        )?;
        label(out, node)?;
    }
    writeln!(out, "</svg>")
}

/// The name outside of the circle.
fn label(out: &mut impl Write, node: &Node<'_>) -> fmt::Result {
    const GAP: f64 = 5.0;
    /// As many letters as there is room for.
    const MOST_LETTERS: usize = 16;
    let beyond = node.radius + GAP;
    let (x, y) = (node.x() + beyond * node.angle.sin(), node.y() - beyond * node.angle.cos());
    let is_above = |angle: f64| angle.sin().abs() < (PI / 12.0).sin();
    let (anchor, y) = match node.angle {
        angle if is_above(angle) && angle.cos() > 0.0 => ("middle", y),
        angle if is_above(angle) => ("middle", y + 10.0),
        angle if angle.sin() > 0.0 => ("start", y + 4.0),
        _ => ("end", y + 4.0),
    };
    let mut name: String = node.field.name.chars().take(MOST_LETTERS).collect();
    if node.field.name.chars().count() > MOST_LETTERS {
        name.push('…');
    }
    writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", Escaped(&name))
}
