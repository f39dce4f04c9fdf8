//! What pages of 2 MiB gain.

use serde::Serialize;
use slimline_analyze::relayout::{Taken, TimeRatio};

use super::{PredictedRow, Replayed};

/// What they take on pages of 2 MiB.
#[derive(Clone, Copy, Debug)]
pub struct LargePagesTaken {
    /// As the program is.
    pub alone: Taken,
    /// With all that is advised; none where nothing is.
    pub with_advised: Option<Taken>,
}

/// What is predicted for all memory on pages of 2 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LargePagesRow {
    /// Whether that saves enough.
    pub is_advised: bool,
    /// Nothing else changed.
    pub alone: PredictedRow,
    /// With all that is advised; none where nothing is.
    pub with_advised: Option<PredictedRow>,
}

impl LargePagesRow {
    pub(super) fn of(taken: &LargePagesTaken, replayed: &Replayed) -> Self {
        let LargePagesTaken { alone, with_advised } = taken;
        // With advice it must save something that the advice does not.
        let (with, without) = match (with_advised, replayed.together) {
            (Some(with), Some(without)) => (*with, without),
            _ => (*alone, replayed.before),
        };
        Self {
            is_advised: TimeRatio::of(&with, &without).is_worth_it(),
            alone: PredictedRow::of(alone, &replayed.before),
            with_advised: with_advised.map(|taken| PredictedRow::of(&taken, &replayed.before)),
        }
    }
}
