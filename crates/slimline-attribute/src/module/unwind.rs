//! Unwind information (`.eh_frame`): where functions begin and end, and how large their frames are.

use gimli::{CfaRule, CommonInformationEntry, EhFrame, EhFrameOffset, UnwindContext, UnwindSection as _, X86_64};
use rustc_hash::FxHashMap;
use slimline_trace::address::Svma;

use super::image::Slice;

/// The unwind information of one file.
pub(super) struct Unwound<'a> {
    frames: EhFrame<Slice<'a>>,
    bases: gimli::BaseAddresses,
    /// (start, end, entry) of each function, in order.
    functions: Vec<(u64, u64, usize)>,
}

impl<'a> Unwound<'a> {
    /// Lists the functions of a section. A damaged entry ends the list: what was read until there stands.
    pub(super) fn read(data: &'a [u8], bases: gimli::BaseAddresses) -> Self {
        let frames = EhFrame::new(data, gimli::LittleEndian);
        let mut functions = Vec::new();
        let mut contexts = FxHashMap::default();
        let mut entries = frames.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let gimli::CieOrFde::Fde(partial) = entry else { continue };
            let parsed = partial.parse(|section, bases, offset| {
                if let Some(cie) = contexts.get(&offset.0) {
                    return Ok(CommonInformationEntry::clone(cie));
                }
                let cie = section.cie_from_offset(bases, offset)?;
                contexts.insert(offset.0, cie.clone());
                Ok(cie)
            });
            let Ok(fde) = parsed else { break };
            if fde.len() != 0 && fde.initial_address() != 0 {
                functions.push((fde.initial_address(), fde.end_address(), fde.offset()));
            }
        }
        functions.sort_unstable();
        Self { frames, bases, functions }
    }

    fn at(&self, svma: Svma) -> Option<(u64, u64, usize)> {
        let after = self.functions.partition_point(|&(start, ..)| start <= svma.0);
        let &found = self.functions.get(after.checked_sub(1)?)?;
        (svma.0 < found.1).then_some(found)
    }

    pub(super) fn bounds(&self, svma: Svma) -> Option<(Svma, Svma)> {
        self.at(svma).map(|(start, end, _)| (Svma(start), Svma(end)))
    }

    pub(super) fn above_stack_pointer(&self, svma: Svma) -> Option<i64> {
        let (.., entry) = self.at(svma)?;
        let cie =
            |section: &EhFrame<Slice<'a>>, bases: &gimli::BaseAddresses, offset| section.cie_from_offset(bases, offset);
        let fde = self.frames.fde_from_offset(&self.bases, EhFrameOffset(entry), cie).ok()?;
        let mut context = UnwindContext::new();
        let row = fde.unwind_info_for_address(&self.frames, &self.bases, &mut context, svma.0).ok()?;
        match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } if *register == X86_64::RSP => Some(*offset),
            _ => None,
        }
    }
}
