//! Which object a pointer points into: from variables through members, loads and merges.

use crate::llvm::{Metadata, MetadataKind, Opcode, ToldVariable, TypeKind, Value};

use super::layout::Extent;
use super::{Names, rust, written};

/// Most steps from a pointer back to the variable that it comes from.
const MAX_STEPS: u32 = 12;
/// What a merge of several ways costs of them, as each has to be looked at.
const MERGE_STEPS: u32 = 4;
/// Most ways of a merge that are looked at.
const MAX_WAYS: usize = 4;
/// Most loads that are spelled out in the name of what a pointer came from.
const MAX_LOADS: u32 = 3;

/// A variable that debug information tells of.
pub(crate) struct Told<'m> {
    pub(super) name: String,
    pub(super) r#type: Option<Metadata<'m>>,
    /// The value is the place of the variable, not what it holds.
    is_place: bool,
    /// Where in the variable the value is.
    offset_bytes: u64,
    /// The variable is one of the standard library's functions, or of the compiler's making.
    is_librarys: bool,
}

impl<'m> Told<'m> {
    /// Of a description of a local variable.
    pub(super) fn new(told: &ToldVariable<'m>, is_rust: bool) -> Self {
        const NAME: usize = 1;
        const FILE: usize = 2;
        const TYPE: usize = 3;
        let variable = told.variable;
        let file = variable.operand(FILE).and_then(Metadata::file);
        let name = variable.operand_text(NAME).into_owned();
        let r#type = variable.operand(TYPE);
        // What walks a range in a `for` loop of Rust's.
        let is_made = is_rust && name == "iter" && r#type.is_some_and(|r#type| rust::is_librarys(r#type));
        Self {
            name,
            r#type,
            is_place: told.is_place,
            offset_bytes: told.offset_bytes,
            is_librarys: is_made || file.is_some_and(|(directory, name)| rust::is_librarys_file(&directory, &name)),
        }
    }
}

impl Told<'_> {
    /// Its name, if it is one of the program's.
    pub(super) fn own_name(&self) -> Option<&str> {
        (!self.is_librarys).then_some(&*self.name)
    }
}

/// A place in an object. Indices of arrays are left out.
pub(super) struct Object<'m> {
    pub(super) r#type: Metadata<'m>,
    pub(super) offset_bytes: u64,
}

impl<'m> Names<'m> {
    /// What `pointer` points into.
    pub(super) fn object(&mut self, pointer: Value<'m>, steps: u32) -> Option<Object<'m>> {
        if steps > MAX_STEPS {
            return None;
        }
        let at = |r#type| Object { r#type, offset_bytes: 0 };
        if let Some(&Told { r#type: Some(r#type), is_place, offset_bytes, .. }) = self.told.get(&pointer) {
            let object = if is_place { Some(r#type) } else { self.layouts.pointee_in(r#type, offset_bytes) };
            if object.is_some() {
                return object.map(at);
            }
        }
        if pointer.is_global_variable() {
            let (variable, offset_bytes) = global_variable(pointer)?;
            return variable.operand(GLOBAL_TYPE).map(|r#type| Object { r#type, offset_bytes });
        }
        match pointer.operation()? {
            Opcode::ElementPointer => self.element(pointer, steps),
            Opcode::Load => {
                let object = self.object(pointer.operand(0)?, steps + 1)?;
                match self.layouts.member(object.r#type, object.offset_bytes, Extent::POINTER) {
                    Some(member) => member.pointee.map(at),
                    None => {
                        let loaded = self.layouts.element(object.r#type)?;
                        self.layouts.pointee(loaded).map(at)
                    }
                }
            }
            Opcode::Phi => {
                let ways = pointer.incoming();
                let mut others = ways.into_iter().take(MAX_WAYS).filter(|way| *way != pointer);
                others.find_map(|way| self.object(way, steps + MERGE_STEPS))
            }
            Opcode::Select => {
                [1, 2].into_iter().find_map(|way| self.object(pointer.operand(way)?, steps + MERGE_STEPS))
            }
            Opcode::Freeze | Opcode::BitCast | Opcode::AddressSpaceCast => self.object(pointer.operand(0)?, steps + 1),
            Opcode::Call => self.object(thread_local(pointer)?, steps + 1),
            _ => None,
        }
    }

    /// The structures that a pointer may point into, by the places that it comes from; none where it comes from one place.
    pub(super) fn ways(&mut self, pointer: Value<'m>) -> Vec<Option<(Metadata<'m>, String)>> {
        let mut at = pointer;
        for _ in 0..MAX_STEPS {
            let ways = match at.operation() {
                Some(Opcode::ElementPointer | Opcode::Freeze | Opcode::BitCast) => {
                    let Some(from) = at.operand(0) else { break };
                    at = from;
                    continue;
                }
                Some(Opcode::Phi) => at.incoming(),
                Some(Opcode::Select) => [1, 2].into_iter().filter_map(|way| at.operand(way)).collect(),
                _ => break,
            };
            let others = ways.into_iter().filter(|way| *way != at).take(MAX_WAYS);
            let structure = |way| {
                let object = self.object(way, MERGE_STEPS)?;
                self.layouts.structure(object.r#type)
            };
            return others.map(structure).collect();
        }
        Vec::new()
    }

    /// Takes in another variable that a value is. Any is as good as the others where they are one value in several inlined functions;
    /// but of Rust's most are the standard library's, and their pointers are often to bytes.
    pub(super) fn tell(&mut self, value: Value<'m>, new: Told<'m>) {
        let Some(known) = self.told.get(&value) else {
            self.told.insert(value, new);
            return;
        };
        if !self.layouts.is_rust {
            return;
        }
        let [of_known, of_new] = [known, &new].map(|told| (told.r#type, told.is_place, told.offset_bytes));
        let is_better_named = known.is_librarys && !new.is_librarys;
        let is_same_kind = known.is_place == new.is_place;
        let is_better_typed = !self.is_of_structure(of_known) && self.is_of_structure(of_new);
        let Some(known) = self.told.get_mut(&value) else { return };
        if is_better_named && (is_better_typed || !is_same_kind) {
            *known = new;
        } else if is_better_named {
            (known.name, known.is_librarys) = (new.name, false);
        } else if is_better_typed && is_same_kind {
            (known.r#type, known.offset_bytes) = (new.r#type, new.offset_bytes);
        }
    }

    /// Whether a variable is a structure, or points to one.
    fn is_of_structure(&mut self, (r#type, is_place, offset_bytes): (Option<Metadata<'m>>, bool, u64)) -> bool {
        let Some(r#type) = r#type else { return false };
        let object = if is_place { Some(r#type) } else { self.layouts.pointee_in(r#type, offset_bytes) };
        object.is_some_and(|object| self.layouts.structure(object).is_some())
    }

    /// What an element pointer points into: constant indices add to the offset, others go over elements of an array.
    fn element(&mut self, pointer: Value<'m>, steps: u32) -> Option<Object<'m>> {
        let object = self.object(pointer.operand(0)?, steps + 1)?;
        let size = self.layouts.element(object.r#type).map_or(0, |element| element.size_bits() / 8);
        let mut r#type = pointer.element_type()?;
        let mut offset = object.offset_bytes as i64;
        for number in 1..pointer.operands() {
            let index = pointer.operand(number)?;
            if number > 1 {
                match r#type.kind() {
                    TypeKind::Struct => {
                        let (from, member) = r#type.member(u32::try_from(index.constant()?).ok()?)?;
                        offset = offset.wrapping_add(from as i64);
                        r#type = member;
                        continue;
                    }
                    _ => r#type = r#type.element()?,
                }
            }
            let step = r#type.array_bytes()?;
            match index.constant() {
                Some(index) => offset = offset.wrapping_add(index.wrapping_mul(step as i64)),
                // Bytes of a structure counted one by one: any member could be meant.
                None if step < 4 && self.layouts.is_structure(object.r#type) && step != size => return None,
                None => {}
            }
        }
        // Elements of an array, and objects beside each other, are alike.
        let offset_bytes = match size {
            0 => u64::try_from(offset).ok()?,
            _ => offset.rem_euclid(size as i64) as u64,
        };
        Some(Object { r#type: object.r#type, offset_bytes })
    }

    /// The variable that a pointer came from, spelled as in C: `list->next` for what was loaded from there. One of the standard
    /// library's only where nothing else is known.
    pub(super) fn variable(&mut self, pointer: Value<'m>, loads: u32) -> Option<String> {
        self.source(pointer, loads).or_else(|| self.told.get(&pointer).map(|told| told.name.clone()))
    }

    pub(super) fn source(&mut self, pointer: Value<'m>, loads: u32) -> Option<String> {
        if loads > MAX_LOADS {
            return Some("…".to_owned());
        }
        let mut at = pointer;
        for _ in 0..MAX_STEPS {
            if let Some(told) = self.told.get(&at).filter(|told| !told.is_librarys) {
                return Some(told.name.clone());
            }
            if at.is_global_variable() {
                let told = global_variable(at).map(|(variable, _)| variable.operand_text(GLOBAL_NAME).into_owned());
                return Some(told.filter(|name| !name.is_empty()).unwrap_or_else(|| written(&at.name()).into_owned()));
            }
            at = match at.operation()? {
                Opcode::ElementPointer | Opcode::Freeze | Opcode::BitCast | Opcode::AddressSpaceCast => {
                    at.operand(0)?
                }
                Opcode::Load => {
                    let place = at.operand(0)?;
                    let from = self.variable(place, loads + 1)?;
                    // The value of a variable in memory is called as one in a register is.
                    if place.is_global_variable() || self.told.get(&place).is_some_and(|told| told.is_place) {
                        return Some(from);
                    }
                    let object = self.object(place, 0);
                    let member = object.and_then(|it| self.layouts.member(it.r#type, it.offset_bytes, Extent::POINTER));
                    // What a vector points to is called as the vector is.
                    if member.as_ref().is_some_and(|member| self.layouts.is_librarys(member.of)) {
                        return Some(from);
                    }
                    return Some(match member.filter(|member| !member.field.is_empty()) {
                        Some(member) => format!("{from}->{}", member.field),
                        None => format!("*{from}"),
                    });
                }
                Opcode::Phi => return self.source_of_ways(at, loads),
                Opcode::Call | Opcode::Invoke => match thread_local(at) {
                    Some(variable) => variable,
                    None => {
                        let called = at.called()?.name();
                        let called = written(&called);
                        return (!called.is_empty() && !called.starts_with("__rustc::")).then(|| format!("{called}()"));
                    }
                },
                _ => return None,
            };
        }
        None
    }
}

impl<'m> Names<'m> {
    /// What all ways into a merge are called, but those that come round from it by steps over elements. A list's walker is called
    /// nothing where nobody tells its name: what it begins with is not what it goes on to.
    fn source_of_ways(&mut self, merge: Value<'m>, loads: u32) -> Option<String> {
        /// Nobody looks for the name of what comes from more.
        const MOST_WAYS: usize = 8;
        let comes_from = |way: &Value<'m>| !way.is_null() && !way.is_undefined() && !goes_round(*way, merge);
        let ways: Vec<_> = merge.incoming().into_iter().filter(comes_from).collect();
        let mut found: Option<String> = None;
        for way in ways.iter().copied().filter(|_| ways.len() <= MOST_WAYS) {
            let name = self.source(way, loads + 1)?;
            if found.as_ref().is_some_and(|found| *found != name) {
                return None;
            }
            found = Some(name);
        }
        found
    }
}

/// Whether a value is another one, or an element some steps from there.
fn goes_round(value: Value<'_>, to: Value<'_>) -> bool {
    let mut at = value;
    for _ in 0..MAX_STEPS {
        if at == to {
            return true;
        }
        match at.operation() {
            Some(Opcode::ElementPointer | Opcode::Freeze | Opcode::BitCast) => match at.operand(0) {
                Some(from) => at = from,
                None => return false,
            },
            _ => return false,
        }
    }
    false
}

const GLOBAL_NAME: usize = 1;
const GLOBAL_TYPE: usize = 3;

/// The description of a global variable, and which of its bytes comes first: the optimizer makes variables of the members that are
/// accessed of a structure that nobody else sees.
fn global_variable<'m>(value: Value<'m>) -> Option<(Metadata<'m>, u64)> {
    let is_expression = |node: &Metadata<'_>| node.kind() == MetadataKind::GlobalVariableExpression;
    let found = value.global_metadata().into_iter().find(is_expression)?;
    // Such parts are called `variable.0`, and asking takes its time.
    let is_part = value.name().contains('.');
    let offset = found.operand(1).filter(|_| is_part).map_or(0, Metadata::fragment_offset_bits);
    Some((found.operand(0)?, offset / 8))
}

/// The thread-local variable whose address a call gives.
fn thread_local(call: Value<'_>) -> Option<Value<'_>> {
    call.called()?.name().starts_with("llvm.threadlocal.address").then(|| call.operand(0))?
}
