//! Arrays that may be better as one array of structures.

use slimline_simulate::relaid::Part;

use super::{COLD, Candidate, Change, LINE_BYTES, Of, THRESHOLDS, Untouchable, distinct};

impl Candidate {
    /// Of arrays that become one: those that do, with the number of their part.
    pub fn merged(&self) -> impl Iterator<Item = (usize, &Vec<usize>)> {
        self.parts.iter().enumerate().filter(|(_, part)| self.change == Change::Merge && part.len() > 1)
    }

    /// The same with elements of parts of several fields that are as large as whole lines, or of which lines hold a whole number; none where they
    /// are.
    fn on_lines(&self) -> Option<Self> {
        let line = LINE_BYTES as u32;
        let parts = self.parts.iter().zip(self.layout.parts()).map(|(fields, part)| {
            let bytes =
                if part.bytes <= line { part.bytes.next_power_of_two() } else { part.bytes.next_multiple_of(line) };
            if fields.len() > 1 { Part { bytes, ..*part } } else { *part }
        });
        let parts: Vec<Part> = parts.collect();
        let layout = (parts != self.layout.parts()).then(|| self.layout.with_parts(parts))?;
        Some(Self { layout, align: LINE_BYTES, ..self.clone() })
    }
}

impl Of<'_> {
    /// Arrays that are used together in one, each of the others by itself; elements as they are, and such that none lies across lines that need
    /// not.
    pub(super) fn merged(&self) -> Result<Vec<Candidate>, Untouchable> {
        let (mut found, mut would) = (Vec::new(), false);
        for threshold in THRESHOLDS {
            let clusters = self.clusters(threshold);
            let used = |cluster: &&Vec<usize>| cluster.iter().filter(|field| !self.is_cold(**field)).count() > 1;
            would |= clusters.iter().any(|cluster| used(&cluster));
            let mut parts = Vec::new();
            for cluster in clusters {
                let (apart, together): (Vec<usize>, Vec<usize>) =
                    cluster.into_iter().partition(|field| self.is_held(*field) || self.is_cold(*field));
                parts.extend(Some(self.closely(together)).filter(|together| !together.is_empty()));
                parts.extend(apart.into_iter().map(|field| vec![field]));
            }
            if parts.iter().all(|part| part.len() == 1) {
                continue;
            }
            let merged = self.candidate(Change::Merge, parts, 1, (None, false));
            found.extend(merged.on_lines());
            found.push(merged);
        }
        match (found.is_empty(), would) {
            (false, _) => {
                // As they are comes first.
                found.sort_by_key(|candidate| candidate.align);
                Ok(distinct(found))
            }
            (true, true) => Err(Untouchable::HandedOn),
            (true, false) => Err(Untouchable::NotTogether),
        }
    }

    /// Whether a field is in no cluster but that of what is hardly used.
    fn is_cold(&self, field: usize) -> bool {
        (self.used(field) as f64) < COLD * self.visits.count() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MANY, structure, visits};
    use super::super::{Objects, candidates};
    use super::*;
    use crate::full_trace::object_structures::{Hold, StructureShape};

    /// x, y and z in most visits, id in one of five of them, key by itself.
    #[test]
    fn arrays_that_are_used_together_become_one() {
        let fields = [("x", 8), ("y", 8), ("z", 8), ("key", 8), ("id", 4)];
        let mut structure = StructureShape { is_columns: true, ..structure(36, &fields) };
        let used = visits(&[(0b0_0111, 800), (0b1_0111, 200), (0b0_1000, 500)], true);
        let of = |structure: &StructureShape| -> Vec<_> {
            let found = candidates(structure, &used, Objects { count: 5, otherwise: 0, apart: 0 }).unwrap();
            let sizes = |of: &Candidate| of.layout.parts().iter().map(|part| part.bytes).collect::<Vec<_>>();
            assert!(found.iter().all(|of| of.change == Change::Merge));
            found.iter().map(|of| (of.parts.clone(), sizes(of), of.align)).collect()
        };
        // 24 bytes an element, and 32 so that none crosses a line.
        let parts = vec![vec![0, 1, 2], vec![3], vec![4]];
        assert_eq!(of(&structure), [(parts.clone(), vec![24, 8, 4], 0), (parts, vec![32, 8, 4], 64)]);
        // One whose address goes elsewhere stays.
        structure.fields[2].hold = Hold::Apart;
        let parts = vec![vec![0, 1], vec![2], vec![3], vec![4]];
        assert_eq!(of(&structure), [(parts, vec![16, 8, 8, 4], 0)]);
        structure.fields[1].hold = Hold::Apart;
        let why = |structure: &StructureShape, visits| candidates(structure, visits, MANY).unwrap_err();
        assert_eq!(why(&structure, &used), Untouchable::HandedOn);
        let apart = visits(&[(1, 10), (2, 10), (4, 10), (8, 10), (16, 10)], true);
        assert_eq!(why(&structure, &apart), Untouchable::NotTogether);
    }
}
