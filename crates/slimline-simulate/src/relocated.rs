//! Accesses as they were if objects lay elsewhere.

use crate::access::{Access, AccessKind, Consumer, Located};

/// In the place of an object's number: what is accessed is none of the objects, and stays where it is.
pub const NO_OBJECT: u32 = u32::MAX;
/// The same of memory among objects that none of them has, as an allocator keeps its lists in: who moves objects has another one, so
/// that these accesses would not be.
pub const BESIDE_OBJECTS: u32 = u32::MAX - 1;
/// Whether a key is an object's number.
pub const fn is_object(key: u32) -> bool {
    key < BESIDE_OBJECTS
}

/// Key of what is not moved, and of what is: nobody is told of single objects.
const UNMOVED: u32 = 0;
const MOVED: u32 = 1;
/// Sizes of what is counted: a line, a page.
const LINE_BYTES: u64 = 64;
pub(crate) const PAGE_BYTES: u64 = 4096;

/// How often accesses to objects were not to the line or page of the one before by the same thread. Of objects that are where they
/// were, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Accesses, wherever they go; fetches of instructions are none.
    pub all: u64,
    /// Those to memory among objects that none has: left out.
    pub beside: u64,
    /// Those to objects.
    pub accesses: u64,
    /// Of these, those to another line of 64 bytes than the thread's one before.
    pub to_another_line: u64,
    /// To another page of 4 KiB.
    pub to_another_page: u64,
}

/// Hands accesses on, those to objects with the addresses that these have now, but not those to memory beside them. An access's key
/// says which object it is to, or is [`NO_OBJECT`] or [`BESIDE_OBJECTS`].
pub struct Relocated<'a, C> {
    to: C,
    /// By object: how far it is moved, modulo 2⁶⁴.
    moves: &'a [u64],
    steps: Steps,
    /// By thread: its last access to an object.
    before: Vec<Option<u64>>,
    handed_on: Vec<Access>,
}

impl<'a, C: Consumer> Relocated<'a, C> {
    /// Objects are moved by so many bytes each, modulo 2⁶⁴; those beyond are not.
    pub fn new(to: C, moves: &'a [u64]) -> Self {
        Self { to, moves, steps: Steps::default(), before: Vec::new(), handed_on: Vec::new() }
    }

    /// Who took it all in, and how far it is from one access to an object to the next.
    pub fn finish(self) -> (C, Steps) {
        (self.to, self.steps)
    }

    fn moved(&mut self, access: &Access) -> Option<Access> {
        self.steps.all += u64::from(access.kind != AccessKind::Fetch);
        if access.key == NO_OBJECT || access.kind == AccessKind::Fetch {
            return Some(Access { key: UNMOVED, ..*access });
        }
        if access.key == BESIDE_OBJECTS {
            self.steps.beside += 1;
            return None;
        }
        let by = self.moves.get(access.key as usize).copied().unwrap_or(0);
        let address = access.address.wrapping_add(by);
        self.steps.accesses += 1;
        let thread = access.thread as usize;
        if self.before.len() <= thread {
            self.before.resize(thread + 1, None);
        }
        if let Some(before) = self.before[thread].replace(address) {
            self.steps.to_another_line += u64::from(before / LINE_BYTES != address / LINE_BYTES);
            self.steps.to_another_page += u64::from(before / PAGE_BYTES != address / PAGE_BYTES);
        }
        Some(Access { address, key: MOVED, ..*access })
    }
}

impl<C: Consumer> Consumer for Relocated<'_, C> {
    fn take(&mut self, accesses: &[Access]) {
        let mut handed_on = std::mem::take(&mut self.handed_on);
        handed_on.clear();
        handed_on.extend(accesses.iter().filter_map(|access| self.moved(access)));
        self.to.take(&handed_on);
        self.handed_on = handed_on;
    }

    /// Where pages are says nothing of where they would be: nobody is told.
    fn locate(&mut self, _: &Located<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Work;

    #[derive(Default)]
    struct Seen(Vec<(u64, u32)>);

    impl Consumer for Seen {
        fn take(&mut self, accesses: &[Access]) {
            self.0.extend(accesses.iter().map(|access| (access.address, access.key)));
        }
    }

    #[test]
    fn objects_move_and_nothing_else() {
        let access =
            |address, key| Access { address, key, bytes: 8, thread: 0, kind: AccessKind::Load, work: Work::USUAL };
        let moves = [0x1000, 0_u64.wrapping_sub(0x20)];
        let mut relocated = Relocated::new(Seen::default(), &moves);
        relocated.take(&[access(0x100, 0), access(0x1108, 1), access(0x7000, NO_OBJECT), access(0x10f8, 2)]);
        relocated.take(&[access(0x10f0, BESIDE_OBJECTS)]);
        let (seen, steps) = relocated.finish();
        assert_eq!(seen.0, [(0x1100, 1), (0x10e8, 1), (0x7000, 0), (0x10f8, 1)]);
        // 0x1100, 0x10e8, 0x10f8: another line, then the same.
        assert_eq!(steps, Steps { all: 5, beside: 1, accesses: 3, to_another_line: 1, to_another_page: 0 });
    }

    /// Each goes on in its line, while the other is in another one in between.
    #[test]
    fn threads_have_a_last_access_each() {
        let access =
            |address, key, thread| Access { address, key, bytes: 8, thread, kind: AccessKind::Load, work: Work::USUAL };
        let mut relocated = Relocated::new(Seen::default(), &[]);
        relocated.take(&[access(0x100, 0, 0), access(0x9000, 1, 1), access(0x108, 0, 0), access(0x9008, 1, 1)]);
        assert_eq!(
            relocated.finish().1,
            Steps { all: 4, beside: 0, accesses: 4, to_another_line: 0, to_another_page: 0 }
        );
    }
}
