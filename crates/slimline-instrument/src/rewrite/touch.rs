//! What an instruction does to memory, and which words say so.

use std::collections::HashMap;

use slimline_trace::stream::record::{MAX_LANES, MAX_SEGMENT_WORDS};
use slimline_trace::stream::sites::{SiteKind, ValueKind};

use super::allocators::Allocator;
use super::own_allocators::{AllocatorRole, OwnAllocator, OwnAllocators, OwnCall};
use super::synchronization::{acquires, assembly_acquires, releases};
use crate::llvm::{Function, Module, Opcode, TypeKind, Value};

/// A word of a record, as it is made of the program's values.
#[derive(Clone, Copy)]
pub(super) enum Word<'m> {
    /// A pointer or an integer.
    Value(Value<'m>),
    /// The bits of a value.
    Bits(Value<'m>),
    /// The bits of a mask.
    Mask(Value<'m>),
    /// A lane of a vector of pointers.
    Lane(Value<'m>, u64),
    /// The product of two integers.
    Product(Value<'m>, Value<'m>),
    /// So many bytes, times those of two integers that there are.
    Bytes { factors: [Option<Value<'m>>; 2], unit: u32 },
    /// The pointer stored at a place, where a status is zero.
    IfZero { status: Value<'m>, place: Value<'m> },
    /// The pointer stored at a place.
    At(Value<'m>),
    /// Bytes of the array that flang's descriptor is of.
    DescribedBytes(Value<'m>),
    /// The time, where any is needed.
    Stamp,
    /// The same, or a bit earlier: before what is done here, but maybe before the end of what was done last.
    EarlyStamp,
    /// What tells the function's call from all others that run: where its return address is.
    Frame,
}

/// A site to be, and the words it writes.
pub(super) struct Touch<'m> {
    pub(super) kind: SiteKind,
    /// Of one lane.
    pub(super) bytes: u64,
    pub(super) lanes: u16,
    pub(super) words: Vec<Word<'m>>,
    /// What is loaded or stored, if it fits into a word.
    pub(super) value: Option<(ValueKind, Value<'m>)>,
    /// What names are looked up by.
    pub(super) pointer: Option<Value<'m>>,
    /// See [`Site::detail`](slimline_trace::stream::sites::Site::detail).
    pub(super) detail: String,
}

/// What is done about an instruction.
#[derive(Default)]
pub(super) struct Deed<'m> {
    /// Accesses, told before it runs.
    pub(super) before: Vec<Touch<'m>>,
    /// Code may run that writes records of its own, so the cursor must be in its place.
    pub(super) is_boundary: bool,
    /// What it returned and what may be seen now, told after it in one segment.
    pub(super) after: Vec<Touch<'m>>,
    /// Others may see from it on what this thread did before, or it waits for others: what it is. The time is told before it.
    pub(super) releases: Option<String>,
    /// The allocator of the program's own that it calls otherwise than its user tells, as that names it.
    pub(super) unlike: Option<String>,
}

/// Numbers of attributes, which differ between versions, and what the program's user says of its functions.
pub(super) struct Attributes {
    pub(super) by_value: u32,
    memory: u32,
    /// By their names in the module.
    own_allocators: HashMap<String, OwnAllocator>,
}

impl Attributes {
    pub(super) fn new(module: &Module<'_>, own: &OwnAllocators) -> Self {
        let [by_value, memory] = ["byval", "memory"].map(|name| module.attribute_kind(name));
        Self { by_value, memory, own_allocators: own.of(module) }
    }
}

impl<'m> Touch<'m> {
    fn new(kind: SiteKind, bytes: u64, words: Vec<Word<'m>>, pointer: Value<'m>) -> Self {
        Self { kind, bytes, lanes: 1, words, value: None, pointer: Some(pointer), detail: String::new() }
    }

    /// An access of a place, if it can be told.
    fn access(kind: SiteKind, pointer: Value<'m>, bytes: Option<u64>) -> Self {
        let Some(bytes) = bytes else { return Self::untraced("a type without a fixed size") };
        Self::new(kind, bytes, vec![Word::Value(pointer)], pointer).in_default_space(pointer)
    }

    /// What is told of no place in memory.
    fn of_no_place(kind: SiteKind, words: Vec<Word<'m>>, detail: &str) -> Self {
        Self { kind, bytes: 0, lanes: 1, words, value: None, pointer: None, detail: detail.to_owned() }
    }

    /// What others did before may be seen from here on.
    pub(super) fn acquire(what: &str) -> Self {
        Self::of_no_place(SiteKind::Acquire, vec![Word::Stamp], what)
    }

    /// Others may see from here on what was done before. What is done here is no earlier than the time; what was before may take
    /// a bit longer, but not what others then see of it.
    pub(super) fn release(what: &str) -> Self {
        Self::of_no_place(SiteKind::Acquire, vec![Word::EarlyStamp], what)
    }

    /// A function is about to return.
    pub(super) fn leave() -> Self {
        Self::of_no_place(SiteKind::Leave, Vec::new(), "")
    }

    /// A function begins, one that may go on after calls without an end or one that does not.
    pub(super) fn enter(goes_on: bool) -> Self {
        match goes_on {
            true => Self::of_no_place(SiteKind::EnterFrame, vec![Word::Frame], ""),
            false => Self::of_no_place(SiteKind::Enter, Vec::new(), ""),
        }
    }

    /// A function goes on after what it called may have been left.
    pub(super) fn goes_on() -> Self {
        Self::of_no_place(SiteKind::GoesOn, vec![Word::Frame], "")
    }

    /// A block is made, or taken back.
    pub(super) fn of_allocator(role: AllocatorRole, words: Vec<Word<'m>>, pointer: Value<'m>, name: &str) -> Self {
        let kind = match role {
            AllocatorRole::Allocate => SiteKind::Allocate,
            AllocatorRole::Resize => SiteKind::Resize,
            AllocatorRole::Free | AllocatorRole::Reset => SiteKind::Free,
        };
        Self { detail: name.to_owned(), ..Self::new(kind, 0, words, pointer) }
    }

    /// Itself with its value.
    fn of_value(self, value: Value<'m>) -> Self {
        let r#type = value.r#type();
        let kind = match r#type.kind() {
            TypeKind::Integer if r#type.integer_bits().is_some_and(|bits| bits <= 64) => ValueKind::Integer,
            TypeKind::Float | TypeKind::Double => ValueKind::Float,
            TypeKind::Pointer if r#type.address_space() == Some(0) => ValueKind::Pointer,
            _ => return self,
        };
        let is_told = matches!(self.kind, SiteKind::Load | SiteKind::Store);
        Self { value: is_told.then_some((kind, value)), ..self }
    }

    fn untraced(why: &str) -> Self {
        Self::of_no_place(SiteKind::Untraced, Vec::new(), why)
    }

    /// Itself, or the reason why it can't be told: addresses in other spaces are relative to something.
    fn in_default_space(self, pointer: Value<'m>) -> Self {
        match pointer.r#type().address_space() {
            Some(0) => self,
            Some(space) => Self::untraced(&format!("address space {space}")),
            None => Self::untraced("an address that is no pointer"),
        }
    }
}

impl<'m> Deed<'m> {
    fn access(touch: Touch<'m>) -> Self {
        Self { before: vec![touch], ..Self::default() }
    }

    /// What an instruction does.
    pub(super) fn of(instruction: Value<'m>, attributes: &Attributes) -> Self {
        let mut deed = Self::to_memory(instruction, attributes);
        if instruction.acquires() {
            // What it accesses comes behind the time, too: it may be what another thread had just stored.
            let accesses = std::mem::take(&mut deed.before);
            deed.after.push(Touch::acquire(if accesses.is_empty() { "fence" } else { "atomic" }));
            deed.after.extend(accesses);
        }
        if instruction.releases() {
            deed.releases = Some("atomic".to_owned());
        }
        deed
    }

    fn to_memory(instruction: Value<'m>, attributes: &Attributes) -> Self {
        let operand = |number| instruction.operand(number);
        match instruction.opcode() {
            Some(Opcode::Load) => operand(0).map_or_else(Self::default, |pointer| {
                let bytes = instruction.r#type().store_bytes();
                Self::access(Touch::access(SiteKind::Load, pointer, bytes).of_value(instruction))
            }),
            Some(Opcode::Store) => match (operand(0), operand(1)) {
                (Some(value), Some(pointer)) => {
                    Self::access(Touch::access(SiteKind::Store, pointer, value.r#type().store_bytes()).of_value(value))
                }
                _ => Self::default(),
            },
            Some(Opcode::ReadModifyWrite | Opcode::CompareExchange) => match (operand(0), operand(1)) {
                (Some(pointer), Some(value)) => {
                    Self::access(Touch::access(SiteKind::Update, pointer, value.r#type().store_bytes()))
                }
                _ => Self::default(),
            },
            Some(Opcode::VaArg) => Self::access(Touch::untraced("va_arg")),
            Some(Opcode::Call | Opcode::Invoke | Opcode::CallBranch) => Self::of_call(instruction, attributes),
            _ => Self::default(),
        }
    }

    fn of_call(call: Value<'m>, attributes: &Attributes) -> Self {
        let Some(called) = call.called() else { return Self { is_boundary: true, ..Self::default() } };
        if called.is_assembly() {
            // Only the optimizer minds it, as of Rust's `black_box`.
            if called.assembly().trim().is_empty() {
                return Self::default();
            }
            // What only computes can't call anything that writes records.
            let is_boundary = called.has_side_effects() && call.opcode() == Some(Opcode::Call);
            let acquires = assembly_acquires(&called.assembly()) && call.opcode() == Some(Opcode::Call);
            let after = if acquires { vec![Touch::acquire("inline assembly")] } else { Vec::new() };
            let before =
                if is_ours(&called.assembly()) { Vec::new() } else { vec![Touch::untraced("inline assembly")] };
            return Self { before, is_boundary, after, ..Self::default() };
        }
        let name = called.name();
        if let Some(intrinsic) = name.strip_prefix("llvm.") {
            let touches_memory = called.as_function().is_none_or(|function| touches_memory(function, attributes));
            return intrinsic_touch(call, intrinsic, touches_memory).map_or_else(Self::default, Self::access);
        }
        let mut deed = Self { is_boundary: true, ..Self::default() };
        for argument in 0..call.arguments() {
            if let Some(r#type) = call.argument_type_attribute(argument, attributes.by_value)
                && let Some(pointer) = call.operand(argument)
            {
                // Copied to where the callee's arguments are, which has no address yet.
                let mut copied = Touch::access(SiteKind::Load, pointer, r#type.store_bytes());
                copied.detail = "by value".to_owned();
                deed.before.push(copied);
            }
        }
        let is_declared = called.as_function().is_some_and(Function::is_declared);
        deed.before.extend(library_touch(call, &name).filter(|_| is_declared));
        if let Some(own) = attributes.own_allocators.get(&*name) {
            match OwnCall::of(call, &name, own, attributes) {
                Some(OwnCall { resized, touch }) => {
                    touch.into_iter().for_each(|touch| deed.allocates(&name, resized, touch));
                }
                None => {
                    let why = format!("a call of {name} that is not as slimline.toml tells");
                    deed.before.push(Touch::untraced(&why));
                    deed.unlike = Some(own.function.clone());
                }
            }
        } else if let Some(allocator) = Allocator::named(&name)
            && let Some(touch) = allocation_touch(call, allocator, &name)
        {
            deed.allocates(&name, allocator.resized().and_then(|block| call.operand(block)), touch);
        } else {
            if acquires(&name) {
                deed.after.push(Touch::acquire(&name));
            }
            deed.releases = releases(&name).then(|| name.to_string());
        }
        // Nothing can stand between a call that takes its function's place and the return; nor does a resize begin whose end
        // is not told.
        if call.is_must_tail() {
            deed.after.clear();
            deed.before.retain(|touch| touch.kind != SiteKind::ResizeBegins);
        }
        deed
    }

    /// Tells a call of an allocator's function of this name.
    fn allocates(&mut self, name: &str, resized: Option<Value<'m>>, touch: Touch<'m>) {
        if touch.kind == SiteKind::Free {
            self.before.push(touch);
            return;
        }
        self.before.extend(resized.map(|block| {
            let words = vec![Word::Value(block)];
            Touch { detail: name.to_owned(), ..Touch::new(SiteKind::ResizeBegins, 0, words, block) }
        }));
        // Another thread may have freed what this one gets.
        self.after.extend([Touch::acquire(name), touch]);
    }
}

/// Whether an intrinsic may read or write memory that the program can name.
pub(super) fn touches_memory(intrinsic: Function<'_>, attributes: &Attributes) -> bool {
    // Two bits each for what is reached through arguments, for what no program can name, and for everything else.
    const INACCESSIBLE: u64 = 0b1100;
    intrinsic.attribute(attributes.memory).is_none_or(|effects| effects & !INACCESSIBLE != 0)
}

/// Intrinsics that may access memory in ways that are not told, by the beginnings of their names.
const UNTRACED: &[&str] =
    &["x86.", "vp.", "experimental.vp.", "masked.", "va_", "matrix.", "aarch64.", "riscv.", "objc."];

/// What an intrinsic does, whose name goes on with `name` after `llvm.`.
fn intrinsic_touch<'m>(call: Value<'m>, name: &str, touches_memory: bool) -> Option<Touch<'m>> {
    let is = |prefix: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    if is("memcpy") || is("memmove") {
        return copy(call);
    }
    if is("memset") {
        return fill(call);
    }
    let masked = if is("masked.load") {
        masked_touch(call, SiteKind::MaskedLoad, call.operand(0)?, call)
    } else if is("masked.store") {
        masked_touch(call, SiteKind::MaskedStore, call.operand(1)?, call.operand(0)?)
    } else if is("masked.gather") {
        masked_touch(call, SiteKind::Gather, call.operand(0)?, call)
    } else if is("masked.scatter") {
        masked_touch(call, SiteKind::Scatter, call.operand(1)?, call.operand(0)?)
    } else {
        None
    };
    if masked.is_some() {
        return masked;
    }
    let is_untraced = touches_memory && UNTRACED.iter().any(|prefix| name.starts_with(prefix));
    is_untraced.then(|| Touch::untraced(&format!("llvm.{name}")))
}

/// What a function of the C library does to memory that it is given, if it is one that copies or fills.
fn library_touch<'m>(call: Value<'m>, name: &str) -> Option<Touch<'m>> {
    if call.arguments() < 3 {
        return None;
    }
    match name {
        "memcpy" | "memmove" | "mempcpy" | "__memcpy_chk" | "__memmove_chk" | "__mempcpy_chk" => copy(call),
        "memset" | "__memset_chk" => fill(call),
        _ => None,
    }
}

fn copy(call: Value<'_>) -> Option<Touch<'_>> {
    let [to, from, bytes] = [call.operand(0)?, call.operand(1)?, call.operand(2)?];
    let words = [to, from, bytes].map(Word::Value).to_vec();
    Some(Touch::new(SiteKind::Copy, 0, words, to).in_default_space(to).and_space_of(from))
}

fn fill(call: Value<'_>) -> Option<Touch<'_>> {
    let [to, bytes] = [call.operand(0)?, call.operand(2)?];
    Some(Touch::new(SiteKind::Fill, 0, vec![Word::Value(to), Word::Value(bytes)], to).in_default_space(to))
}

impl<'m> Touch<'m> {
    fn and_space_of(self, other: Value<'m>) -> Self {
        if self.kind == SiteKind::Untraced { self } else { self.in_default_space(other) }
    }
}

/// An access of the lanes that a mask says. The mask is the operand of one bit a lane, wherever it stands.
fn masked_touch<'m>(call: Value<'m>, kind: SiteKind, place: Value<'m>, data: Value<'m>) -> Option<Touch<'m>> {
    let r#type = data.r#type();
    let is_mask = |value: &Value<'m>| {
        let element = value.r#type().element();
        value.r#type().lanes().is_some() && element.is_some_and(|element| element.integer_bits() == Some(1))
    };
    let untraced = |why| Some(Touch::untraced(why));
    let Some(lanes) = r#type.lanes() else { return untraced("a vector without a fixed size") };
    // The data of a vector of bits would look like its mask: no machine has such accesses.
    let mask =
        (0..call.arguments()).filter_map(|number| call.operand(number)).find(|value| is_mask(value) && *value != data);
    let (Some(mask), Some(bytes)) = (mask, r#type.element()?.store_bytes()) else {
        return untraced("a masked access without a mask");
    };
    let lanes_each = matches!(kind, SiteKind::Gather | SiteKind::Scatter);
    if lanes > u32::from(MAX_LANES) || lanes_each && lanes as usize >= MAX_SEGMENT_WORDS {
        return untraced("a vector of too many lanes");
    }
    let words = if lanes_each {
        let address = place.r#type().element()?.address_space();
        if address != Some(0) {
            return untraced("another address space");
        }
        let lane = |lane| Word::Lane(place, u64::from(lane));
        std::iter::once(Word::Mask(mask)).chain((0..lanes).map(lane)).collect()
    } else {
        vec![Word::Value(place), Word::Mask(mask)]
    };
    let touch = Touch { lanes: lanes as u16, ..Touch::new(kind, bytes, words, place) };
    Some(if lanes_each { touch } else { touch.in_default_space(place) })
}

/// What a call of an allocator says, if it is called as one is.
fn allocation_touch<'m>(call: Value<'m>, allocator: Allocator, name: &str) -> Option<Touch<'m>> {
    let argument = |number: u32| call.operand(number).filter(|_| number < call.arguments());
    let pointer = |value: Value<'m>| Some(value).filter(|value| value.r#type().address_space() == Some(0));
    // Old programs declare them as they like: `char *malloc(unsigned)`.
    let number = |value: Value<'m>| Some(value).filter(|value| value.r#type().kind() == TypeKind::Integer);
    let words = match allocator {
        Allocator::Allocate { bytes } => vec![Word::Value(pointer(call)?), Word::Value(number(argument(bytes)?)?)],
        Allocator::AllocateZeroed { count, bytes } => {
            let [count, bytes] = [number(argument(count)?)?, number(argument(bytes)?)?];
            vec![Word::Value(pointer(call)?), Word::Value(count), Word::Value(bytes)]
        }
        Allocator::AllocateInto { place, bytes } => {
            call.r#type().integer_bits()?;
            let place = pointer(argument(place)?)?;
            vec![Word::IfZero { status: call, place }, Word::Value(number(argument(bytes)?)?)]
        }
        Allocator::Resize { block, bytes } => {
            pointer(argument(block)?)?;
            vec![Word::Value(pointer(call)?), Word::Value(number(argument(bytes)?)?)]
        }
        Allocator::ResizeElements { block, count, bytes } => {
            let [count, bytes] = [number(argument(count)?)?, number(argument(bytes)?)?];
            pointer(argument(block)?)?;
            vec![Word::Value(pointer(call)?), Word::Product(count, bytes)]
        }
        Allocator::Free { block } => vec![Word::Value(pointer(argument(block)?)?)],
        // A descriptor begins with the array's address.
        Allocator::AllocateDescribed { descriptor } => {
            call.r#type().integer_bits()?;
            let place = pointer(argument(descriptor)?)?;
            vec![Word::IfZero { status: call, place }, Word::DescribedBytes(place)]
        }
        Allocator::FreeDescribed { descriptor } => vec![Word::At(pointer(argument(descriptor)?)?)],
    };
    let of = match allocator {
        Allocator::Free { block } => argument(block)?,
        Allocator::AllocateDescribed { descriptor } | Allocator::FreeDescribed { descriptor } => argument(descriptor)?,
        _ => call,
    };
    Some(Touch { detail: name.to_owned(), ..Touch::new(allocator.kind(), 0, words, of) })
}

/// Whether inline assembly is what slimline.h and directives have: it asks for a function's address, or does nothing.
fn is_ours(text: &str) -> bool {
    (text.contains("slimline_") && text.contains("@GOTPCREL")) || text.contains("'S', 'L', 'M'")
}
