//! A part of the graph of objects that are accessed next to each other, for programs that draw graphs.

mod picture;

use std::collections::BTreeMap;
use std::io::{self, Write};

use slimline_analyze::full_trace::objects::{Object, ObjectOrigin};
use slimline_layout::graph::Graph;
use slimline_trace::escape::{Xml, dot as escape};

pub use self::picture::MOST_DRAWN;

/// Colours of communities, in turn: Graphviz's scheme `set312`, by number.
const COLOURS: u32 = 12;

/// The objects of most weight, and the edges between them.
#[derive(Debug)]
pub struct DrawnGraph<'a> {
    objects: &'a [Object],
    origins: &'a [ObjectOrigin],
    /// By object, of the finest level; empty where there is none.
    communities: &'a [u32],
    /// Ascending.
    drawn: Vec<u32>,
    edges: Vec<(u32, u32, u64)>,
}

impl<'a> DrawnGraph<'a> {
    /// Of so many objects at most.
    pub fn of(
        (objects, origins): (&'a [Object], &'a [ObjectOrigin]),
        (graph, levels): (&Graph, &'a [Vec<u32>]),
        most: usize,
    ) -> Self {
        let mut by_degree: Vec<(u64, u32)> = (0..graph.nodes()).map(|node| (graph.degree(node), node)).collect();
        by_degree.sort_unstable_by_key(|&(degree, node)| (std::cmp::Reverse(degree), node));
        let mut drawn: Vec<u32> =
            by_degree.into_iter().filter(|(degree, _)| *degree > 0).take(most).map(|(_, node)| node).collect();
        drawn.sort_unstable();
        let part = graph.part(&drawn);
        let edges = part.edges().map(|(a, b, weight)| (drawn[a as usize], drawn[b as usize], weight)).collect();
        let communities = levels.first().map_or(&[][..], |level| level);
        Self { objects, origins, communities, drawn, edges }
    }

    fn label(&self, object: u32) -> String {
        let Object { origin, sequence, index, .. } = self.objects[object as usize];
        let ObjectOrigin { type_name, allocated_at, .. } = &self.origins[origin as usize];
        let name = if type_name.is_empty() { &allocated_at.function } else { type_name };
        let index = index.map_or_else(String::new, |index| format!("[{index}]"));
        format!("{name} {sequence}{index}")
    }

    fn community(&self, object: u32) -> Option<u32> {
        self.communities.get(object as usize).copied()
    }

    /// For Graphviz: an object is a node, communities have colours, heavier edges are thicker.
    ///
    /// # Errors
    /// As `out`.
    pub fn write_dot(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "graph objects {{\n    node [shape=box style=filled colorscheme=set312]")?;
        for &object in &self.drawn {
            let label = self.label(object);
            let label = escape(&label);
            write!(out, "    o{object} [label=\"{label}\"")?;
            if let Some(community) = self.community(object) {
                write!(out, " fillcolor={} tooltip=\"community {community}\"", community % COLOURS + 1)?;
            }
            writeln!(out, "]")?;
        }
        let most = self.edges.iter().map(|edge| edge.2).max().unwrap_or(1);
        for &(a, b, weight) in &self.edges {
            let width = 0.5 + 4.5 * weight as f64 / most as f64;
            writeln!(out, "    o{a} -- o{b} [weight={weight} penwidth={width:.1} tooltip=\"{weight}\"]")?;
        }
        writeln!(out, "}}")
    }

    /// GraphML, which Gephi, yEd and networkx read.
    ///
    /// # Errors
    /// As `out`.
    pub fn write_graphml(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        writeln!(out, "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">")?;
        let keys = [
            ("node", "label", "string"),
            ("node", "community", "long"),
            ("node", "bytes", "long"),
            ("edge", "weight", "long"),
        ];
        for (of, name, kind) in keys {
            writeln!(out, "  <key id=\"{name}\" for=\"{of}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>")?;
        }
        writeln!(out, "  <graph edgedefault=\"undirected\">")?;
        for &object in &self.drawn {
            let mut data = BTreeMap::from([("label", self.label(object))]);
            data.insert("bytes", self.objects[object as usize].bytes.to_string());
            data.extend(self.community(object).map(|community| ("community", community.to_string())));
            let data: Vec<String> =
                data.into_iter().map(|(key, value)| format!("<data key=\"{key}\">{}</data>", Xml(value))).collect();
            writeln!(out, "    <node id=\"o{object}\">{}</node>", data.concat())?;
        }
        for &(a, b, weight) in &self.edges {
            let data = format!("<data key=\"weight\">{weight}</data>");
            writeln!(out, "    <edge source=\"o{a}\" target=\"o{b}\">{data}</edge>")?;
        }
        writeln!(out, "  </graph>\n</graphml>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strict;

    /// Two of three nodes, as the third has the least weight.
    #[test]
    fn the_heaviest_objects_are_drawn() {
        let object =
            |sequence, index| Object { process: 0, start: 0, bytes: 24, sequence, ordinal: sequence, origin: 0, index };
        let objects = [object(1, None), object(2, Some(7)), object(3, None)];
        let origins = [ObjectOrigin { type_name: "list<\"a\">".to_owned(), ..ObjectOrigin::default() }];
        let graph = Graph::new(3, [(0, 1, 9), (1, 2, 3)].into_iter());
        let levels = [vec![4, 13, 4]];
        let drawn = DrawnGraph::of((&objects, &origins), (&graph, &levels), 2);
        let mut dot = Vec::new();
        drawn.write_dot(&mut dot).unwrap();
        insta::assert_snapshot!("dot", String::from_utf8(dot).unwrap());
        let mut graphml = Vec::new();
        drawn.write_graphml(&mut graphml).unwrap();
        let graphml = String::from_utf8(graphml).unwrap();
        strict::xml(&graphml);
        insta::assert_snapshot!("graphml", graphml);
        let origins = [ObjectOrigin { type_name: strict::HOSTILE.to_owned(), ..ObjectOrigin::default() }];
        let drawn = DrawnGraph::of((&objects, &origins), (&graph, &levels), 2);
        let (mut graphml, mut picture) = (Vec::new(), String::new());
        drawn.write_graphml(&mut graphml).unwrap();
        drawn.write_svg(&mut picture).unwrap();
        for markup in [String::from_utf8(graphml).unwrap(), picture] {
            let told = strict::xml(&markup).concat();
            assert!(told.contains(&strict::shown(strict::HOSTILE)), "{told}");
        }
    }
}
