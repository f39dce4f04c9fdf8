//! Closed forms, and a program for each class of overhead.

use slimline_regions::{Kind, OverheadReport, Overheads, Phase, Profile};

use super::{check, near, sorted, table};

/// The classes of the one parallel region; no other may come near the one that the program was made for.
fn classes(profile: &Profile) -> Overheads {
    let report = OverheadReport::of(profile);
    assert_eq!(report.regions.len(), 1);
    let (_, analysis) = report.regions[0];
    assert_eq!(report.program.overheads, analysis.overheads);
    assert!(analysis.percent(analysis.overheads.total_ns()) <= 100.0);
    assert!(report.parallel_ns <= profile.duration_ns);
    analysis.overheads
}

#[test]
fn synchronization() {
    check("critical", |profile| {
        let table = table(profile, Kind::Critical);
        near("bodyT", &sorted(&table, Phase::Body), &[50; 4])?;
        near("enterT", &sorted(&table, Phase::Enter), &[0, 50, 100, 150])?;
        near("exitT", &sorted(&table, Phase::Exit), &[0; 4])?;
        assert_eq!(table.sum.count, 4);
        assert_eq!(table.sum.exec_ns(), Phase::ALL.into_iter().map(|phase| table.sum.phase_ns(phase)).sum::<u64>());
        near("synchronization", &[classes(profile).synchronization_ns], &[300])?;
        near("limited parallelism", &[classes(profile).limited_parallelism_ns], &[0])
    });
}

#[test]
fn imbalance() {
    check("imbalance", |profile| {
        let table = table(profile, Kind::Loop);
        near("bodyT", &sorted(&table, Phase::Body), &[25, 50, 75, 100])?;
        near("exitBarT", &sorted(&table, Phase::ExitBarrier), &[0, 25, 50, 75])?;
        near("imbalance", &[classes(profile).imbalance_ns], &[150])?;
        near("synchronization", &[classes(profile).synchronization_ns], &[0])
    });
}

#[test]
fn limited_parallelism() {
    check("limited", |profile| {
        let single = table(profile, Kind::Single);
        assert_eq!(single.sum.count, 1);
        near("single's bodyT", &[single.sum.phase_ns(Phase::Body)], &[80])?;
        near("single's exitBarT", &sorted(&single, Phase::ExitBarrier), &[0, 80, 80, 80])?;
        near("sections' exitBarT", &sorted(&table(profile, Kind::Sections), Phase::ExitBarrier), &[0, 0, 60, 60])?;
        near("limited parallelism", &[classes(profile).limited_parallelism_ns], &[360])?;
        near("imbalance", &[classes(profile).imbalance_ns], &[0])
    });
}

/// How long it takes is the runtime's: but it is all that there is.
#[test]
fn thread_management() {
    check("management", |profile| {
        let parallel = table(profile, Kind::Parallel);
        assert_eq!(parallel.sum.count, 2000);
        let overheads = classes(profile);
        assert_eq!((overheads.synchronization_ns, overheads.limited_parallelism_ns), (0, 0));
        let started = parallel.sum.phase_ns(Phase::Enter) + parallel.sum.phase_ns(Phase::Exit);
        assert_eq!(overheads.management_ns, started);
        let body = parallel.sum.phase_ns(Phase::Body);
        if overheads.management_ns > body { Ok(()) } else { Err(format!("{started} ns of management, {body} of body")) }
    });
}

/// A region lasts as long on each thread of its team.
#[test]
fn teams_begin_and_end_together() {
    check("imbalance", |profile| {
        let parallel = table(profile, Kind::Parallel);
        let times: Vec<_> = parallel.threads.iter().map(|(_, times)| times.exec_ns()).collect();
        assert_eq!(times.len(), 4);
        assert!(times.iter().max().unwrap() - times.iter().min().unwrap() < 1000, "{times:?}");
        Ok(())
    });
}
