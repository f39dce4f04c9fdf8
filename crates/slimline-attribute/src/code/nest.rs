//! Loops of a flow graph and how they nest.
//!
//! Havlak, "Nesting of reducible and irreducible loops", TOPLAS 1997: one depth-first search, then a pass over its
//! nodes from the last to the first that collapses each loop into its header (union-find). A loop is what can reach
//! its header without leaving the header's subtree; its header is the member that the search met first. All back edges
//! to one header make one loop, so `continue` does not make two. A loop with another entry than its header is
//! irreducible: which member is called the header then depends on the order of the edges.

/// A loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The node that is entered first.
    pub header: usize,
    /// The loop around it: index in [`Nest::loops`].
    pub parent: Option<usize>,
    /// 1 for an outermost loop.
    pub depth: u32,
    /// Whether it can be entered at another node too.
    pub irreducible: bool,
}

/// The loops of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nest {
    /// Outer loops come before those inside them.
    pub loops: Vec<Loop>,
    /// The innermost loop of each node.
    pub innermost: Vec<Option<usize>>,
}

impl Nest {
    /// The loops of the graph whose node `i` has the edges `successors[i]`, entered at `roots`. Nodes that no root
    /// reaches are in no loop.
    pub fn new(successors: &[Vec<usize>], roots: &[usize]) -> Self {
        Havlak::new(successors, roots).run()
    }

    /// Whether the loop `inner` is `outer` or inside it.
    pub fn is_inside(&self, inner: usize, outer: usize) -> bool {
        let mut current = Some(inner);
        while let Some(index) = current {
            if index == outer {
                return true;
            }
            current = self.loops[index].parent;
        }
        false
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    NoHeader,
    Reducible,
    Irreducible,
}

/// The state of the algorithm. Nodes are numbered in the order of the search; 0 is a root added above all others.
struct Havlak {
    /// Node of the graph, by number.
    nodes: Vec<usize>,
    /// Highest number in the subtree of each.
    last: Vec<usize>,
    /// Predecessors from inside the subtree (back edges), and all others.
    back: Vec<Vec<usize>>,
    other: Vec<Vec<usize>>,
    /// Union-find: the header of the outermost loop found so far around each.
    collapsed: Vec<usize>,
    header: Vec<usize>,
    kind: Vec<Kind>,
    size: usize,
}

impl Havlak {
    fn new(successors: &[Vec<usize>], roots: &[usize]) -> Self {
        let (nodes, last, number) = search(successors, roots);
        let count = nodes.len();
        let mut back = vec![Vec::new(); count];
        let mut other = vec![Vec::new(); count];
        for (from, &node) in nodes.iter().enumerate().skip(1) {
            for &target in &successors[node] {
                let to = number[target];
                if to <= from && from <= last[to] {
                    back[to].push(from);
                } else {
                    other[to].push(from);
                }
            }
        }
        for &root in roots {
            if let Some(&root) = number.get(root) {
                other[root].push(0);
            }
        }
        Self {
            nodes,
            last,
            back,
            other,
            collapsed: (0..count).collect(),
            header: vec![0; count],
            kind: vec![Kind::NoHeader; count],
            size: successors.len(),
        }
    }

    fn find(&mut self, node: usize) -> usize {
        let mut root = node;
        while self.collapsed[root] != root {
            root = self.collapsed[root];
        }
        let mut node = node;
        while self.collapsed[node] != root {
            node = std::mem::replace(&mut self.collapsed[node], root);
        }
        root
    }

    fn run(mut self) -> Nest {
        // When a node was last put into the body under construction: a set without clearing.
        let mut seen_for = vec![usize::MAX; self.nodes.len()];
        for header in (1..self.nodes.len()).rev() {
            let mut body = Vec::new();
            for from in std::mem::take(&mut self.back[header]) {
                self.kind[header] = Kind::Reducible;
                let member = self.find(from);
                if member != header && std::mem::replace(&mut seen_for[member], header) != header {
                    body.push(member);
                }
            }
            let mut next = 0;
            while let Some(&member) = body.get(next) {
                next += 1;
                for index in 0..self.other[member].len() {
                    let from = self.other[member][index];
                    let outside = self.find(from);
                    if outside < header || outside > self.last[header] {
                        // Entered past the header: for loops further out this is an entry of the header.
                        self.kind[header] = Kind::Irreducible;
                        self.other[header].push(outside);
                    } else if outside != header && std::mem::replace(&mut seen_for[outside], header) != header {
                        body.push(outside);
                    }
                }
            }
            for member in body {
                self.header[member] = header;
                self.collapsed[member] = header;
            }
        }
        self.into_nest()
    }

    /// A header has a lower number than all of its loop, so going up by number meets outer loops first.
    fn into_nest(self) -> Nest {
        let mut nest = Nest { loops: Vec::new(), innermost: vec![None; self.size] };
        let mut of_header = vec![None; self.nodes.len()];
        for number in 1..self.nodes.len() {
            let parent: Option<usize> = of_header[self.header[number]];
            if self.kind[number] != Kind::NoHeader {
                let depth = parent.map_or(0, |parent| nest.loops[parent].depth) + 1;
                of_header[number] = Some(nest.loops.len());
                nest.loops.push(Loop {
                    header: self.nodes[number],
                    parent,
                    depth,
                    irreducible: self.kind[number] == Kind::Irreducible,
                });
            }
            nest.innermost[self.nodes[number]] = of_header[number].or(parent);
        }
        nest
    }
}

/// Depth-first search from a node added above `roots`: nodes in the order they were met, the highest number in the
/// subtree of each, and the number of each node (`usize::MAX` where it was not reached).
fn search(successors: &[Vec<usize>], roots: &[usize]) -> (Vec<usize>, Vec<usize>, Vec<usize>) {
    let mut nodes = vec![usize::MAX];
    let mut last = vec![0];
    let mut number = vec![usize::MAX; successors.len()];
    for &root in roots {
        if number.get(root) != Some(&usize::MAX) {
            continue;
        }
        let mut path = vec![(root, 0)];
        number[root] = nodes.len();
        nodes.push(root);
        last.push(0);
        while let Some((node, edge)) = path.last_mut() {
            let Some(&target) = successors[*node].get(*edge) else {
                last[number[*node]] = nodes.len() - 1;
                path.pop();
                continue;
            };
            *edge += 1;
            if number[target] == usize::MAX {
                number[target] = nodes.len();
                nodes.push(target);
                last.push(0);
                path.push((target, 0));
            }
        }
    }
    last[0] = nodes.len() - 1;
    (nodes, last, number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// (header, parent's header, irreducible) of each loop, and the header of each node's innermost loop.
    #[track_caller]
    fn check(edges: &[(usize, usize)], loops: &[(usize, Option<usize>, bool)], innermost: &[Option<usize>]) {
        let mut successors = vec![Vec::new(); innermost.len()];
        for &(from, to) in edges {
            successors[from].push(to);
        }
        let nest = Nest::new(&successors, &[0]);
        let header = |index: usize| nest.loops[index].header;
        let found: Vec<_> =
            nest.loops.iter().map(|found| (found.header, found.parent.map(header), found.irreducible)).collect();
        assert_eq!(found, loops);
        assert_eq!(nest.innermost.iter().map(|found| found.map(header)).collect::<Vec<_>>(), innermost);
    }

    #[test]
    fn straight_code_has_no_loop() {
        check(&[(0, 1), (0, 2), (1, 3), (2, 3)], &[], &[None; 4]);
        check(&[], &[], &[None]);
    }

    #[test]
    fn a_block_that_jumps_to_itself() {
        check(&[(0, 1), (1, 1), (1, 2)], &[(1, None, false)], &[None, Some(1), None]);
    }

    #[test]
    fn two_in_a_row_inside_one() {
        // for { for {} for {} }
        check(
            &[(0, 1), (1, 2), (2, 2), (2, 3), (3, 4), (4, 3), (4, 5), (5, 1), (1, 6)],
            &[(1, None, false), (2, Some(1), false), (3, Some(1), false)],
            &[None, Some(1), Some(2), Some(3), Some(3), Some(1), None],
        );
    }

    #[test]
    fn continue_does_not_make_two_loops() {
        check(
            &[(0, 1), (1, 2), (2, 1), (2, 3), (3, 1), (1, 4)],
            &[(1, None, false)],
            &[None, Some(1), Some(1), Some(1), None],
        );
    }

    #[test]
    fn two_entries_make_it_irreducible() {
        check(&[(0, 1), (0, 2), (1, 2), (2, 1)], &[(1, None, true)], &[None, Some(1), Some(1)]);
    }

    #[test]
    fn irreducible_inside_reducible() {
        // 1 is the header of all; 2 and 3 jump to each other and both are entered from 1.
        check(
            &[(0, 1), (1, 2), (1, 3), (2, 3), (3, 2), (3, 4), (4, 1), (4, 5)],
            &[(1, None, false), (2, Some(1), true)],
            &[None, Some(1), Some(2), Some(2), Some(1), None],
        );
    }

    #[test]
    fn what_nothing_reaches_is_in_no_loop() {
        check(&[(0, 0), (1, 2), (2, 1)], &[(0, None, false)], &[Some(0), None, None]);
    }

    /// Loops by their definition: a strongly connected part with a cycle is a loop; its header is the member met first
    /// by the search; without the header, the parts of what is left are the loops inside.
    fn by_definition(successors: &[Vec<usize>], order: &[usize]) -> Vec<(usize, Vec<usize>, bool)> {
        fn reach(successors: &[Vec<usize>], from: usize, inside: &[usize]) -> Vec<usize> {
            let mut found: Vec<usize> = Vec::new();
            let mut open = vec![from];
            while let Some(node) = open.pop() {
                for &to in &successors[node] {
                    if inside.contains(&to) && !found.contains(&to) {
                        found.push(to);
                        open.push(to);
                    }
                }
            }
            found
        }
        fn descend(successors: &[Vec<usize>], inside: &[usize], found: &mut Vec<(usize, Vec<usize>, bool)>) {
            let reached: Vec<Vec<usize>> = inside.iter().map(|&node| reach(successors, node, inside)).collect();
            let mut done: Vec<usize> = Vec::new();
            for (place, &header) in inside.iter().enumerate() {
                // `inside` is in the order of the search, so the first member met is the header.
                if done.contains(&header) || !reached[place].contains(&header) {
                    continue;
                }
                let body: Vec<usize> = inside
                    .iter()
                    .enumerate()
                    .filter(|&(other, node)| reached[place].contains(node) && reached[other].contains(&header))
                    .map(|(_, &node)| node)
                    .collect();
                done.extend(&body);
                found.push((header, body.clone(), false));
                let rest: Vec<usize> = body.into_iter().filter(|&node| node != header).collect();
                descend(successors, &rest, found);
            }
        }
        let mut found = Vec::new();
        descend(successors, order, &mut found);
        for (header, body, irreducible) in &mut found {
            *irreducible = order.iter().any(|node| {
                !body.contains(node) && successors[*node].iter().any(|to| to != header && body.contains(to))
            });
        }
        found.sort();
        found
    }

    prop_compose! {
        fn graphs()(size in 1_usize..12)(
            edges in prop::collection::vec((0..size, 0..size), 0..30),
            size in Just(size),
        ) -> Vec<Vec<usize>> {
            let mut successors = vec![Vec::new(); size];
            for (from, to) in edges {
                if !successors[from].contains(&to) {
                    successors[from].push(to);
                }
            }
            successors
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn nest_is_that_of_the_definition(successors in graphs()) {
            let nest = Nest::new(&successors, &[0]);
            let order: Vec<usize> = search(&successors, &[0]).0.into_iter().skip(1).collect();
            let mut found: Vec<(usize, Vec<usize>, bool)> = nest
                .loops
                .iter()
                .enumerate()
                .map(|(index, found)| {
                    let body = order.iter().copied().filter(|&node| {
                        nest.innermost[node].is_some_and(|innermost| nest.is_inside(innermost, index))
                    });
                    (found.header, body.collect(), found.irreducible)
                })
                .collect();
            found.sort();
            prop_assert_eq!(found, by_definition(&successors, &order));
        }

        #[test]
        fn headers_of_reducible_loops_dominate_them(successors in graphs()) {
            let nest = Nest::new(&successors, &[0]);
            for (index, found) in nest.loops.iter().enumerate().filter(|(_, found)| !found.irreducible) {
                // Without the header, nothing of the loop is reached from the entry.
                let mut open = vec![0];
                let mut reached = vec![found.header];
                while let Some(node) = open.pop() {
                    if !reached.contains(&node) {
                        reached.push(node);
                        open.extend(&successors[node]);
                    }
                }
                for (node, innermost) in nest.innermost.iter().enumerate() {
                    let inside = innermost.is_some_and(|innermost| nest.is_inside(innermost, index));
                    prop_assert!(!inside || node == found.header || !reached.contains(&node));
                }
            }
        }
    }
}
