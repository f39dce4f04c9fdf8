//! From a session directory to a report.

use std::path::Path;

use slimline_analyze::advise::{Floors, advise};
use slimline_analyze::analysis::Pass;
use slimline_analyze::findings::DataProfile;
use slimline_analyze::quality::SampleQuality;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::resolver::{ProcessTables, Resolver};
use slimline_report::assemble;
use slimline_report::view::Report;
use slimline_trace::session::Session;

use crate::disk::Disk;

/// Reads, attributes and analyzes the session in `directory`.
pub(crate) fn report(directory: &Path) -> anyhow::Result<Report> {
    let session = Session::open(directory)?;
    let processes = session
        .processes()
        .iter()
        .map(|summary| Ok((summary.pid, session.load(summary)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let store = FileStore::new(&Disk);
    let mut resolver = Resolver::new(&store);
    let mut quality = SampleQuality::default();
    let profile = DataProfile::default();
    let mut pass = Pass::new(&profile);
    for (pid, process) in &processes {
        let id = resolver.add_process(ProcessTables::new(*pid, process));
        for part in process.parts() {
            let part = part?;
            quality.update(&part.samples);
            resolver.resolve(id, (&part).into(), |batch| pass.push(batch));
        }
    }
    let resolution = resolver.finish();
    let findings = pass.finish(&resolution.tables);
    let advice = advise(&findings, &resolution.tables, &Floors::default());
    Ok(assemble::report(session.info(), &quality, &resolution.tables, &findings, &advice))
}
