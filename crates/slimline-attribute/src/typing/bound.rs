//! The function's variables as values of registers and frame slots, per instruction.

use std::cell::RefCell;
use std::collections::HashMap;

use iced_x86::FlowControl;

use super::debug_info::{DebugInfo, Die};
use super::flow::Flow;
use super::location::{Gpr, Indexed, Place};
use super::scope::{Fact, FunctionScope};
use super::transfer::CLOBBERED;
use super::value::{NameId, Pointer};
use crate::tables::Language;

/// What a variable in a place says.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    /// The register points so.
    Register(Gpr, Pointer),
    /// The sum does, where its own constant is taken off: of its registers one points into the same array.
    Element(Indexed, Pointer),
    /// The register holds the address of a variable, unless it is a frame register: then the variable is in the frame.
    Address(Gpr, FrameVariable, Pointer),
    /// A variable is in the frame.
    Frame(FrameVariable),
    /// The word in the frame at that offset points to a variable.
    FrameWord(i64, Pointer),
    /// The same for the word at a register plus a constant.
    AddressWord(Gpr, i64, Pointer),
}

/// A variable, or a piece of it, in the frame (or at a register that may be a frame register).
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameVariable {
    /// Offset from the call frame address, or from the register.
    pub(super) at: i64,
    /// Size of the piece.
    pub(super) bytes: u64,
    /// Where in the variable the piece starts.
    pub(super) inside: u64,
    /// Whether it is never anywhere else.
    pub(super) is_only_place: bool,
    /// The variable, and its type.
    pub(super) die: Die,
    pub(super) type_: Die,
    /// `None` for the locals of a library's function.
    pub(super) name: Option<NameId>,
}

/// Names of variables and of what is reached from them.
#[derive(Default)]
pub(super) struct Names {
    list: RefCell<Vec<Name>>,
    ids: RefCell<HashMap<(String, bool), NameId>>,
}

#[derive(Clone)]
struct Name {
    text: String,
    /// Whether it names the object, not a pointer to it.
    object: bool,
    members: u32,
}

/// Names with more members than this (`a->b->c->d`) are not built: a traversal would never end.
const MAX_MEMBERS: u32 = 2;

impl Names {
    /// The name of a pointer variable, or of an object.
    pub(super) fn variable(&self, text: &str, object: bool) -> NameId {
        self.add(Name { text: text.to_owned(), object, members: 0 })
    }

    /// The name of the member `path` of what `base` names or points to.
    pub(super) fn member(&self, base: Option<NameId>, path: &[String], language: Language) -> Option<NameId> {
        let base = self.list.borrow()[base?.0 as usize].clone();
        if path.is_empty() {
            return Some(self.add(Name { object: false, ..base }));
        }
        if base.members >= MAX_MEMBERS {
            return None;
        }
        let arrow = !base.object && matches!(language, Language::C | Language::Cpp);
        let separator = if arrow { "->" } else { "." };
        let text = format!("{}{separator}{}", base.text, path.join("."));
        Some(self.add(Name { text, object: false, members: base.members + 1 }))
    }

    /// The text of a name.
    pub(super) fn text(&self, id: NameId) -> String {
        self.list.borrow()[id.0 as usize].text.clone()
    }

    fn add(&self, name: Name) -> NameId {
        let mut ids = self.ids.borrow_mut();
        *ids.entry((name.text.clone(), name.object)).or_insert_with(|| {
            let mut list = self.list.borrow_mut();
            list.push(name);
            NameId(list.len() as u32 - 1)
        })
    }
}

/// Which variables say what at which instruction.
#[derive(Default)]
pub(super) struct Bounds {
    bounds: Vec<Bound>,
    /// Different sets of variables in place, the outermost scope's first, and which set each instruction has.
    sets: Vec<Vec<u32>>,
    set_of: Vec<u32>,
    /// All frame variables of the function, wherever they hold.
    frame: Vec<FrameVariable>,
}

impl Bounds {
    pub(super) fn new(info: &DebugInfo<'_>, scope: &FunctionScope, flow: &Flow, names: &Names) -> Self {
        let library: Vec<bool> = scope.inlined.iter().map(|inlined| info.is_library(inlined.origin)).collect();
        let name_of = |fact: &Fact, object| {
            let text = info.name(fact.die).filter(|_| !library[fact.inlined as usize])?;
            if is_compilers_own(info, &text, fact) {
                return None;
            }
            Some(names.variable(&text, object))
        };
        let bound = |fact: &Fact| bound(info, fact, name_of(fact, false), name_of(fact, true));
        let calls = returning_calls(flow);
        let until_lost = |fact: &Fact| match info.has_hooks(fact.die.unit) {
            true => Fact { end: fact.end.min(lost_at(fact, &calls)), ..*fact },
            false => *fact,
        };
        let mut usable: Vec<(Fact, Bound)> =
            scope.facts.iter().filter_map(|fact| Some((until_lost(fact), bound(fact)?))).collect();
        usable.sort_by_key(|(fact, _)| fact.begin);
        let mut result = Self { bounds: usable.iter().map(|(_, bound)| *bound).collect(), ..Self::default() };
        result.frame.extend(result.bounds.iter().filter_map(|bound| match bound {
            Bound::Frame(variable) => Some(*variable),
            _ => None,
        }));
        let mut active: Vec<u32> = Vec::new();
        let mut next = 0;
        for instruction in &flow.instructions {
            let ip = instruction.ip();
            let before = active.len();
            active.retain(|&id| ip < usable[id as usize].0.end);
            let mut changed = active.len() != before || result.sets.is_empty();
            while next < usable.len() && usable[next].0.begin <= ip {
                if ip < usable[next].0.end {
                    active.push(next as u32);
                    changed = true;
                }
                next += 1;
            }
            if changed {
                active.sort_by_key(|&id| (usable[id as usize].0.depth, id));
                result.sets.push(active.clone());
            }
            result.set_of.push(result.sets.len() as u32 - 1);
        }
        result
    }

    /// What variables say at the instruction with that index, outermost scope first.
    pub(super) fn at(&self, instruction: usize) -> impl Iterator<Item = &Bound> {
        let set = self.set_of.get(instruction).map_or(&[][..], |&set| &self.sets[set as usize]);
        set.iter().map(|&id| &self.bounds[id as usize])
    }

    /// The only variable that is ever at that frame offset.
    pub(super) fn only_frame_variable(&self, offset: i64) -> Option<FrameVariable> {
        let mut found = self.frame.iter().filter(|variable| variable.holds(offset));
        let first = found.next()?;
        let same =
            |other: &FrameVariable| (other.at, other.type_, other.inside) == (first.at, first.type_, first.inside);
        found.all(same).then_some(*first)
    }
}

/// Where calls return to; those left out that may be the last of what runs there.
fn returning_calls(flow: &Flow) -> Vec<u64> {
    let is_call =
        |at: usize| matches!(flow.instructions[at].flow_control(), FlowControl::Call | FlowControl::IndirectCall);
    let within = flow.blocks.iter().flat_map(|block| block.begin..block.end.saturating_sub(1));
    within.filter(|&at| is_call(at)).map(|at| flow.instructions[at].next_ip()).collect()
}

/// The end of what is true of a register that called functions may change, whatever the debug information says: where there are a sanitizer's hooks gcc goes on
/// telling of a variable in one behind calls. Elsewhere what it says is so, as of functions of which it knows that they leave a register
/// alone (`-fipa-ra`).
fn lost_at(fact: &Fact, calls: &[u64]) -> u64 {
    let changes = |register: Gpr| CLOBBERED.contains(&register.0);
    let is_lost = match fact.place {
        Place::Register(register)
        | Place::Sum(register, _)
        | Place::Memory(register, _)
        | Place::BehindMemory(register, _) => changes(register),
        Place::Element(indexed) => changes(indexed.base) || changes(indexed.index),
        Place::Frame(_) | Place::BehindFrame(_) => false,
    };
    let next = calls.get(calls.partition_point(|&after| after <= fact.begin)).copied();
    next.filter(|_| is_lost).unwrap_or(u64::MAX)
}

impl FrameVariable {
    pub(super) fn holds(&self, offset: i64) -> bool {
        offset >= self.at && offset.wrapping_sub(self.at).cast_unsigned() < self.bytes
    }

    pub(super) fn moved(self, by: i64) -> Self {
        Self { at: self.at.wrapping_add(by), ..self }
    }
}

/// Whether a compiler made up the variable: what walks a range in a `for` loop. Rust's compiler calls it `iter`, as
/// programs call things of their own; what it walks by is nearly always the library's.
fn is_compilers_own(info: &DebugInfo<'_>, name: &str, fact: &Fact) -> bool {
    match info.language(fact.die.unit) {
        Language::Rust => name == "iter" && info.is_library(fact.type_),
        _ => name.starts_with("__"),
    }
}

/// What a fact says; `name` is for what its variable points to, `object_name` for the variable as an object.
fn bound(info: &DebugInfo<'_>, fact: &Fact, name: Option<NameId>, object_name: Option<NameId>) -> Option<Bound> {
    let points = |offset: i64| {
        let path = info.path_to(fact.type_, fact.offset);
        path.pointer.then(|| Pointer { offset, name, ..info.pointer_to(path.pointee, fact.type_.unit) })
    };
    let object = |offset: i64| Pointer {
        offset: offset.wrapping_add_unsigned(fact.offset),
        name: object_name,
        ..info.pointer_to(Some(fact.type_), fact.type_.unit)
    };
    let frame_variable = |at| {
        let all = info.shape(fact.type_)?.bytes();
        let bytes = fact.bytes.unwrap_or(all);
        Some(FrameVariable {
            at,
            bytes,
            inside: fact.offset,
            is_only_place: fact.is_only_place,
            die: fact.die,
            type_: fact.type_,
            name: object_name,
        })
    };
    Some(match fact.place {
        Place::Register(register) => Bound::Register(register, points(0)?),
        Place::Sum(register, plus) => Bound::Register(register, points(plus.wrapping_neg())?),
        Place::Element(indexed) => Bound::Element(indexed, points(indexed.plus.wrapping_neg())?),
        // A number may be said to live where it was last stored to, which is in some structure.
        Place::Memory(register, _) if register != Gpr::RSP && register != Gpr::RBP && info.is_number(fact.type_) => {
            return None;
        }
        Place::Memory(register, at) => Bound::Address(register, frame_variable(at)?, object(at.wrapping_neg())),
        Place::Frame(at) => Bound::Frame(frame_variable(at)?),
        Place::BehindFrame(at) => Bound::FrameWord(at, object(0)),
        Place::BehindMemory(register, at) => Bound::AddressWord(register, at, object(0)),
    })
}
