//! Which features of objects say with whom they are accessed, as `slimline learn` shows it.

use serde::Serialize;
use slimline_analyze::full_trace::objects::ObjectOrigin;
use slimline_analyze::object_learning::{Accuracy, Feature, FeatureKind, Hint, LearnedType, Verdict};

use crate::full_trace::known;
use crate::hint_code::hint_code;
use crate::layout::{LevelRow, VerdictRow};
use crate::simulation::AccessTrace;

/// Version of the JSON. 1: the first.
pub const LEARNING_SCHEMA: u32 = 1;

/// Everything `slimline learn` shows, and its JSON.
#[derive(Clone, Debug, Serialize)]
pub struct LearningReport {
    /// [`LEARNING_SCHEMA`].
    pub schema: u32,
    /// What was read.
    pub trace: AccessTrace,
    /// What is told of all types together.
    #[serde(flatten)]
    pub facts: LearningFacts,
    /// Whether an order of objects would save anything on it.
    pub layout: VerdictRow,
    /// Types, that of most objects first; of blocks without a type only where none has one.
    pub types: Vec<TypeRow>,
}

/// What was learned of a type.
#[derive(Clone, Debug, Serialize)]
pub struct TypeRow {
    /// Its type; none where it is not known.
    pub type_name: Option<String>,
    /// Function, file and line of the line that allocates most of them; none where it is not known.
    pub function: Option<String>,
    /// See there.
    pub file: Option<String>,
    /// See there.
    pub line: Option<u32>,
    /// Other lines that do.
    pub other_lines: usize,
    /// Objects that are neighbours of others, and those of them that forests learned from.
    pub objects: u64,
    /// See there.
    pub learned: u64,
    /// Mean bytes of an object.
    pub mean_bytes: f64,
    /// Level of the communities that are said best, from 1.
    pub level: usize,
    /// Those that these objects are in, and those of them that have one object only and so can't be learned.
    pub communities: u64,
    /// See there.
    pub alone: u64,
    /// Trees of the best forest.
    pub trees: usize,
    /// Of all features.
    pub accuracy: AccuracyRow,
    /// Of those but the place, by 50 trees, as are all that follow.
    pub accuracy_of_fields: AccuracyRow,
    /// Of the place alone.
    pub accuracy_of_place: AccuracyRow,
    /// Of always the most frequent community.
    pub accuracy_of_guess: AccuracyRow,
    /// Share of what guessing leaves wrong that all features say right.
    pub kappa: f64,
    /// The best accuracy of forests that learned from shuffled communities.
    pub accuracy_of_shuffled: f64,
    /// The most important first.
    pub features: Vec<FeatureRow>,
    /// `hint`, `order_array`, `hint_saves_nothing`, `already_so`, `nothing_to_gain`, `changes_later`, `moved_about`,
    /// `no_fields` or `no_feature`.
    pub verdict: &'static str,
    /// The features that it names.
    pub verdict_features: Vec<String>,
    /// Of these: share of the cycles in the order of allocation that is saved where objects lie by those features.
    pub hint_saves: Option<f64>,
    /// Of `hint`: how to tell the allocator, where fields have names.
    pub code: Option<String>,
}

/// How often a community is said right.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AccuracyRow {
    /// Mean over folds, and its standard error.
    pub mean: f64,
    /// See there.
    pub standard_error: f64,
    /// How often it is among the first five.
    pub among_five: f64,
}

/// A feature.
#[derive(Clone, Debug, Serialize)]
pub struct FeatureRow {
    /// Its name.
    pub name: String,
    /// `primary`, `secondary`, `place` or `kind`.
    pub kind: &'static str,
    /// Share of the decrease of Gini's impurity.
    pub gini: f64,
    /// By how much accuracy falls when its values are exchanged, and the standard error of that.
    pub permutation: f64,
    /// See there.
    pub permutation_standard_error: f64,
    /// Share of objects whose value is known.
    pub known: f64,
    /// Share of those that get another value after it was loaded.
    pub changed: f64,
}

/// What is told of all types together.
#[derive(Clone, Debug, Serialize)]
pub struct LearningFacts {
    /// Objects that were accessed.
    pub objects: u64,
    /// Whether the trace tells what fields hold.
    pub has_values: bool,
    /// Whether the graph is of accesses to the three types of most objects only, as of all types nothing was found.
    pub of_three_types: bool,
    /// Two accesses are near with fewer than so many from the one to the other.
    pub window: u16,
    /// What was drawn was drawn by it.
    pub seed: u64,
    /// Communities, the finest level first.
    pub levels: Vec<LevelRow>,
    /// The simulated machine.
    pub machine: String,
}

impl LearningReport {
    /// Of what was learned; `layout` is whether an order of objects saves anything.
    pub fn new(
        trace: AccessTrace,
        facts: LearningFacts,
        layout: VerdictRow,
        (learned, origins): (&[LearnedType], &[ObjectOrigin]),
    ) -> Self {
        let types = learned.iter().map(|of| type_row(of, origins)).collect();
        Self { schema: LEARNING_SCHEMA, trace, facts, layout, types }
    }

    /// As JSON, indented, with a line end.
    pub fn json(&self) -> String {
        crate::pretty(self)
    }
}

fn type_row(of: &LearnedType, origins: &[ObjectOrigin]) -> TypeRow {
    let place = &origins[of.origins[0] as usize].allocated_at;
    let accuracy = |of: &Accuracy| AccuracyRow { mean: of.mean, standard_error: of.error, among_five: of.among_five };
    let named = |hint: &Hint| hint.features.iter().map(|feature| feature.name.clone()).collect();
    let (verdict, verdict_features) = match &of.verdict {
        Verdict::Hint(hint) => ("hint", named(hint)),
        Verdict::OrderArray(hint) => ("order_array", named(hint)),
        Verdict::HintSavesNothing(hint) => ("hint_saves_nothing", named(hint)),
        Verdict::AlreadySo(feature) => ("already_so", vec![feature.name.clone()]),
        Verdict::NothingToGain => ("nothing_to_gain", Vec::new()),
        Verdict::ChangesLater(features) => ("changes_later", features.clone()),
        Verdict::MovedAbout(_) => ("moved_about", Vec::new()),
        Verdict::NoFields => ("no_fields", Vec::new()),
        Verdict::NoFeature => ("no_feature", Vec::new()),
    };
    let code = match &of.verdict {
        Verdict::Hint(hint) => hint_code(&of.type_name, hint, &place.file),
        _ => None,
    };
    TypeRow {
        type_name: known(&of.type_name),
        function: known(&place.function),
        file: known(&place.file),
        line: (place.line > 0).then_some(place.line),
        other_lines: of.origins.len() - 1,
        objects: of.objects,
        learned: of.learned,
        mean_bytes: of.bytes,
        level: of.level,
        communities: of.communities,
        alone: of.alone,
        trees: of.trees,
        accuracy: accuracy(&of.accuracy),
        accuracy_of_fields: accuracy(&of.of_fields),
        accuracy_of_place: accuracy(&of.of_place),
        accuracy_of_guess: accuracy(&of.baseline),
        kappa: of.kappa(&of.accuracy),
        accuracy_of_shuffled: of.shuffled,
        features: of.features.iter().map(feature_row).collect(),
        verdict,
        verdict_features,
        hint_saves: of.hint_saves,
        code,
    }
}

fn feature_row(of: &Feature) -> FeatureRow {
    let kind = match of.kind {
        FeatureKind::Primary => "primary",
        FeatureKind::Secondary => "secondary",
        FeatureKind::Place => "place",
        FeatureKind::Kind => "kind",
    };
    FeatureRow {
        name: of.name.clone(),
        kind,
        gini: of.gini,
        permutation: of.permutation,
        permutation_standard_error: of.permutation_error,
        known: of.known,
        changed: of.changed,
    }
}
