//! The debug information of modules, for questions about types and frames.

use rustc_hash::FxHashMap;
use slimline_trace::address::Svma;

use crate::module::Module;
use crate::typing::debug_info::DebugInfo;

/// Debug information by number of the module, opened on first use.
#[derive(Default)]
pub(super) struct DebugInfos<'a>(FxHashMap<usize, Option<DebugInfo<'a>>>);

impl<'a> DebugInfos<'a> {
    pub(super) fn open(&mut self, number: usize, module: &Module<'a>) -> Option<&DebugInfo<'a>> {
        let open = || Some(DebugInfo::of(module.debug()?).with_virtual_tables(module.virtual_tables()));
        self.0.entry(number).or_insert_with(open).as_ref()
    }

    /// What was opened before.
    pub(super) fn opened(&self, number: usize) -> Option<&DebugInfo<'a>> {
        self.0.get(&number).and_then(Option::as_ref)
    }
}

/// The code of a function.
pub(super) fn code<'a>(module: &Module<'a>, start: Svma, end: Svma) -> Option<&'a [u8]> {
    let length = usize::try_from(end.0.checked_sub(start.0)?).ok()?;
    module.image()?.bytes_from(start).get(..length)
}
