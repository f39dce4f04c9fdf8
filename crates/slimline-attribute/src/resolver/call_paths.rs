//! Call paths of allocations: whose frames they are, and what a data structure is called after its.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use slimline_trace::address::{Avma, Svma};
use slimline_trace::tables::{StackEnd, StackRow};
use slimline_trace::wire::AGENT_FILE;

use super::mappers::Mappers;
use super::unlike::Call;
use super::{ProcessId, ProcessView};
use crate::code::hands_on::{Delivery, Found, HandedBack, Handing, Known, hands_on};
use crate::code::no_return::NoReturn;
use crate::data::call_path::own_frames;
use crate::data::wrappers::{Verdict, WrapperRules};
use crate::tables::{Frame, GroupKind};

/// An allocation's call path.
pub(super) struct CallPath {
    /// Numbers of the frames that tell it from others, innermost first.
    pub(super) own: Vec<u32>,
    /// Whether unwinding ended before the outermost frame.
    pub(super) is_cut: bool,
    /// All calls whose code is in a file, innermost first.
    pub(super) calls: Rc<[Call]>,
    /// Those of them that end in the innermost frame that is the program's own.
    pub(super) inner: Rc<[Call]>,
    frames: Vec<Rc<[CallFrame]>>,
    /// Which of all frames `own` are.
    kept: Vec<usize>,
    /// Which of all frames are the program's own, those of a recursion too.
    shown: Vec<usize>,
}

impl CallPath {
    /// All frames that are the program's own, innermost first.
    pub(super) fn stack(&self) -> Vec<Frame> {
        self.at(&self.shown).map(|call| call.frame.clone()).collect()
    }

    /// The innermost frame that is the program's own.
    pub(super) fn allocated_at(&self) -> Option<Frame> {
        self.own_frames().next().map(|call| call.frame.clone())
    }

    /// What the data is called until a variable or a type is known: where it was allocated. In a function without a name
    /// that is the address of the call, behind the nearest caller that has one: `PyList_New › +0x4fb5a1`.
    pub(super) fn name(&self) -> String {
        let Some(CallFrame { frame, call, .. }) = self.own_frames().next() else { return "heap".to_owned() };
        match &frame.position {
            Some(position) => format!("{}:{}", frame.function, position.line),
            None if frame.is_named() => frame.function.clone(),
            None => match self.own_frames().find(|caller| caller.frame.is_named()) {
                Some(caller) => format!("{} › +{call}", caller.frame.function),
                None => format!("{}+{call}", frame.module),
            },
        }
    }

    fn own_frames(&self) -> impl Iterator<Item = &CallFrame> {
        self.at(&self.kept)
    }

    fn at<'p>(&'p self, indices: &'p [usize]) -> impl Iterator<Item = &'p CallFrame> {
        let all: Vec<&CallFrame> = self.frames.iter().flat_map(|frames| frames.iter()).collect();
        indices.iter().map(move |&index| all[index])
    }
}

#[derive(Clone)]
struct CallFrame {
    frame: Frame,
    /// Where the call returns to, in its process.
    return_address: Avma,
    /// Number of the module.
    module: Option<usize>,
    /// Link-time address in the call.
    call: Svma,
    /// Number among all frames; those without position also tell their address apart.
    number: u32,
    /// What the rules say of it.
    verdict: Verdict,
}

impl CallFrame {
    /// The call, where it is in a file.
    fn in_file(&self) -> Option<Call> {
        Some((self.module?, Svma(self.call.0.wrapping_add(1))))
    }
}

/// Frames that were met, with what was found out about them.
pub(super) struct CallPaths {
    rules: WrapperRules,
    frames: FxHashMap<Frame, u32>,
    call_frames: FxHashMap<(ProcessId, u64), Rc<[CallFrame]>>,
    /// What becomes of the block that is handed to a call, by module and address in it, as processes have one code; `None` where that can't be read.
    handed: FxHashMap<(usize, Svma, Option<Handing>), Option<Found>>,
    no_return: NoReturn,
    handed_back: HandedBack,
    mappers: FxHashMap<ProcessId, Mappers>,
}

impl CallPaths {
    pub(super) fn new(rules: WrapperRules) -> Self {
        Self {
            rules,
            frames: FxHashMap::default(),
            call_frames: FxHashMap::default(),
            handed: FxHashMap::default(),
            no_return: NoReturn::default(),
            handed_back: HandedBack::default(),
            mappers: FxHashMap::default(),
        }
    }

    /// The rules that frames are told by.
    pub(super) fn rules(&self) -> &WrapperRules {
        &self.rules
    }

    /// Finds a call path's frames and tells those that are the program's own.
    pub(super) fn find(
        &mut self,
        view: ProcessView<'_, '_>,
        stack: StackRow,
        kind: GroupKind,
        time_ns: u64,
    ) -> CallPath {
        let stacks = view.process.tables.stacks;
        let by_call: Vec<Rc<[CallFrame]>> =
            stacks.frames(stack).iter().map(|&address| self.call_frames(view, address, time_ns)).collect();
        let mut own = self.own(view, &by_call, time_ns);
        if !own.contains(&true) {
            // A library's own memory: the whole path tells.
            own.fill(true);
        }
        let all: Vec<&CallFrame> = by_call.iter().flat_map(|frames| frames.iter()).collect();
        let frames: Vec<&Frame> = all.iter().map(|call| &call.frame).collect();
        let mut kept = own_frames(&frames, |index| own[index]);
        // How deep a recursion was when it allocated makes no other data structure: each function counts once.
        let mut seen = FxHashSet::default();
        kept.retain(|&index| seen.insert((&frames[index].function, &frames[index].module)));
        if kind.is_mapped() && kept.first().is_some_and(|&index| self.keeps_pool(view, all[index])) {
            // An allocator that mapped what it did not hand on keeps a pool, and serves all callers from it: which of
            // them came when the pool was empty makes no other data structure.
            kept.truncate(1);
        }
        let shown = (0..own.len()).filter(|&index| own[index]).collect();
        let is_within = kept.first().map(|&index| all[index].return_address);
        let ends = by_call.iter().position(|frames| frames.first().map(|call| call.return_address) == is_within);
        let calls =
            |by_call: &[Rc<[CallFrame]>]| by_call.iter().filter_map(|frames| frames.first()?.in_file()).collect();
        CallPath {
            own: kept.iter().map(|&index| all[index].number).collect(),
            is_cut: stacks.end(stack) != StackEnd::Outermost,
            calls: calls(&by_call),
            inner: calls(&by_call[..ends.map_or(by_call.len(), |last| last + 1)]),
            frames: by_call,
            kept,
            shown,
        }
    }

    /// All frames of a call path, inlined ones too, innermost first.
    pub(super) fn frames(&mut self, view: ProcessView<'_, '_>, stack: StackRow, time_ns: u64) -> Vec<Frame> {
        let addresses = view.process.tables.stacks.frames(stack);
        let calls = addresses.iter().flat_map(|&address| self.call_frames(view, address, time_ns).to_vec());
        calls.map(|call| call.frame).collect()
    }

    /// Whether memory mapped there is an allocator's, by the function's name or by what it does.
    fn keeps_pool(&mut self, view: ProcessView<'_, '_>, call: &CallFrame) -> bool {
        let tables = &view.process.tables;
        let mappers = || Mappers::new(tables.ranges, tables.stacks);
        call.verdict == Verdict::NamedLikeAllocator
            || self.mappers.entry(view.id).or_insert_with(mappers).keeps_pool(call.return_address)
    }

    /// Which frames of a path are the program's own, neither a library's nor such as only hand the block on. One that
    /// stores it where its caller says hands it on if its caller does.
    fn own(&mut self, view: ProcessView<'_, '_>, calls: &[Rc<[CallFrame]>], time_ns: u64) -> Vec<bool> {
        let mut given = None;
        let mut found: Vec<Option<Found>> = Vec::with_capacity(calls.len());
        for frames in calls {
            let is_wanted = given != Some(Handing::NOT_SIZED)
                || frames.iter().any(|frame| frame.verdict == Verdict::NamedLikeAllocator);
            let here = frames.first().filter(|_| is_wanted).and_then(|call| self.handed(view, call, given, time_ns));
            found.push(here);
            given = Some(here.and_then(|found| found.handing).unwrap_or(Handing::NOT_SIZED));
        }
        let mut outer = false;
        let mut own: Vec<bool> = Vec::new();
        for (frames, found) in calls.iter().zip(found).rev() {
            let handing = found.and_then(|found| found.handing);
            let hands_on = handing.is_some_and(|handing| handing.result == Delivery::Returned || outer);
            own.extend(frames.iter().rev().map(|call| match call.verdict {
                Verdict::Library => false,
                Verdict::Program => !hands_on,
                // What was inlined has no return of its own to look at; and code that can't be read is taken at its name.
                Verdict::NamedLikeAllocator => {
                    !call.frame.inlined && found.is_some_and(|found| !hands_on && !found.returns)
                }
            }));
            outer = hands_on;
        }
        own.reverse();
        own
    }

    fn handed(
        &mut self,
        view: ProcessView<'_, '_>,
        call: &CallFrame,
        given: Option<Handing>,
        time_ns: u64,
    ) -> Option<Found> {
        let known = Known { no_return: &self.no_return, handed_back: &self.handed_back };
        let loaded = view.process.space.module_at(Avma(call.return_address.0.wrapping_sub(1)), time_ns)?;
        let return_address = loaded.svma(call.return_address);
        let handed = self.handed.entry((loaded.module, return_address, given));
        *handed.or_insert_with(|| hands_on(view.modules.get(loaded.module), known, return_address, given))
    }

    /// The inline stack at a return address, innermost first.
    fn call_frames(&mut self, view: ProcessView<'_, '_>, return_address: Avma, time_ns: u64) -> Rc<[CallFrame]> {
        if let Some(found) = self.call_frames.get(&(view.id, return_address.0)) {
            return Rc::clone(found);
        }
        // The call is before the address it returns to; that may even belong to the next function.
        let call = Avma(return_address.0.wrapping_sub(1));
        let loaded = view.process.space.module_at(call, time_ns);
        let svma = loaded.map_or(Svma(call.0), |loaded| loaded.svma(call));
        let module = loaded.map(|loaded| loaded.module);
        let frames = match loaded {
            // Around a hooked function: nobody has it in his source.
            Some(loaded) if view.modules.get(loaded.module).file_name() == AGENT_FILE => Vec::new(),
            Some(loaded) => view.modules.get(loaded.module).frames(svma),
            None => vec![Frame {
                function: format!("[unknown]+{call}"),
                module: "[unknown]".to_owned(),
                position: None,
                inlined: false,
            }],
        };
        let found: Rc<[CallFrame]> = frames
            .into_iter()
            .map(|frame| {
                let source = frame.position.as_ref().map(|position| position.file.as_str());
                let verdict = self.rules.judge(&frame.function, &frame.module, source);
                CallFrame { number: self.number(&frame, svma), frame, return_address, module, call: svma, verdict }
            })
            .collect();
        self.call_frames.insert((view.id, return_address.0), Rc::clone(&found));
        found
    }

    /// Numbers frames: the same source position is the same frame; without one, the address in the module tells.
    fn number(&mut self, frame: &Frame, svma: Svma) -> u32 {
        let next = self.frames.len() as u32;
        // Whether a compiler inlined the function at this call makes no other data structure.
        let mut key = Frame { inlined: false, ..frame.clone() };
        if frame.position.is_none() {
            key.function = format!("{} {svma}", key.function);
        }
        *self.frames.entry(key).or_insert(next)
    }
}
