//! A small graph as a picture that needs no other program.

use std::collections::HashMap;
use std::fmt::{self, Write};

use slimline_layout::drawing::positions;
use slimline_layout::graph::Graph;
use slimline_trace::escape::Xml;

use super::DrawnGraph;
use crate::svg::{begin, text};

/// Objects of a picture at most: positions take time by the square of their number.
pub const MOST_DRAWN: usize = 1000;

/// In pixels.
const SIZE: f64 = 960.0;
const MARGIN: f64 = 30.0;
const TEXT_HEIGHT: f64 = 20.0;
/// Graphviz's `set312`, which dot files name.
const COLOURS: [&str; super::COLOURS as usize] = [
    "#8dd3c7", "#ffffb3", "#bebada", "#fb8072", "#80b1d3", "#fdb462", "#b3de69", "#fccde5", "#d9d9d9", "#bc80bd",
    "#ccebc5", "#ffed6f",
];

impl DrawnGraph<'_> {
    /// SVG: an object is a circle with its name where it is pointed at, communities have colours, heavier edges are thicker.
    ///
    /// # Errors
    /// As `out`.
    pub fn write_svg(&self, out: &mut impl Write) -> fmt::Result {
        let places: HashMap<u32, u32> = self.drawn.iter().copied().zip(0..).collect();
        let edges = self.edges.iter().map(|(a, b, weight)| (places[a], places[b], *weight));
        let at = positions(&Graph::new(self.drawn.len() as u32, edges.clone()));
        let pixel = |(x, y): (f64, f64)| {
            let scaled = |of: f64| MARGIN + of * (SIZE - 2.0 * MARGIN);
            (scaled(x), TEXT_HEIGHT + scaled(y))
        };
        begin(out, SIZE as usize, (SIZE + TEXT_HEIGHT) as usize)?;
        let mut communities: Vec<u32> = self.drawn.iter().filter_map(|object| self.community(*object)).collect();
        communities.sort_unstable();
        communities.dedup();
        let title = format!(
            "{} objects that are accessed most next to others, in {} communities; edges: {}",
            self.drawn.len(),
            communities.len(),
            self.edges.len()
        );
        text(out, MARGIN as usize, TEXT_HEIGHT as usize, "font-weight=\"bold\"", &title)?;
        let most = self.edges.iter().map(|edge| edge.2).max().unwrap_or(1) as f64;
        writeln!(out, "<g stroke=\"#444\">")?;
        for (a, b, weight) in edges {
            let ((x, y), (to_x, to_y)) = (pixel(at[a as usize]), pixel(at[b as usize]));
            let share = weight as f64 / most;
            let (width, opacity) = (0.5 + 4.5 * share, 0.2 + 0.6 * share);
            writeln!(
                out,
                "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to_x:.1}\" y2=\"{to_y:.1}\" stroke-width=\"{width:.1}\" \
                 stroke-opacity=\"{opacity:.2}\"><title>{weight}</title></line>"
            )?;
        }
        writeln!(out, "</g>\n<g stroke=\"#222\">")?;
        for (&object, at) in self.drawn.iter().zip(&at) {
            let (x, y) = pixel(*at);
            let community = self.community(object);
            let colour = community.map_or("white", |community| COLOURS[(community % super::COLOURS) as usize]);
            let of = community.map_or_else(String::new, |community| format!(", community {community}"));
            let label = Xml(self.label(object) + &of);
            writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\" fill=\"{colour}\"><title>{label}</title></circle>"
            )?;
        }
        writeln!(out, "</g>\n</svg>")
    }
}
