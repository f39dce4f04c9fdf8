//! Communities and Fiedler vectors against those of networkx and numpy, where a python has them: `SLIMLINE_PYTHON`, or else `python3`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use slimline_layout::fiedler::Fiedler;
use slimline_layout::graph::Graph;
use slimline_layout::louvain::{levels, modularity};

/// Reads graphs as lines `nodes,one other weight,…`, and tells of each the modularity of its own communities.
const COMMUNITIES: &str = r#"
import sys, networkx
for line in sys.stdin:
    nodes, *edges = line.strip().split(",")
    graph = networkx.Graph()
    graph.add_nodes_from(range(int(nodes)))
    for edge in edges:
        one, other, weight = map(int, edge.split())
        graph.add_edge(one, other, weight=weight)
    found = [networkx.community.louvain_communities(graph, seed=seed) for seed in range(10)]
    values = [networkx.community.modularity(graph, communities) for communities in found]
    best = found[values.index(max(values))]
    of = {node: number for number, nodes in enumerate(best) for node in nodes}
    print(max(values), sum(values) / len(values), *[of[node] for node in range(int(nodes))])
"#;

/// Tells of each graph its second and third eigenvalue, and its Fiedler vector.
const VECTORS: &str = r#"
import sys, numpy
for line in sys.stdin:
    nodes, *edges = line.strip().split(",")
    laplacian = numpy.zeros((int(nodes), int(nodes)))
    for edge in edges:
        one, other, weight = map(int, edge.split())
        laplacian[one, other] -= weight
        laplacian[other, one] -= weight
        laplacian[one, one] += weight
        laplacian[other, other] += weight
    values, vectors = numpy.linalg.eigh(laplacian)
    print(values[1], values[2], *vectors[:, 1])
"#;

/// The greatest modularity that there is is 0.4198 (Brandes et al. 2008); networkx's Louvain finds 0.388 to 0.4198 by seed.
#[test]
fn karate_club() {
    let (_, graph) = graphs().swap_remove(0);
    let best = (0..10).map(|seed| modularity(&graph, levels(&graph, seed).last().unwrap())).fold(0.0, f64::max);
    assert!((0.4150..0.4199).contains(&best), "{best}");
    assert_eq!(levels(&graph, 3), levels(&graph, 3));
}

#[test]
fn communities_are_as_good() {
    let graphs = graphs();
    let Some(lines) = python("networkx", COMMUNITIES, &graphs) else { return };
    for ((name, graph), line) in graphs.iter().zip(lines) {
        let numbers: Vec<f64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let (best, mean) = (numbers[0], numbers[1]);
        // Modularity is the same number.
        let theirs: Vec<u32> = numbers[2..].iter().map(|&number| number as u32).collect();
        assert!((modularity(graph, &theirs) - best).abs() < 1e-9, "{name}");
        let ours: Vec<f64> = (0..10).map(|seed| modularity(graph, levels(graph, seed).last().unwrap())).collect();
        let our_best = ours.iter().copied().fold(0.0, f64::max);
        let our_mean = ours.iter().sum::<f64>() / 10.0;
        eprintln!("{name}: best {our_best:.4} of {best:.4}, mean {our_mean:.4} of {mean:.4}");
        assert!(our_best > 0.99 * best && our_mean > 0.99 * mean, "{name}: {our_best} {best}, {our_mean} {mean}");
    }
}

#[test]
fn vectors_are_the_same() {
    let connected = |(name, graph): (&'static str, Graph)| {
        let largest = graph.components().into_iter().max_by_key(Vec::len).unwrap();
        (name, graph.part(&largest).into_owned())
    };
    let graphs: Vec<_> = graphs().into_iter().map(connected).collect();
    let Some(lines) = python("numpy", VECTORS, &graphs) else { return };
    for ((name, graph), line) in graphs.iter().zip(lines) {
        let numbers: Vec<f64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let (second, third, theirs) = (numbers[0], numbers[1], &numbers[2..]);
        let ours = Fiedler::of(graph, 20_000);
        assert!(ours.has_converged(), "{name}: {}", ours.residual);
        assert!((ours.value / second - 1.0).abs() < 1e-9, "{name}: {} {second}", ours.value);
        assert!(third > second * 1.001, "{name}: several vectors are right");
        let product: f64 = ours.vector.iter().zip(theirs).map(|(one, other)| one * other).sum();
        assert!(1.0 - product.abs() < 1e-10, "{name}: {product}");
        let order = |vector: &[f64]| {
            let mut nodes: Vec<usize> = (0..vector.len()).collect();
            nodes.sort_by(|&a, &b| vector[a].total_cmp(&vector[b]));
            nodes
        };
        let theirs: Vec<f64> = theirs.iter().map(|value| value * product.signum()).collect();
        // Up to those that are too near each other to be told apart.
        for pair in order(&theirs).windows(2).filter(|pair| theirs[pair[1]] - theirs[pair[0]] > 1e-6) {
            assert!(ours.vector[pair[0]] < ours.vector[pair[1]], "{name}: {pair:?}");
        }
    }
}

/// The karate club (Zachary 1977), and three that are drawn.
fn graphs() -> Vec<(&'static str, Graph)> {
    let mut random = fastrand::Rng::with_seed(11);
    let of = |nodes: u32, edges: Vec<(u32, u32, u64)>| {
        let mut weights = BTreeMap::new();
        for (a, b, weight) in edges.into_iter().filter(|(a, b, _)| a != b) {
            *weights.entry((a.min(b), a.max(b))).or_insert(0) += weight;
        }
        let edges: Vec<_> = weights.into_iter().map(|((a, b), weight)| (a, b, weight)).collect();
        Graph::new(nodes, edges.into_iter())
    };
    // Groups of 25 nodes, where edges inside are more likely.
    let mut planted = Vec::new();
    for one in 0..250_u32 {
        for other in 0..one {
            if random.u32(0..1000) < if one / 25 == other / 25 { 300 } else { 8 } {
                planted.push((one, other, random.u64(1..10)));
            }
        }
    }
    // Nodes that are joined to those which many are joined to (Barabási, Albert 1999).
    let (mut ends, mut hubs) = (vec![0, 1], vec![(0, 1, 1)]);
    for node in 2..400 {
        for _ in 0..3 {
            let other = ends[random.usize(0..ends.len())];
            hubs.push((node, other, 1));
            ends.extend([node, other]);
        }
    }
    // A walk over a rectangle, each step to one beside.
    let (mut walk, mut at) = (Vec::new(), (10_i64, 10_i64));
    for _ in 0..6000 {
        let next = ((at.0 + random.i64(-1..2)).clamp(0, 19), (at.1 + random.i64(-1..2)).clamp(0, 21));
        walk.push(((at.0 * 22 + at.1) as u32, (next.0 * 22 + next.1) as u32, 1));
        at = next;
    }
    let karate = KARATE.iter().map(|&(a, b)| (b - 1, a - 1, 1)).collect();
    vec![("karate", of(34, karate)), ("planted", of(250, planted)), ("hubs", of(400, hubs)), ("walk", of(440, walk))]
}

/// A line for each graph. None where python is not there, or has no such module.
fn python(module: &str, program: &str, graphs: &[(&str, Graph)]) -> Option<Vec<String>> {
    let python = std::env::var("SLIMLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        skipped(&format!("{python} has no {module}"));
        return None;
    }
    let mut input = String::new();
    for (_, graph) in graphs {
        write!(input, "{}", graph.nodes()).unwrap();
        for (one, other, weight) in graph.edges() {
            write!(input, ",{one} {other} {weight}").unwrap();
        }
        input.push('\n');
    }
    let mut command = Command::new(&python);
    let mut child = command.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // It prints little before it has read everything.
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{python}: {}", output.status);
    let lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), graphs.len());
    Some(lines)
}

/// Says that there was nothing to test: see `cargo xtask test`.
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
    if let Some(list) = std::env::var_os("SLIMLINE_SKIPPED_TESTS") {
        let mut list = std::fs::File::options().append(true).create(true).open(list).unwrap();
        writeln!(list, "{why}").unwrap();
    }
}

/// Zachary's karate club (1977), nodes from 1.
#[rustfmt::skip]
const KARATE: [(u32, u32); 78] = [
    (2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3), (5, 1), (6, 1), (7, 1), (7, 5), (7, 6), (8, 1), (8, 2), (8, 3), (8, 4),
    (9, 1), (9, 3), (10, 3), (11, 1), (11, 5), (11, 6), (12, 1), (13, 1), (13, 4), (14, 1), (14, 2), (14, 3), (14, 4),
    (17, 6), (17, 7), (18, 1), (18, 2), (20, 1), (20, 2), (22, 1), (22, 2), (26, 24), (26, 25), (28, 3), (28, 24), (28, 25),
    (29, 3), (30, 24), (30, 27), (31, 2), (31, 9), (32, 1), (32, 25), (32, 26), (32, 29), (33, 3), (33, 9), (33, 15),
    (33, 16), (33, 19), (33, 21), (33, 23), (33, 24), (33, 30), (33, 31), (33, 32), (34, 9), (34, 10), (34, 14), (34, 15),
    (34, 16), (34, 19), (34, 20), (34, 21), (34, 23), (34, 24), (34, 27), (34, 28), (34, 29), (34, 30), (34, 31), (34, 32),
    (34, 33),
];
