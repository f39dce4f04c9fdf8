//! What could not be resolved, and why: shown in a report's head.

use super::groups::Groups;
use super::sites::Sites;
use crate::data::address_space::Modules;
use crate::module::Module;
use crate::tables::{Frame, SymbolSource};
use slimline_trace::address::Svma;

/// Why something has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The sample's address could not be told, or no memory instruction could be blamed.
    NoAddress,
    /// The address was in no mapping that was seen.
    NoMapping,
    /// A heap block without a call path: the agent had no room, or unwinding failed at once.
    NoCallPath,
    /// Data of a module that no symbol names.
    NoVariable,
    /// A stack, at an address that no known function's frame holds.
    NoFrame,
    /// Memory without a name that was mapped in a way which was not seen.
    UnseenMapping,
    /// A heap block that was not followed.
    NotFollowed,
    /// Code that is in no file: generated at run time.
    CodeInNoFile,
    /// The module's file is gone, replaced, unreadable or damaged.
    UnreadableModule,
    /// The module is stripped and has no dynamic symbol there.
    NoFunction,
    /// The module has no debug information for the code: no lines.
    NoLine,
    /// The module has debug information for the code, which says that it is of no line (line 0), as compilers do where they
    /// have merged or made it.
    LineZero,
    /// A stub through which functions of other modules are called: linkers give it neither name nor line.
    LinkageStub,
    /// The module's debug information is in `.dwo` files (`-gsplit-dwarf`) that are not there.
    SplitDebugInfo,
    /// The module's debug information is damaged, or a `.gnu_debugaltlink` file that it needs is not there.
    DamagedDebugInfo,
}

/// Accesses that lack something for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// What is missing.
    pub reason: Reason,
    /// Path of the module that it is about; empty where it is about none.
    pub module: String,
    /// Weight of the samples concerned.
    pub weight: u64,
    /// Accesses concerned, samples and bursts together.
    pub accesses: u64,
}

/// `.plt`, `.plt.sec`, `.plt.got`
fn is_linkage_stub(module: &Module<'_>, svma: Svma) -> bool {
    let section = module.image().and_then(|image| image.section_at(svma));
    section.is_some_and(|(_, _, name)| name.starts_with(".plt"))
}

pub(super) fn collect(sites: &Sites, groups: &Groups, modules: &Modules<'_>) -> Vec<Unresolved> {
    let mut found: Vec<Unresolved> = Vec::new();
    let mut add = |reason, module: &str, weight, accesses| match found
        .iter_mut()
        .find(|other| other.reason == reason && other.module == module)
    {
        Some(row) => {
            row.weight += weight;
            row.accesses += accesses;
        }
        None => found.push(Unresolved { reason, module: module.to_owned(), weight, accesses }),
    };
    for (reason, module, tally) in groups.unresolved() {
        add(reason, module.map_or("", |module| modules.get(module).path()), tally.weight, tally.accesses);
    }
    for (row, module, tally) in sites.tallies() {
        let Some(module) = module else {
            if !row.frames.first().is_some_and(Frame::is_named) {
                add(Reason::CodeInNoFile, "", tally.weight, tally.accesses);
            }
            continue;
        };
        let module = modules.get(module);
        let has_line = row.frames.first().is_some_and(|frame| frame.position.is_some());
        let debug = module.debug();
        let reason = match module.source() {
            SymbolSource::Unreadable => Reason::UnreadableModule,
            _ if has_line => continue,
            _ if debug.is_some_and(|debug| debug.lacks_split_files()) => Reason::SplitDebugInfo,
            _ if debug.is_some_and(|debug| debug.is_damaged()) => Reason::DamagedDebugInfo,
            _ if is_linkage_stub(module, row.svma) => Reason::LinkageStub,
            _ if debug.is_some_and(|debug| debug.covers(row.svma)) => Reason::LineZero,
            _ if row.function().starts_with(&format!("{}+", module.file_name())) => Reason::NoFunction,
            _ => Reason::NoLine,
        };
        add(reason, module.path(), tally.weight, tally.accesses);
    }
    found.retain(|row| row.accesses != 0);
    found.sort_by(|a, b| b.weight.cmp(&a.weight).then(a.reason.cmp(&b.reason)).then_with(|| a.module.cmp(&b.module)));
    found
}
