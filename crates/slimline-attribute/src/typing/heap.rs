//! What a heap block is made of, from the side that allocates it.
//!
//! Two kinds of evidence, in each frame of the allocation's call path, innermost first:
//!
//! - the type argument of an allocating function or container (`RawVec<T>`, `Box<T>`, `std::allocator<T>`), inlined or
//!   not;
//! - what becomes of the pointer that the call returns: which variable holds it, which member or static it is stored
//!   to, what it is returned as. That is followed through wrappers (`xmalloc`) as long as they return the pointer, alone
//!   or in a larger result that they build where their caller has room for it (`Vec`).
//!
//! A variable holds it where its location does, whichever part of the variable that is, at any instruction in its
//! scope. A compiler fills in a variable of the frame before its scope begins; so a word of the frame that got the
//! pointer earlier counts once a variable is said to be there.

use slimline_trace::address::Svma;

use super::debug_info::{DebugInfo, Die};
use super::function::{Function, Handed, Use, UseKind, Watch};
use super::layout::TypeTable;
use super::library_strings::Characters;
use super::location::Gpr;
use super::value::{Pointer, Value};
use crate::tables::{Element, Language, MemberRole};

/// A frame of an allocation's call path.
#[derive(Clone, Copy)]
pub struct AllocationFrame<'f, 'a> {
    /// Debug information of the frame's module; `None` where it has none.
    pub info: Option<&'f DebugInfo<'a>>,
    /// Code of the frame's function.
    pub code: &'f [u8],
    /// Where that code lies.
    pub begin: Svma,
    /// Return address of the call that the frame is in.
    pub return_address: Svma,
    /// What a string is made of, if the function is a method of one.
    pub characters: Option<Characters>,
}

/// What is known of the blocks of one allocation path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    /// What the block is an array of. Its `agreement` is 1: accesses have not been asked.
    pub element: Option<Element>,
    /// The variable, member or container that holds the block: `nodes`, `net->neurons`.
    pub holder: Option<Holder>,
    /// Whether a method of a string allocates it.
    pub is_string: bool,
}

/// Who holds a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The variable, member or container: `nodes`, `net->neurons`.
    pub name: String,
    /// Where that is.
    pub held_in: HeldIn,
}

/// Where the pointer to a block is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldIn {
    /// A static or a member of an object.
    Memory,
    /// Whatever the container has, whose method allocates.
    Container,
    /// A local variable.
    Variable,
    /// A local variable of a function that returns the block, and no caller is known to call it otherwise: what a
    /// constructor calls the one it makes.
    Constructor,
}

/// Largest start of the first element: an array cookie (8 or 16 bytes), reference counts (16), a small header. What points
/// farther in is a place in the array, not the array.
const MAX_START: i64 = 64;

/// In the place of a block's size: blocks of one call differ, and which is asked about is not known.
pub const ANY_BYTES: u64 = u64::MAX;

/// Names of type parameters that are what a container holds, in order of preference.
const ELEMENT_PARAMETERS: [&str; 3] = ["T", "_Tp", "_Ty"];

/// What the blocks are that the call path `frames` (innermost first) allocates; `bytes` is the size of one of them,
/// against which element sizes are checked, or [`ANY_BYTES`].
pub fn allocation(frames: &[AllocationFrame<'_, '_>], bytes: u64, table: &mut TypeTable) -> Allocation {
    let mut found = Allocation::default();
    let mut handed = Some(Handed::Returned);
    for (depth, frame) in frames.iter().enumerate() {
        let watch = handed.map(|handed| Watch { return_address: frame.return_address.0, handed });
        let Some(function) = frame.info.and_then(|info| info.function(frame.code, frame.begin, watch)) else {
            // Between the C library and a string's method is `operator new`: others allocate exceptions and the like.
            let characters = frame.characters.filter(|_| depth <= 1 && found.element.is_none());
            found.is_string |= characters.is_some();
            found.element = characters.map(|characters| characters.element(table)).or(found.element);
            // Allocators without debug information return what they allocate.
            continue;
        };
        let solved = function.solve();
        let mut container = None;
        let uses = function.walk(&solved, |index, state, _| {
            if function.flow.instructions[index].next_ip() == frame.return_address.0 {
                container = function.name_of(state.get(Gpr::RDI));
            }
        });
        if found.element.is_none() {
            found.element = function.element_used(&uses, bytes, table);
        }
        if found.element.is_none() {
            found.element = function.generic_element(frame.return_address.0 - 1, bytes, table);
        }
        let was_handed = handed.is_some();
        handed = handed.and_then(|_| handed_on(&uses));
        let own = !function.info.is_library(function.die);
        if own {
            // The container whose method allocates: its caller passes it.
            let container = container.filter(|_| found.element.is_some() && !was_handed);
            // A caller of a function that returns the block knows better what it is for.
            let holder = function.holder(&uses, handed.is_some()).or(found.holder);
            found.holder = holder.or(container.map(|name| Holder { name, held_in: HeldIn::Container }));
        }
        if own && handed.is_none() {
            break;
        }
    }
    found
}

/// How a function that uses the block so hands it to its caller; `None` where it keeps it.
fn handed_on(uses: &[Use]) -> Option<Handed> {
    let built = |each: &Use| if let UseKind::Built(offset) = each.kind { Some(Handed::Built(offset)) } else { None };
    if uses.iter().any(|each| each.kind == UseKind::Returned) {
        return Some(Handed::Returned);
    }
    uses.iter().find_map(built)
}

impl Function<'_, '_> {
    /// The type that uses of the block agree on best: the first typed one of the best kind, of structures before others, as memory may be cast to what
    /// it is. In Fortran it may not: there what holds it first says it, and what a register of the same value is called later is another one's name.
    fn element_used(&self, uses: &[Use], bytes: u64, table: &mut TypeTable) -> Option<Element> {
        let fits = |each: &&Use| self.rank(each.pointer) > 0 && self.fits(each.pointer, each.start, bytes);
        let structures = uses.iter().filter(fits).filter(|each| self.rank(each.pointer) == 2);
        let best = structures.min_by_key(|each| each.kind).filter(|_| self.language() != Language::Fortran);
        let best = best.or_else(|| {
            uses.iter().filter(fits).filter(|each| each.kind != UseKind::Argument).min_by_key(|each| each.kind)
        })?;
        self.element(best.pointer.target, best.pointer.bytes, u64::try_from(best.start).ok()?, table)
    }

    fn element(&self, target: Die, bytes: u64, start: u64, table: &mut TypeTable) -> Option<Element> {
        let type_id = self.info.row(target, table)?;
        Some(Element { type_id, bytes, start, agreement: 1.0 })
    }

    /// Whether blocks of `bytes` can be arrays of the pointer's target from `start` on.
    fn fits(&self, pointer: Pointer, start: i64, bytes: u64) -> bool {
        let Some(start) = (0..=MAX_START).contains(&start).then_some(start as u64) else { return false };
        let Some(room) = bytes.checked_sub(start).filter(|_| pointer.bytes > 0) else { return false };
        let flexible = self.info.is_structure(pointer.target)
            && self.info.fields(pointer.target).last().is_some_and(|last| last.role == MemberRole::FlexibleArray);
        room >= pointer.bytes && (bytes == ANY_BYTES || room % pointer.bytes == 0 || flexible)
    }

    /// Who holds the block: a member or static it is stored to, else a variable.
    fn holder(&self, uses: &[Use], handed_on: bool) -> Option<Holder> {
        let typed = |each: &&Use| each.pointer.bytes > 0 && (0..=MAX_START).contains(&each.start);
        let named = |kind, held_in| {
            let mut of_kind = uses.iter().filter(typed).filter(|each| each.kind == kind);
            of_kind.find_map(|each| Some(Holder { name: self.names.text(each.pointer.name?), held_in }))
        };
        let variable = if handed_on { HeldIn::Constructor } else { HeldIn::Variable };
        named(UseKind::Stored, HeldIn::Memory).or_else(|| named(UseKind::Variable, variable))
    }

    /// The object that a pointer is to, by name: a variable, or a member of what a variable points to.
    fn name_of(&self, value: Value) -> Option<String> {
        let Value::Pointer(pointer) = value else { return None };
        let offset = self.info.offset_in_target(pointer).ok()?;
        let path = self.info.path_to(pointer.target, offset);
        let name = self.names.member(pointer.name, &path.names, self.info.language(self.die.unit))?;
        Some(self.names.text(name))
    }

    /// The element type of the innermost allocating library function at an address.
    fn generic_element(&self, address: u64, bytes: u64, table: &mut TypeTable) -> Option<Element> {
        let here = |inlined: &&super::scope::Inlined| {
            inlined.ranges.iter().any(|&(begin, end)| (begin..end).contains(&address))
        };
        for inlined in self.scope.inlined.iter().rev().filter(here) {
            if !self.info.is_library(inlined.origin) {
                break;
            }
            let Some(argument) = self.element_argument(inlined.origin) else { continue };
            let (target, size) = self.info.target(argument);
            // Allocators are the arguments of their own traits.
            if self.info.is_empty_class(target) {
                continue;
            }
            let pointer = Pointer { target, bytes: size, ..self.info.pointer_to(None, target.unit) };
            if self.fits(pointer, 0, bytes) {
                return self.element(target, size, 0, table);
            }
        }
        None
    }

    /// The element's type argument of a function, or of the class it is a method of.
    fn element_argument(&self, function: Die) -> Option<Die> {
        let mut die = function;
        for _ in 0..4 {
            if let Some(found) =
                ELEMENT_PARAMETERS.iter().find_map(|name| self.info.type_parameter(die, std::slice::from_ref(name)))
            {
                return Some(found);
            }
            die = match self.info.entry(die).and_then(|entry| self.info.declaration_of(die, &entry)) {
                Some(declaration) => declaration,
                None => Die { unit: die.unit, offset: self.info.index(die.unit).parent(die.offset)? },
            };
        }
        None
    }
}
