//! Memory operands as places of known types, and the words that lie there.

use iced_x86::Register;

use super::bound::{Bound, FrameVariable};
use super::debug_info::Die;
use super::function::{Function, Use, UseKind};
use super::infer::Reason;
use super::location::{Gpr, gpr};
use super::shape::Shape;
use super::state::State;
use super::value::{Home, Pointer, Value, gcd};
use crate::tables::Language;

/// Pointers of a structure that are looked at where its offset runs.
const MAX_ALTERNATIVES: usize = 64;

/// Larger results are returned in memory (System V).
const MAX_REGISTER_RESULT_BYTES: u64 = 16;

impl Function<'_, '_> {
    /// The variable at a frame offset that is in place now.
    fn frame_variable_in_place(&self, state: &State, index: usize, offset: i64) -> Option<FrameVariable> {
        let mut found: Option<FrameVariable> = None;
        for bound in self.bounds.at(index) {
            let variable = match *bound {
                Bound::Frame(variable) => variable,
                Bound::Address(register, variable, _) => match state.get(register) {
                    Value::Frame(at) => variable.moved(at),
                    _ => continue,
                },
                _ => continue,
            };
            let wins = found.is_none_or(|found| !self.info.is_structure(found.type_));
            if variable.holds(offset) && wins {
                found = Some(variable);
            }
        }
        found
    }

    /// The variable at a frame offset: one in place now, else the only one that ever is there.
    fn frame_variable(&self, state: &State, index: usize, offset: i64) -> Option<FrameVariable> {
        self.frame_variable_in_place(state, index, offset).or_else(|| self.bounds.only_frame_variable(offset))
    }

    /// A pointer to the frame's byte at `offset`, as an address in the variable there.
    pub(super) fn frame_pointer(&self, state: &State, index: usize, offset: i64) -> Option<Pointer> {
        let variable = self.frame_variable(state, index, offset)?;
        Some(self.pointer_into(variable, offset))
    }

    /// A pointer to the frame's byte at `offset`, which is in that variable.
    fn pointer_into(&self, variable: FrameVariable, offset: i64) -> Pointer {
        let inside = variable.inside.cast_signed().wrapping_add(offset.wrapping_sub(variable.at));
        let to = self.info.pointer_to(Some(variable.type_), variable.type_.unit);
        Pointer { offset: inside, name: variable.name, ..to }
    }

    fn running_frame_pointer(&self, state: &State, index: usize, offset: i64, step: u64) -> Result<Pointer, Reason> {
        // What is no longer than a step is no array: an address may begin to run before one.
        let variable = self.frame_variable(state, index, offset).filter(|variable| variable.bytes > step);
        let pointer = self.pointer_into(variable.ok_or(Reason::NoVariable)?, offset);
        Ok(Pointer { step: gcd(pointer.step, step), ..pointer })
    }

    /// A declared pointer in the frame word at `offset`.
    fn declared_word(&self, state: &State, index: usize, offset: i64) -> Option<Pointer> {
        for bound in self.bounds.at(index) {
            match *bound {
                Bound::FrameWord(at, pointer) if at == offset => return Some(pointer),
                Bound::AddressWord(register, more, pointer)
                    if state.get(register).plus(Value::Constant(more)) == Value::Frame(offset) =>
                {
                    return Some(pointer);
                }
                _ => {}
            }
        }
        // A compiler keeps other things there while a variable is elsewhere.
        let elsewhere = || self.bounds.only_frame_variable(offset).filter(|variable| variable.is_only_place);
        let variable = self.frame_variable_in_place(state, index, offset).or_else(elsewhere)?;
        self.pointer_in(self.pointer_into(variable, offset))
    }

    /// The pointer that lies in memory where `place` points.
    pub(super) fn pointer_in(&self, place: Pointer) -> Option<Pointer> {
        let offset = match self.info.offset_in_target(place) {
            Ok(offset) => offset,
            Err(Reason::OffsetRuns) => return self.any_pointer_in(place),
            Err(_) => return None,
        };
        let path = self.info.path_to(place.target, offset);
        path.pointer.then(|| {
            let name = self.names.member(place.name, &path.names, self.language());
            Pointer { name, ..self.info.pointer_to(path.pointee, place.target.unit) }
        })
    }

    /// Where the offset may be one of several (`t->child[x]` written as `x ? t->left : t->right`): the pointer that lies
    /// there if all pointers that may are to one type. What is no pointer is not followed anyway.
    fn any_pointer_in(&self, place: Pointer) -> Option<Pointer> {
        let step = i64::try_from(place.step).ok().filter(|&step| step > 0)?;
        let start = place.offset.rem_euclid(step).cast_unsigned();
        let offsets = (start..place.bytes).step_by(usize::try_from(step).ok()?).take(MAX_ALTERNATIVES);
        let mut found: Option<Die> = None;
        for pointee in offsets.filter_map(|offset| self.info.path_to(place.target, offset).pointee) {
            let (target, _) = self.info.target(pointee);
            if found.is_some_and(|found| found != target) {
                return None;
            }
            found = Some(target);
        }
        found.map(|target| self.info.pointer_to(Some(target), place.target.unit))
    }

    /// A pointer to the static variable at a link-time address, or to its end: walks end there, or begin.
    fn static_pointer(&self, address: u64) -> Option<Pointer> {
        let ends = || self.info.static_range_at(address.checked_sub(1)?);
        let range = self.info.static_range_at(address).or_else(ends)?;
        let name = self.info.qualified_name(range.die).map(|name| self.names.variable(&name, true));
        let to = self.info.pointer_to(Some(range.type_), range.type_.unit);
        let home = Some(Home { begin: range.begin, end: range.end });
        Some(Pointer { offset: (address - range.begin).cast_signed(), name, home, ..to })
    }

    /// The pointer, in the variable that it points into: compilers count from what they have at hand, as the end of one array that
    /// is the beginning of another.
    fn at_home(&self, pointer: Pointer) -> Option<Pointer> {
        let Some(Home { begin, end }) = pointer.home else { return Some(pointer) };
        let address = begin.wrapping_add_signed(pointer.offset);
        if (begin..end).contains(&address) {
            return Some(pointer);
        }
        let other = self.static_pointer(address)?;
        let is_within = other.home.is_some_and(|home| (home.begin..home.end).contains(&address));
        is_within.then_some(Pointer { step: gcd(other.step, pointer.step), ..other })
    }

    /// The address of the instruction's memory operand.
    pub(super) fn address(&self, state: &State, index: usize) -> Value {
        let instruction = &self.flow.instructions[index];
        if matches!(instruction.segment_prefix(), Register::FS | Register::GS) {
            return Value::Unknown(Reason::ThreadLocal);
        }
        if instruction.is_ip_rel_memory_operand() {
            let address = instruction.ip_rel_memory_address();
            return self.static_pointer(address).map_or(Value::Constant(address.cast_signed()), Value::Pointer);
        }
        if instruction.is_vsib() {
            return Value::Unknown(Reason::Gather);
        }
        let displacement = Value::Constant(instruction.memory_displacement64().cast_signed());
        let scale = i64::from(instruction.memory_index_scale());
        let value_of = |register| gpr(register).map(|register| state.get(register));
        let (base, index_register) = (instruction.memory_base(), instruction.memory_index());
        let (start, running) = match (value_of(base), value_of(index_register)) {
            (Some(value), Some(_)) if base == index_register => (displacement, Some(value.times(scale + 1))),
            (Some(base), index) => (base.plus(displacement), index.map(|index| index.times(scale))),
            (None, Some(index)) => (displacement, Some(index.times(scale))),
            (None, None) => (displacement, None),
        };
        let Some(running) = running else { return start };
        match start {
            // Position-dependent code has the array's address as displacement.
            Value::Constant(address) if address >= 0x1000 && !running.is_address() => self
                .static_pointer(address.cast_unsigned())
                .map_or(Value::Unknown(Reason::NoVariable), |pointer| Value::Pointer(pointer).plus(running)),
            start => start.plus(running),
        }
    }

    /// The typed place that the instruction's memory operand is.
    pub(super) fn accessed(&self, state: &State, index: usize) -> Result<Pointer, Reason> {
        let pointer = match self.address(state, index) {
            Value::Pointer(pointer) => self.at_home(pointer).ok_or(Reason::NoVariable)?,
            Value::Frame(offset) => self.frame_pointer(state, index, offset).ok_or(Reason::Spill)?,
            Value::FrameRun { offset, step } => self.running_frame_pointer(state, index, offset, step)?,
            Value::Constant(address) => {
                let pointer = self.static_pointer(address.cast_unsigned());
                pointer.and_then(|pointer| self.at_home(pointer)).ok_or(Reason::NoVariable)?
            }
            Value::Fresh(_) => return Err(Reason::Untyped),
            unknown => return Err(unknown.reason()),
        };
        let offset = self.info.offset_in_target(pointer)?;
        Ok(Pointer { offset: offset.cast_signed(), ..pointer })
    }

    /// The 64-bit word that the memory operand holds.
    pub(super) fn load(&self, state: &State, index: usize) -> Value {
        let word = |place: Pointer| self.pointer_in(place).map_or(Value::Unknown(Reason::NoPointer), Value::Pointer);
        match self.address(state, index) {
            Value::Frame(offset) => {
                let declared = self.declared_word(state, index, offset);
                match (state.slot(offset), declared) {
                    (Some(known), Some(declared)) => self.reconcile(known, declared),
                    (Some(known), None) => known,
                    (None, Some(declared)) => Value::Pointer(declared),
                    (None, None) => Value::Unknown(Reason::Spill),
                }
            }
            Value::Pointer(place) => self.at_home(place).map_or(Value::Unknown(Reason::NoVariable), word),
            Value::Constant(address) => {
                self.static_pointer(address.cast_unsigned()).map_or(Value::Unknown(Reason::NoVariable), word)
            }
            Value::Fresh(_) => Value::Unknown(Reason::Untyped),
            unknown => Value::Unknown(unknown.reason()),
        }
    }

    pub(super) fn store(&self, state: &mut State, index: usize, bytes: u64, value: Value, uses: &mut Vec<Use>) {
        self.store_at(state, index, self.address(state, index), bytes, value, uses);
    }

    /// Stores to an address.
    pub(super) fn store_at(
        &self,
        state: &mut State,
        index: usize,
        address: Value,
        bytes: u64,
        value: Value,
        uses: &mut Vec<Use>,
    ) {
        let place = match address {
            Value::Frame(offset) => {
                if let Value::Fresh(start) = value
                    && let Some(pointer) = self.declared_word(state, index, offset)
                {
                    uses.push(Use { pointer, start, kind: UseKind::Variable });
                }
                state.store(offset, bytes, value);
                return;
            }
            Value::Pointer(place) => match self.at_home(place) {
                Some(place) => place,
                None => return,
            },
            Value::Scaled { symbol, factor: 1, plus, .. } => {
                if let Value::Fresh(start) = value
                    && symbol == State::at_entry_in(Gpr::RDI)
                    && let Some(result) = self.result_in_memory()
                    && let Some(pointer) = self.pointer_in(Pointer { offset: plus, ..result })
                {
                    uses.push(Use { pointer, start, kind: UseKind::Built(plus) });
                }
                return;
            }
            _ => return,
        };
        if let Value::Fresh(start) = value
            && let Some(pointer) = self.pointer_in(place)
        {
            let kind = if pointer.target == place.target { UseKind::Linked } else { UseKind::Stored };
            uses.push(Use { pointer, start, kind });
        }
    }

    /// What the first argument points to where the function returns a large result in memory: room for that.
    fn result_in_memory(&self) -> Option<Pointer> {
        let type_ = self.info.type_of(self.die)?;
        let Shape::Aggregate { bytes, .. } = self.info.shape(type_)? else { return None };
        // C++ returns what has a destructor or a copy constructor of its own so, however small.
        (bytes > MAX_REGISTER_RESULT_BYTES || self.language() == Language::Cpp)
            .then(|| self.info.pointer_to(Some(type_), type_.unit))
    }
}
