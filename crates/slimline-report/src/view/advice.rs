//! What to change, and what that gains.

use serde::{Deserialize, Serialize};

use super::{Interval, Position};

/// What to change.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Advice {
    /// `split`, `hot_cold_split`, `reorder`, `interchange`; no change: `leave_alone`, or `not_judged` where several
    /// threads use it at once.
    pub kind: String,
    /// The group; of several of one type the costliest.
    pub group: u32,
    /// The others of that type, which it is about as well.
    pub other_groups: Vec<u32>,
    /// One sentence: what to do to what.
    pub title: String,
    /// Offsets of the fields of each new structure, or in their new order.
    pub fields: Vec<Vec<u64>>,
    /// Where a compiler places these fields, structure by structure; empty where no field moves.
    #[serde(default)]
    pub layouts: Vec<NewLayout>,
    /// What it would gain; none where nothing is to be changed.
    pub predicted: Option<Predicted>,
    /// `high`, `medium`, `low`.
    pub confidence: String,
    /// The numbers behind it.
    pub why: String,
    /// The new definitions in the program's language; empty where there is nothing to define.
    pub code: String,
    /// Where the structure is declared.
    pub declared_at: Option<Position>,
    /// Lines that touch what moves, as `file:line`.
    pub touched_lines: Vec<String>,
    /// What to mind where a layout changes, in words.
    #[serde(default)]
    pub cautions: Vec<String>,
}

impl Advice {
    /// Whether it is to change something.
    pub fn is_change(&self) -> bool {
        self.predicted.is_some()
    }
}

/// A structure as it would be laid out.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct NewLayout {
    /// Its size.
    pub bytes: u64,
    /// Its fields, by offset.
    pub fields: Vec<PlacedField>,
    /// Offset of the pointer, of 8 bytes, to the part that was moved out of it; none where it has none.
    pub pointer_at: Option<u64>,
}

/// A field of a [`NewLayout`].
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct PlacedField {
    /// Its offset as it is, by which the group's `fields` have it.
    pub from: u64,
    /// Its offset as it would be.
    pub offset: u64,
    /// Size.
    pub bytes: u64,
}

/// A predicted gain.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Predicted {
    /// Change of what `Session::weight` counts, of time where that is time: −0.21 is 21 % less.
    pub cycles: f64,
    /// Its interval.
    pub cycles_interval: Interval,
    /// Change of cache lines touched by the group's loops: −0.5 is half.
    pub lines: f64,
    /// How it was predicted, in a sentence.
    pub method: String,
}
