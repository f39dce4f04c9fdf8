//! Accesses as every analysis here takes them in, wherever they come from.

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// First byte. Its top four bits do not count: nobody's addresses differ in them alone.
    pub address: u64,
    /// Who is told what it cost: any number, best a small one, as memory grows with the largest. Whoever makes the accesses
    /// knows what it stands for: an instruction, its data, a thread.
    pub key: u32,
    /// How many bytes; 0 counts as 1.
    pub bytes: u32,
    /// The thread, from 0. It runs on the core of that number, modulo the cores that there are.
    pub thread: u32,
    /// What it does.
    pub kind: AccessKind,
    /// What is computed with it.
    pub work: Work,
}

/// Instructions that go with an access, that one counted: those of its loop by its loads and stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Work(u16);

impl Work {
    /// Of code that does not tell: two in five instructions access memory.
    pub const USUAL: Self = Self::of(2.5);
    const PARTS: f64 = 4.0;

    /// So many instructions, as far as that can be told: from one to 16,383, in quarters.
    #[must_use]
    pub const fn of(instructions: f64) -> Self {
        // What is beyond ends there; nothing is rounded where constants are made.
        let parts = (instructions * Self::PARTS + 0.5) as u16;
        Self(if parts < Self::PARTS as u16 { Self::PARTS as u16 } else { parts })
    }

    /// Both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What is left without the access itself; none where there is nothing else.
    #[must_use]
    pub fn without_access(self) -> Option<Self> {
        Some(Self(self.0 - Self::of(1.0).0)).filter(|left| left.0 > 0)
    }

    /// How many.
    #[must_use]
    pub const fn instructions(self) -> f64 {
        self.0 as f64 / Self::PARTS
    }
}

// There are many at a time.
const _: () = assert!(size_of::<Access>() == 24);

/// Bits of addresses that count.
pub(crate) const ADDRESS_BITS: u32 = 59;
/// Accesses whose data is read ahead: enough of them to wait for memory together, and few enough that what was read is still
/// there when it is needed.
pub(crate) const TOGETHER: usize = 32;

impl Access {
    /// Its first byte, by the bits that count.
    #[inline(always)]
    pub(crate) fn first_byte(&self) -> u64 {
        self.address & ((1 << ADDRESS_BITS) - 1)
    }

    /// Its first and its last byte.
    #[inline(always)]
    pub(crate) fn ends(&self) -> (u64, u64) {
        let first = self.first_byte();
        (first, first + u64::from(self.bytes.max(1) - 1))
    }
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// Reads data.
    Load,
    /// Writes data.
    Store,
    /// Reads and writes the same data: one load and one store, or as [`Counting`](crate::machine::Counting) says.
    Modify,
    /// Fetches an instruction. Nothing where the first level has no cache for instructions.
    Fetch,
    /// Asks for data that is loaded later, and waits for nothing.
    Prefetch,
}

impl AccessKind {
    /// Whether it writes data.
    pub const fn stores(self) -> bool {
        matches!(self, Self::Store | Self::Modify)
    }
}

/// Who takes accesses in. Several can take one pass together.
pub trait Consumer {
    /// Takes in what comes next, in its order.
    fn take(&mut self, accesses: &[Access]);

    /// Is told of accesses that are left out. Most need not know.
    fn skip(&mut self, _: &[Access]) {}

    /// Takes in where pages and threads are from now on. Once this was called, with nothing even, who needs to know takes
    /// nothing else for granted. Most don't.
    fn locate(&mut self, _: &Located<'_>) {}
}

impl<A: Consumer, B: Consumer> Consumer for (A, B) {
    fn take(&mut self, accesses: &[Access]) {
        self.0.take(accesses);
        self.1.take(accesses);
    }

    fn skip(&mut self, accesses: &[Access]) {
        self.0.skip(accesses);
        self.1.skip(accesses);
    }

    fn locate(&mut self, located: &Located<'_>) {
        self.0.locate(located);
        self.1.locate(located);
    }
}

/// On which NUMA nodes, by their numbers, pages and threads are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Located<'a> {
    /// All nodes of the machine, the first time; nothing afterwards.
    pub nodes: &'a [u32],
    /// Addresses of pages (of [`SMALL_PAGE_BYTES`](crate::machine::SMALL_PAGE_BYTES)), and their nodes.
    pub pages: &'a [(u64, u32)],
    /// A thread, by [`Access::thread`], and its node.
    pub thread: Option<(u32, u32)>,
}

impl<C: Consumer + ?Sized> Consumer for &mut C {
    fn take(&mut self, accesses: &[Access]) {
        (**self).take(accesses);
    }

    fn skip(&mut self, accesses: &[Access]) {
        (**self).skip(accesses);
    }

    fn locate(&mut self, located: &Located<'_>) {
        (**self).locate(located);
    }
}

/// All that there are take it in.
macro_rules! each_takes {
    ($($of:ident),*) => {$(
        impl<C: Consumer> Consumer for $of<C> {
            fn take(&mut self, accesses: &[Access]) {
                self.iter_mut().for_each(|consumer| consumer.take(accesses));
            }

            fn skip(&mut self, accesses: &[Access]) {
                self.iter_mut().for_each(|consumer| consumer.skip(accesses));
            }

            fn locate(&mut self, located: &Located<'_>) {
                self.iter_mut().for_each(|consumer| consumer.locate(located));
            }
        }
    )*};
}

each_takes!(Option, Vec);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_told_in_quarters() {
        assert_eq!(Work::USUAL.instructions(), 2.5);
        assert_eq!([7.0 / 3.0, 8.0 / 3.0, 5.0].map(|of| Work::of(of).instructions()), [2.25, 2.75, 5.0]);
        // An access is one.
        assert_eq!([1e9, 0.0].map(|of| Work::of(of).instructions()), [16_383.75, 1.0]);
        assert_eq!(Work::of(4.0).plus(Work::USUAL).instructions(), 6.5);
        assert_eq!(Work::of(1e9).plus(Work::USUAL), Work::of(1e9));
        assert_eq!(
            [1.0, 1.25, 9.0].map(|of| Work::of(of).without_access().map(Work::instructions)),
            [None, Some(0.25), Some(8.0)]
        );
    }
}
