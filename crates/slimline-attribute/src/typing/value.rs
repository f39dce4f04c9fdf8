//! What inference knows of a register or stack slot.
//!
//! A pointer is known as a type and a byte offset into an object of it (or an array of them). Where the offset runs,
//! as in a loop over an array, it is known up to multiples of a step:
//!
//! ```text
//!   address = start of an object of type T + offset + k × step,  k unknown
//!   step 0: exact.   step a multiple of sizeof(T): the field is exact, the element is not.
//! ```
//!
//! Values only ever lose knowledge when they join: steps turn into divisors, differing names and types
//! into nothing. So the fixpoint over a function's loops ends.

use super::debug_info::Die;
use super::infer::Reason;

/// Below it nothing is ever mapped: a constant is no address of a block.
const LOWEST_ADDRESS: i64 = 4096;

/// Handle of a name of one function's inference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct NameId(pub(super) u32);

/// A pointer into an object of a known type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pointer {
    /// Definition of the type pointed into.
    pub(super) target: Die,
    /// `sizeof` the target; 0 for `void`.
    pub(super) bytes: u64,
    pub(super) offset: i64,
    pub(super) step: u64,
    pub(super) name: Option<NameId>,
    /// What it was called first, where that is another name: `q` of `q = a` is `a`'s.
    pub(super) first: Option<NameId>,
    /// Of a static variable, as long as `offset` is where in it the pointer is at some time: not where only the step tells that.
    pub(super) home: Option<Home>,
}

impl Pointer {
    /// What the array is called first that it points into: of two pointers into one it is the same.
    pub(super) fn origin(self) -> Option<NameId> {
        self.first.or(self.name)
    }

    /// The same pointer by another variable.
    pub(super) fn renamed(self, name: Option<NameId>) -> Self {
        let origin = self.origin();
        Self { name: name.or(self.name), ..self }.with_origin(origin)
    }

    /// The same into an array that was called so first.
    pub(super) fn with_origin(self, origin: Option<NameId>) -> Self {
        Self { first: origin.filter(|_| origin != self.name), ..self }
    }
}

/// Where a static variable lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Home {
    pub(super) begin: u64,
    pub(super) end: u64,
}

impl Home {
    /// What is known of a pointer that points into either.
    pub(super) fn of_both(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        a.filter(|_| a == b)
    }
}

/// Where a value that isn't known comes from. It stands for the latest value from there only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Symbol {
    /// The instruction with that index.
    Instruction(u32),
    /// Paths into that block that disagree about the register with that number.
    Paths(u32, u8),
}

/// What is known of a 64-bit word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value {
    /// Nothing, and why.
    Unknown(Reason),
    /// No path that was followed sets it: at the start of code that is reached in ways not known. Whatever another path
    /// brings is taken for it.
    Unseen,
    Pointer(Pointer),
    /// An address in the function's frame: the call frame address plus this.
    Frame(i64),
    /// The same plus an unknown multiple of `step`: an array in the frame, once its displacement is added.
    FrameRun {
        offset: i64,
        step: u64,
    },
    Constant(i64),
    /// A value that is not known, by whatever defined it, times a factor (not 0) plus a constant. `reason` says why it
    /// isn't known. So `i * 16 - i` is a multiple of 15.
    Scaled {
        symbol: Symbol,
        factor: i64,
        plus: i64,
        reason: Reason,
    },
    /// Some number that is `plus` modulo `of` (at least 2).
    Multiple {
        of: u64,
        plus: i64,
    },
    /// From one pointer to another, as compilers keep it to find one array by a pointer that walks another, or programs as an index: `plus` modulo
    /// `of` (1 where that is not known, 0 where it is `plus`). What `from` names plus this is what `to` does.
    Between {
        from: End,
        to: End,
        of: u64,
        plus: i64,
    },
    /// The block that the watched call returned, plus this.
    Fresh(i64),
}

/// What a pointer is called from or to which a distance goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct End {
    name: Option<NameId>,
    origin: Option<NameId>,
}

impl From<Pointer> for End {
    fn from(pointer: Pointer) -> Self {
        Self { name: pointer.name, origin: pointer.origin() }
    }
}

impl Value {
    /// Some multiple of `of`; nothing known where that is 1.
    fn multiple(of: u64, plus: i64) -> Self {
        match of {
            0 => Self::Constant(plus),
            1 => Self::Unknown(Reason::Arithmetic),
            of => Self::Multiple { of, plus: plus.rem_euclid(i64::try_from(of).unwrap_or(i64::MAX)) },
        }
    }

    /// As a number known up to multiples of a step: (plus, step); anything is (0, 1).
    fn as_number(self) -> (i64, u64) {
        match self {
            Self::Constant(value) => (value, 0),
            Self::Multiple { of, plus } => (plus, of),
            Self::Scaled { factor, plus, .. } => (plus, factor.unsigned_abs()),
            Self::Between { of, plus, .. } => (plus, of),
            _ => (0, 1),
        }
    }

    /// Whether it is an address, not a number.
    pub(super) fn is_address(self) -> bool {
        matches!(self, Self::Pointer(_) | Self::Frame(_) | Self::FrameRun { .. } | Self::Fresh(_))
    }

    fn scaled(symbol: Symbol, factor: i64, plus: i64, reason: Reason) -> Self {
        match factor {
            0 => Self::Constant(plus),
            factor => Self::Scaled { symbol, factor, plus, reason },
        }
    }

    /// The value, with a symbol for where it comes from in place of none at all.
    pub(super) fn with_symbol(self, symbol: Symbol) -> Self {
        match self {
            Self::Unknown(reason) => Self::Scaled { symbol, factor: 1, plus: 0, reason },
            known => known,
        }
    }

    /// What is left of the value when `symbol` comes to stand for another one.
    pub(super) fn without_symbol(self, symbol: Symbol) -> Self {
        match self {
            Self::Scaled { symbol: used, reason, .. } if used == symbol => self.without_symbols(reason),
            other => other,
        }
    }

    fn without_symbols(self, reason: Reason) -> Self {
        let (plus, of) = self.as_number();
        if of == 1 { Self::Unknown(reason) } else { Self::multiple(of, plus) }
    }

    /// The symbol that the value is computed from.
    pub(super) fn symbol(self) -> Option<Symbol> {
        match self {
            Self::Scaled { symbol, .. } => Some(symbol),
            _ => None,
        }
    }

    /// Why the value is no known address.
    pub(super) fn reason(self) -> Reason {
        match self {
            Self::Unknown(reason) | Self::Scaled { reason, .. } => reason,
            Self::Unseen => Reason::FromCaller,
            _ => Reason::Arithmetic,
        }
    }

    /// The sum.
    pub(super) fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Constant(a), Self::Constant(b)) => Self::Constant(a.wrapping_add(b)),
            (Self::Frame(a), Self::Constant(b)) | (Self::Constant(b), Self::Frame(a)) => Self::Frame(a.wrapping_add(b)),
            (Self::Fresh(a), Self::Constant(b)) | (Self::Constant(b), Self::Fresh(a)) => Self::Fresh(a.wrapping_add(b)),
            (
                Self::Pointer(_) | Self::Frame(_) | Self::Fresh(_),
                Self::Pointer(_) | Self::Frame(_) | Self::Fresh(_),
            ) => Self::Unknown(Reason::Arithmetic),
            (Self::Pointer(pointer), number) | (number, Self::Pointer(pointer)) => {
                let (plus, step) = number.as_number();
                let own = End::from(pointer);
                let (End { name, origin }, home) = match number {
                    Self::Between { from, to, .. } if own.origin.is_some() && own.origin == from.origin => (to, None),
                    // `a[p - q]`: compilers find other arrays by what walks one, so this begins where an array does, and that is an index.
                    Self::Between { .. } if pointer.step == 0 => (own, None),
                    Self::Between { .. } => (End { name: None, origin: None }, None),
                    _ => (own, pointer.home.filter(|_| step == 0)),
                };
                let offset = pointer.offset.wrapping_add(plus);
                let sum = Pointer { offset, step: gcd(pointer.step, step), name, home, ..pointer };
                Self::Pointer(sum.with_origin(origin))
            }
            (Self::Frame(offset), number) | (number, Self::Frame(offset)) => match number.as_number() {
                (_, 1) => Self::Unknown(Reason::Arithmetic),
                (plus, step) => Self::FrameRun { offset: offset.wrapping_add(plus), step },
            },
            (Self::FrameRun { offset, step }, number) | (number, Self::FrameRun { offset, step }) => {
                let (plus, other) = number.as_number();
                Self::FrameRun { offset: offset.wrapping_add(plus), step: gcd(step, other) }
            }
            (Self::Fresh(_), _) | (_, Self::Fresh(_)) => Self::Unknown(Reason::Arithmetic),
            (Self::Scaled { symbol, factor, plus, reason }, Self::Constant(more))
            | (Self::Constant(more), Self::Scaled { symbol, factor, plus, reason }) => {
                Self::Scaled { symbol, factor, plus: plus.wrapping_add(more), reason }
            }
            (
                Self::Scaled { symbol, factor: a, plus: plus_a, reason },
                Self::Scaled { symbol: same, factor: b, plus: plus_b, .. },
            ) if symbol == same => Self::scaled(symbol, a.wrapping_add(b), plus_a.wrapping_add(plus_b), reason),
            (a, b) => {
                let ((plus_a, of_a), (plus_b, of_b)) = (a.as_number(), b.as_number());
                let (of, plus) = (gcd(of_a, of_b), plus_a.wrapping_add(plus_b));
                match (a, b) {
                    (Self::Between { .. }, Self::Between { .. }) => Self::multiple(of, plus),
                    (Self::Between { from, to, .. }, _) | (_, Self::Between { from, to, .. }) => {
                        Self::Between { from, to, of, plus }
                    }
                    _ => Self::multiple(of, plus),
                }
            }
        }
    }

    /// The difference; that of two pointers into arrays of one type is a multiple of its size.
    pub(super) fn minus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Pointer(a), Self::Pointer(b)) if a.target == b.target && a.bytes > 0 => {
                let (of, plus) = (gcd(gcd(a.step, b.step), a.bytes), a.offset.wrapping_sub(b.offset));
                if a.origin() == b.origin() {
                    Self::multiple(of, plus)
                } else {
                    Self::Between { from: b.into(), to: a.into(), of, plus }
                }
            }
            (Self::Frame(a), Self::Frame(b)) => Self::Constant(a.wrapping_sub(b)),
            (_, other) if other.is_address() => Self::Unknown(Reason::Arithmetic),
            (a, b) => a.plus(b.times(-1)),
        }
    }

    /// The product with a constant.
    pub(super) fn times(self, factor: i64) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(value.wrapping_mul(factor)),
            value if value.is_address() && factor == 1 => value,
            Self::Scaled { symbol, factor: by, plus, reason } => {
                Self::scaled(symbol, by.wrapping_mul(factor), plus.wrapping_mul(factor), reason)
            }
            Self::Between { from, to, of, plus } if factor == -1 => {
                Self::Between { from: to, to: from, of, plus: plus.wrapping_neg() }
            }
            value => {
                let (plus, of) = value.as_number();
                Self::multiple(of.saturating_mul(factor.unsigned_abs()), plus.wrapping_mul(factor))
            }
        }
    }

    /// What holds of both: the value after two paths meet.
    pub(super) fn join(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Self::Unseen, known) | (known, Self::Unseen) => known,
            (Self::Unknown(_), _) => self,
            (_, Self::Unknown(reason)) => Self::Unknown(reason),
            // A null pointer points into whatever the other path's pointer does.
            (Self::Constant(0), pointer @ (Self::Pointer(_) | Self::Fresh(_)))
            | (pointer @ (Self::Pointer(_) | Self::Fresh(_)), Self::Constant(0)) => pointer,
            // Whoever holds it may hold something else where another path was taken.
            (fresh @ Self::Fresh(_), Self::Pointer(_)) | (Self::Pointer(_), fresh @ Self::Fresh(_)) => fresh,
            // Rust's empty vector points to its alignment.
            (Self::Constant(small), fresh @ Self::Fresh(_)) | (fresh @ Self::Fresh(_), Self::Constant(small))
                if (0..LOWEST_ADDRESS).contains(&small) =>
            {
                fresh
            }
            (Self::Pointer(a), Self::Pointer(b)) if a.target == b.target => {
                let apart = a.offset.wrapping_sub(b.offset).unsigned_abs();
                // One of two variables is neither.
                let are_others = a.home.is_some() && b.home.is_some() && a.home != b.home;
                let name = a.name.filter(|_| a.name == b.name && !are_others);
                let origin = a.origin().filter(|_| a.origin() == b.origin() && !are_others);
                let home = Home::of_both(a.home, b.home);
                let both = Pointer { step: gcd(gcd(a.step, b.step), apart), name, home, ..a };
                Self::Pointer(both.with_origin(origin))
            }
            (Self::Frame(a) | Self::FrameRun { offset: a, .. }, Self::Frame(b) | Self::FrameRun { offset: b, .. }) => {
                let step = |value| if let Self::FrameRun { step, .. } = value { step } else { 0 };
                let step = gcd(gcd(step(self), step(other)), a.wrapping_sub(b).unsigned_abs());
                Self::FrameRun { offset: a, step }
            }
            (
                Self::Between { from, to, of: of_a, plus: a },
                Self::Between { from: other_from, to: other_to, of: of_b, plus: b },
            ) if (from, to) == (other_from, other_to) => {
                Self::Between { from, to, of: gcd(gcd(of_a, of_b), a.wrapping_sub(b).unsigned_abs()), plus: a }
            }
            (
                Self::Constant(_) | Self::Multiple { .. } | Self::Scaled { .. },
                Self::Constant(_) | Self::Multiple { .. } | Self::Scaled { .. },
            ) => {
                let ((a, of_a), (b, of_b)) = (self.as_number(), other.as_number());
                match gcd(gcd(of_a, of_b), a.wrapping_sub(b).unsigned_abs()) {
                    1 => Self::Unknown(Reason::PathsDisagree),
                    of => Self::multiple(of, a),
                }
            }
            _ => Self::Unknown(Reason::PathsDisagree),
        }
    }
}

/// Greatest common divisor, with `gcd(0, n) = n`.
pub(super) fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Die = Die { unit: 0, offset: 7 };

    fn node(offset: i64, step: u64) -> Value {
        Value::Pointer(Pointer { target: NODE, bytes: 48, offset, step, name: None, first: None, home: None })
    }

    #[test]
    fn an_induction_pointer_keeps_its_field() {
        // p = a; loop { p->x; p += 1 }
        let start = node(8, 0);
        let bumped = start.plus(Value::Constant(48));
        assert_eq!(start.join(bumped), node(8, 48));
        assert_eq!(node(8, 48).join(node(8, 48).plus(Value::Constant(48))), node(8, 48));
    }

    #[test]
    fn an_induction_offset_keeps_its_residue() {
        // i = 0; loop { a[i]; i += 48 }
        let offset = Value::Constant(0).join(Value::Constant(48));
        assert_eq!(offset, Value::Multiple { of: 48, plus: 0 });
        assert_eq!(node(0, 0).plus(offset).plus(Value::Constant(8)), node(8, 48));
    }

    #[test]
    fn a_walk_over_a_static_variable_stays_in_it() {
        let home = |begin| Some(Home { begin, end: begin + 4800 });
        let at = |begin, offset, step, name: Option<u32>| {
            let Value::Pointer(node) = node(offset, step) else { unreachable!() };
            Value::Pointer(Pointer { name: name.map(NameId), home: home(begin), ..node })
        };
        // p = a; loop { p[-100]; p += 1 }
        let walking = at(0x1000, 0, 0, Some(1)).join(at(0x1000, 48, 0, Some(1)));
        assert_eq!(walking.plus(Value::Constant(-4800)), at(0x1000, -4800, 48, Some(1)));
        // a[i - 1]: before its index is known.
        let Value::Pointer(indexed) = at(0x1000, -48, 0, Some(1)).plus(Value::multiple(48, 0)) else { unreachable!() };
        assert_eq!((indexed.home, indexed.name), (None, Some(NameId(1))));
        // p = which ? a : b
        let Value::Pointer(either) = at(0x1000, 0, 0, Some(1)).join(at(0x3000, 0, 0, Some(2))) else { unreachable!() };
        assert_eq!((either.home, either.name), (None, None));
    }

    #[test]
    fn an_array_that_is_found_by_another_ones_pointer_has_its_own_name() {
        let of = |offset, step, name: Option<u32>| {
            let Value::Pointer(node) = node(offset, step) else { unreachable!() };
            Value::Pointer(Pointer { name: name.map(NameId), ..node })
        };
        // d = b - a; loop { p[d] is b's; p += 1 }
        let apart = of(0, 0, Some(2)).minus(of(0, 0, Some(1)));
        assert_eq!(of(0, 48, Some(1)).plus(apart), of(0, 48, Some(2)));
        assert_eq!(of(0, 0, Some(2)).minus(apart), of(0, 48, Some(1)));
        assert_eq!(of(0, 0, Some(1)).plus(apart.plus(Value::Constant(8))), of(8, 48, Some(2)));
        // From another one that walks it leads to nothing that is known, from where an array begins it is an index into that: c[b - a].
        assert_eq!(of(0, 48, Some(3)).plus(apart), of(0, 48, None));
        assert_eq!(of(0, 0, Some(3)).plus(apart), of(0, 48, Some(3)));
        assert_eq!(of(0, 0, None).plus(apart), of(0, 48, None));
        // i = p - a; b[i]
        let index = of(0, 48, Some(1)).minus(of(0, 0, Some(1)));
        assert_eq!(of(0, 0, Some(2)).plus(index), of(0, 48, Some(2)));
        // One of two is neither.
        assert_eq!(of(0, 0, Some(1)).join(of(0, 0, Some(2))), of(0, 0, None));
    }

    #[test]
    fn a_pointer_of_another_name_is_into_the_same_array() {
        let of = |offset, step, name: u32| {
            let Value::Pointer(node) = node(offset, step) else { unreachable!() };
            Pointer { name: Some(NameId(name)), ..node }
        };
        let (a, b) = (of(0, 0, 1), of(0, 0, 2));
        // q = a; loop { b[q - a]; q += 1 }
        let q = a.renamed(Some(NameId(3)));
        let Value::Pointer(walking) = Value::Pointer(q).join(Value::Pointer(q).plus(Value::Constant(48))) else {
            panic!()
        };
        assert_eq!((walking.name, walking.first), (Some(NameId(3)), Some(NameId(1))));
        let index = Value::Pointer(walking).minus(Value::Pointer(a));
        assert_eq!(index, Value::Multiple { of: 48, plus: 0 });
        // The same as q + (b - a), which is b's, too.
        let apart = Value::Pointer(b).minus(Value::Pointer(a));
        assert_eq!(Value::Pointer(walking).plus(apart), Value::Pointer(of(0, 48, 2)));
        // As `a` again it has no other name; of what is one of two the name that both have is left.
        assert_eq!(q.renamed(Some(NameId(1))), a);
        let other = b.renamed(Some(NameId(3)));
        assert_eq!(Value::Pointer(q).join(Value::Pointer(other)), Value::Pointer(of(0, 0, 3)));
    }

    #[test]
    fn scaled_indices_multiply() {
        let index = Value::Unknown(Reason::Arithmetic);
        // (i + i * 2) << 4
        assert_eq!(index.plus(index.times(2)), index, "not known to be the same i");
        assert_eq!(index.times(3).times(16), Value::Multiple { of: 48, plus: 0 });
        assert_eq!(node(48, 0).minus(node(0, 0)), Value::Multiple { of: 48, plus: 0 });
    }

    #[test]
    fn factors_of_one_symbol_add_up() {
        let (here, there) = (Symbol::Instruction(3), Symbol::Instruction(4));
        let index = Value::Unknown(Reason::NoPointer).with_symbol(here);
        let scaled = index.times(16).minus(index).times(8);
        assert_eq!(node(0, 0).plus(scaled), node(0, 120));
        assert_eq!(index.minus(index), Value::Constant(0));
        // The symbol has come to stand for another value: 16 × old − new is anything.
        let stale = index.times(16).without_symbol(here);
        assert_eq!(stale, Value::Multiple { of: 16, plus: 0 });
        assert_eq!(stale.minus(index), Value::Unknown(Reason::Arithmetic));
        let other = Value::Unknown(Reason::NoPointer).with_symbol(there);
        assert_eq!(index.times(16).join(other.times(24)), Value::Multiple { of: 8, plus: 0 });
        assert_eq!(index.join(other), Value::Unknown(Reason::PathsDisagree));
    }

    #[test]
    fn null_joins_with_a_pointer_and_other_types_do_not() {
        assert_eq!(Value::Constant(0).join(node(0, 0)), node(0, 0));
        let other = Value::Pointer(Pointer {
            target: Die { unit: 0, offset: 9 },
            bytes: 8,
            offset: 0,
            step: 0,
            name: None,
            first: None,
            home: None,
        });
        assert_eq!(node(0, 0).join(other), Value::Unknown(Reason::PathsDisagree));
    }
}
