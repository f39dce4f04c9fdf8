//! Accuracies and importances beside those of scikit-learn's `RandomForestClassifier`, of the same folds. Forests differ by what they draw:
//! figures agree within what another seed would change.
//!
//! `SLIMLINE_PYTHON` names a Python with scikit-learn 1.4 or later, else it is `python3`. Where it has none, nothing is tested.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use slimline_learn::folds::Folds;
use slimline_learn::forest::{Forest, Options};
use slimline_learn::permutation::permutation_importances;
use slimline_learn::samples::Samples;

const TREES: usize = 100;
const FOLDS: usize = 5;
const REPEATS: usize = 5;
/// Of accuracies, Gini importances and permutation importances: scikit-learn's own figures for these tables differ by up to 0.006, 0.006 and
/// 0.018 from seed to seed.
const TOLERANCES: [f64; 3] = [0.015, 0.01, 0.03];

#[test]
fn communities_of_few_values() {
    let mut random = fastrand::Rng::with_seed(1);
    let source: Vec<f64> = (0..3000).map(|_| f64::from(random.u32(..240))).collect();
    let weight = (0..3000).map(|_| f64::from(random.u32(..10))).collect();
    let size = vec![48.0; 3000];
    let sequence = (0..3000).map(f64::from).collect();
    // 60 communities of near sources, whose borders one in four crosses.
    let community = |&source: &f64| (source as u32 / 4 + u32::from(random.u32(..4) == 0) * random.u32(1..4)) % 60;
    let labels: Vec<u32> = source.iter().map(community).collect();
    check("communities", vec![source, weight, size, sequence], &labels);
}

#[test]
fn overlapping_classes_with_missing_values() {
    let mut random = fastrand::Rng::with_seed(2);
    let labels: Vec<u32> = (0..2000).map(|_| random.u32(..8).min(5)).collect();
    let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
    let mut column =
        |by: u32| labels.iter().map(|&class| f64::from(class * by % 7) * 0.5 + normal()).collect::<Vec<_>>();
    let mut columns: Vec<Vec<f64>> = [1, 2, 3, 0, 4, 0, 5].into_iter().map(&mut column).collect();
    for (at, &class) in labels.iter().enumerate() {
        // Where it is missing tells, too.
        if random.u32(..6) < class {
            columns[0][at] = f64::NAN;
        }
        if random.u32(..10) == 0 {
            columns[1][at] = f64::NAN;
        }
    }
    check("missing", columns, &labels);
}

#[test]
fn noise_of_many_values_beside_few_that_tell() {
    let mut random = fastrand::Rng::with_seed(3);
    let few: Vec<f64> = (0..2500).map(|_| f64::from(random.u32(..5))).collect();
    let flag: Vec<f64> = (0..2500).map(|_| f64::from(random.u32(..2))).collect();
    let many = (0..2500).map(|_| f64::from(random.u32(..1 << 20))).collect();
    let label = |(few, flag): (&f64, &f64)| (*few as u32 * 2 + *flag as u32) * u32::from(random.u32(..4) > 0);
    let labels: Vec<u32> = few.iter().zip(&flag).map(label).collect();
    check("noise", vec![few, vec![7.0; 2500], many, flag], &labels);
}

fn check(name: &str, columns: Vec<Vec<f64>>, labels: &[u32]) {
    let python = std::env::var("SLIMLINE_PYTHON").unwrap_or_else(|_| "python3".into());
    if !Command::new(&python).args(["-c", "import sklearn"]).output().is_ok_and(|out| out.status.success()) {
        return skipped(&format!("scikit-learn ({name}): {python} has none; SLIMLINE_PYTHON names one that has"));
    }
    let samples = Samples::new(columns, labels).unwrap();
    let folds = Folds::new(&samples, FOLDS, 1).unwrap();
    let table = table(name, &samples, &folds);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/against_scikit_learn/reference.py");
    let out = Command::new(python)
        .args([Path::new(script), &table])
        .args([TREES, REPEATS].map(|number| number.to_string()))
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let theirs: Vec<f64> =
        String::from_utf8(out.stdout).unwrap().split_whitespace().map(|figure| figure.parse().unwrap()).collect();
    let ours = ours(&samples, &folds);
    println!("{name}: categorical, top-5, Gini importances, permutation importances\n  {ours:.3?}\n  {theirs:.3?}");
    assert_eq!(ours.len(), theirs.len());
    for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        let kind = if at < 2 { 0 } else { 1 + (at - 2) / samples.feature_count() };
        assert!((ours - theirs).abs() < TOLERANCES[kind], "{ours} and {theirs}");
    }
}

/// In the order in which the script prints.
fn ours(samples: &Samples, folds: &Folds) -> Vec<f64> {
    let mut sums = vec![0.0; 2 + 2 * samples.feature_count()];
    for fold in 0..FOLDS {
        let options = Options { trees: TREES, seed: fold as u64, ..Options::default() };
        let forest = Forest::learn(samples, &folds.learned(fold), &options);
        let held_out = folds.held_out(fold);
        let accuracy = forest.accuracy(samples, &held_out, 5, 2);
        let permuted = permutation_importances(&forest, samples, &held_out, REPEATS, fold as u64, 2);
        let figures = [accuracy.first, accuracy.top].into_iter();
        let figures = figures.chain(forest.gini_importances()).chain(permuted.iter().map(|drops| drops.mean()));
        sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure / FOLDS as f64);
    }
    sums
}

fn table(name: &str, samples: &Samples, folds: &Folds) -> PathBuf {
    let mut rows = vec![0; samples.count()];
    for fold in 0..FOLDS {
        folds.held_out(fold).iter().for_each(|&sample| rows[sample as usize] = fold);
    }
    let mut text = String::new();
    for (sample, fold) in (0..).zip(rows) {
        write!(text, "{fold},{}", samples.label(sample)).unwrap();
        for feature in 0..samples.feature_count() {
            write!(text, ",{}", samples.value(sample, feature)).unwrap();
        }
        text.push('\n');
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.csv"));
    std::fs::write(&path, text).unwrap();
    path
}

/// Says that there was nothing to test: see `cargo xtask test`.
fn skipped(why: &str) {
    use std::io::Write as _;
    eprintln!("skipped: {why}");
    if let Some(list) = std::env::var_os("SLIMLINE_SKIPPED_TESTS") {
        let mut list = std::fs::File::options().append(true).create(true).open(list).unwrap();
        writeln!(list, "{why}").unwrap();
    }
}
