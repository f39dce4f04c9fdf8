//! Which data to place in a faster memory, as `slimline place` shows it.

use std::ops;

use serde::Serialize;
use slimline_analyze::origins::Origins;
use slimline_analyze::placement::{Choice, Placement, Range, Saved, placements};
use slimline_simulate::simulation::Outcome;

use crate::full_trace::known;
use crate::simulation::{AccessTrace, DataRow, data_row};

/// Version of the JSON. 1: the first.
pub const PLACEMENT_SCHEMA: u32 = 1;

/// Everything `slimline place` shows, and its JSON.
#[derive(Clone, Debug, Serialize)]
pub struct PlacementReport {
    /// [`PLACEMENT_SCHEMA`].
    pub schema: u32,
    /// What was read.
    pub trace: AccessTrace,
    /// The simulated machine.
    pub machine: String,
    /// Its memory that data is placed in.
    pub memory: String,
    /// What fits there.
    pub room_bytes: u64,
    /// The machine's cycles with nothing placed.
    pub cycles: u64,
    /// Of all data, placeable or not: what living there would save.
    pub in_all: SavedRow,
    /// Of what cannot be placed: no data that is known, or a name for places far apart.
    pub not_placeable: SavedRow,
    /// What can be placed, that first which saves most.
    pub data: Vec<PlaceableRow>,
    /// What each way of choosing saves, the best one last.
    pub choices: Vec<ChoiceRow>,
    /// No choice of at most one range of each, cut at parts, saves more.
    pub at_most: SavedShare,
}

/// What is saved.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SavedRow {
    /// Lines that come from there.
    pub lines: u64,
    /// Cycles that they take less.
    #[serde(flatten)]
    pub share: SavedShare,
}

/// Cycles that are saved.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SavedShare {
    /// How many.
    pub saved_cycles: u64,
    /// Of the machine's cycles with nothing placed.
    pub saved_share: f64,
}

/// Data that can be placed.
#[derive(Clone, Debug, Serialize)]
pub struct PlaceableRow {
    /// What it is called; none where it is not known.
    pub name: Option<String>,
    /// What it is.
    #[serde(flatten)]
    pub data: DataRow,
    /// What all of it needs.
    pub bytes: u64,
    /// Whether ranges of it can be placed, and not only all.
    pub divisible: bool,
    /// Where all of it lives there.
    #[serde(flatten)]
    pub saved: SavedRow,
}

/// What a way of choosing comes to.
#[derive(Clone, Debug, Serialize)]
pub struct ChoiceRow {
    /// `biggest`, `whole`, `first`, `last`, `coldest`, `hottest`, `best`.
    pub choice: &'static str,
    /// What it places; none where that cannot be: data of many blocks that does not fit.
    pub placed: Option<Vec<PlacedRow>>,
    /// Room that this takes.
    pub bytes: u64,
    /// What it saves.
    #[serde(flatten)]
    pub saved: SavedRow,
}

/// A range of data that is placed.
#[derive(Clone, Debug, Serialize)]
pub struct PlacedRow {
    /// Which of [`PlacementReport::data`].
    pub data: usize,
    /// Offset of its first byte.
    pub start: u64,
    /// Offset behind its last.
    pub end: u64,
    /// What this saves.
    #[serde(flatten)]
    pub saved: SavedRow,
}

fn name(choice: Choice) -> &'static str {
    match choice {
        Choice::Biggest => "biggest",
        Choice::Whole => "whole",
        Choice::First => "first",
        Choice::Last => "last",
        Choice::Coldest => "coldest",
        Choice::Hottest => "hottest",
        Choice::Best => "best",
    }
}

impl PlacementReport {
    /// The report of this machine over one trace, for one of its memories with so much room.
    /// `extents` are those of keys.
    pub fn new(
        trace: AccessTrace,
        outcome: &Outcome,
        (origins, extents): (&Origins, &[ops::Range<u64>]),
        memory: usize,
        room_bytes: u64,
    ) -> Self {
        let machine = outcome.machine();
        let cycles = outcome.total().cycles;
        let found = placements(outcome, origins, extents, memory, room_bytes);
        let share =
            |saved_cycles: u64| SavedShare { saved_cycles, saved_share: saved_cycles as f64 / cycles.max(1) as f64 };
        let saved = |saved: Saved| SavedRow { lines: saved.lines, share: share(saved.cycles) };
        let mut in_all = found.not_placeable;
        let data = found.candidates.iter().map(|candidate| {
            let data = &origins.data()[candidate.data as usize];
            in_all += candidate.saved();
            PlaceableRow {
                name: known(&data.name),
                data: data_row(data),
                bytes: candidate.bytes,
                divisible: candidate.is_divisible,
                saved: saved(candidate.saved()),
            }
        });
        let data = data.collect();
        let placed = |&(data, Range { start, end, saved: of_range }): &(usize, Range)| PlacedRow {
            data,
            start,
            end,
            saved: saved(of_range),
        };
        let choices = found.choices.iter().map(|(choice, placement)| ChoiceRow {
            choice: name(*choice),
            placed: placement.as_ref().map(|placement| placement.placed.iter().map(placed).collect()),
            bytes: placement.as_ref().map_or(0, Placement::bytes),
            saved: saved(placement.as_ref().map_or(Saved::default(), Placement::saved)),
        });
        Self {
            schema: PLACEMENT_SCHEMA,
            trace,
            machine: machine.name.clone(),
            memory: machine.memories[memory].name.clone(),
            room_bytes,
            cycles,
            in_all: saved(in_all),
            not_placeable: saved(found.not_placeable),
            choices: choices.collect(),
            data,
            at_most: share(found.at_most_cycles),
        }
    }

    /// The best that was found.
    pub(crate) fn best(&self) -> &[PlacedRow] {
        self.choices.last().and_then(|choice| choice.placed.as_deref()).unwrap_or_default()
    }

    /// As JSON, indented, with a line end.
    pub fn json(&self) -> String {
        crate::pretty(self)
    }
}
