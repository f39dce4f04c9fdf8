//! Advice, as it is given.

use slimline_attribute::tables::SourcePosition;
use slimline_trace::access::GroupId;

use super::placing::NewLayout;
use crate::ties::Ties;

/// What kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An array of structures becomes several arrays.
    Split,
    /// Hot fields stay in the node, cold ones go behind a pointer.
    HotColdSplit,
    /// The same fields in another order.
    Reorder,
    /// Walk the data in the order in which it lies.
    Interchange,
    /// Nothing, with the reason.
    LeaveAlone,
    /// No other layout, but several threads use this one at once, and what that costs is not judged.
    NotJudged,
}

/// How sure advice is: by what it is made of, and a step less where something relies on the layout ([`Advice::with_ties`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Few samples, or a layout that only strides tell, or nodes.
    Low,
    /// In between.
    Medium,
    /// Many samples of time, known types, walks seen in bursts, more data than caches hold, and even the low end of the gain is worth it.
    High,
}

/// What a change is expected to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Change of the session's weight: −0.21 is 21 % less; of the time it takes, where [`Findings::unit`](crate::findings::Findings::unit) is time.
    pub cycles: f64,
    /// The end of its interval with the greater gain.
    pub cycles_low: f64,
    /// The end with the smaller gain.
    pub cycles_high: f64,
    /// Change of the cache lines that the group's loops touch.
    pub lines: f64,
    /// How it was predicted, in a sentence.
    pub method: String,
}

/// What to change.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// What kind of change.
    pub kind: Kind,
    /// The group; of several of one type the costliest.
    pub group: GroupId,
    /// The others of that type, which it is about as well.
    pub others: Vec<GroupId>,
    /// What to do to what, in one sentence.
    pub title: String,
    /// Offsets of the fields of each new structure, or in their new order.
    pub fields: Vec<Vec<u64>>,
    /// Where a compiler places these fields, structure by structure.
    pub layouts: Vec<NewLayout>,
    /// What it is expected to gain; `None` for [`Kind::LeaveAlone`] and [`Kind::NotJudged`].
    pub predicted: Option<Predicted>,
    /// How sure.
    pub confidence: Confidence,
    /// The numbers behind it.
    pub why: String,
    /// The new definitions in the program's language; empty where nothing is defined anew.
    pub code: String,
    /// Where the structure is declared.
    pub declared_at: Option<SourcePosition>,
    /// Source lines that touch what moves, most costly first, as (file, line).
    pub touched_lines: Vec<(String, u32)>,
    /// What relies on the layout that changes.
    pub ties: Ties,
}

impl Advice {
    /// Whether fields get other places.
    pub fn changes_layout(&self) -> bool {
        matches!(self.kind, Kind::Split | Kind::HotColdSplit | Kind::Reorder)
    }

    /// With what relies on its layout: there is more to change then than what the advice names, so that it is less sure that it can be had.
    #[must_use]
    pub fn with_ties(self, ties: Ties) -> Self {
        let confidence = match self.confidence {
            confidence if ties.found.is_empty() => confidence,
            Confidence::High => Confidence::Medium,
            Confidence::Medium | Confidence::Low => Confidence::Low,
        };
        Self { ties, confidence, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ties::{Reliance, Tie};

    #[test]
    fn what_relies_on_a_layout_makes_it_less_sure() {
        let advice = |confidence| Advice {
            kind: Kind::Split,
            group: GroupId(1),
            others: Vec::new(),
            title: String::new(),
            fields: Vec::new(),
            layouts: Vec::new(),
            predicted: None,
            confidence,
            why: String::new(),
            code: String::new(),
            declared_at: None,
            touched_lines: Vec::new(),
            ties: Ties::default(),
        };
        let tie = ("a.c".to_owned(), Tie { reliance: Reliance::Size, line: 3 });
        let all = [Confidence::High, Confidence::Medium, Confidence::Low];
        let after = |found: &[(String, Tie)]| {
            let ties = Ties { found: found.to_vec(), has_sources: true };
            all.map(|confidence| advice(confidence).with_ties(ties.clone()).confidence)
        };
        assert_eq!(after(&[]), all);
        assert_eq!(after(&[tie]), [Confidence::Medium, Confidence::Low, Confidence::Low]);
    }
}
