//! Accesses as they were if objects lay elsewhere.

use crate::access::{Access, AccessKind, Consumer, Located};

/// Key of what is not moved, and of what is: nobody is told of single objects.
const UNMOVED: u32 = 0;
const MOVED: u32 = 1;
/// Sizes of what is counted: a line, a page.
const LINE_BYTES: u64 = 64;
const PAGE_BYTES: u64 = 4096;

/// How often accesses to objects, one after the other, were not to the same line or page. Of objects that are where they were, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Accesses to objects.
    pub accesses: u64,
    /// To another line of 64 bytes than the one before.
    pub to_another_line: u64,
    /// To another page of 4 KiB.
    pub to_another_page: u64,
}

/// Hands accesses on, those to objects with the addresses that these have now. An access's key says which object it is to; none has
/// the number [`u32::MAX`].
pub struct Relocated<'a, C> {
    to: C,
    /// By object: how far it is moved, modulo 2⁶⁴.
    moves: &'a [u64],
    steps: Steps,
    before: Option<u64>,
    handed_on: Vec<Access>,
}

impl<'a, C: Consumer> Relocated<'a, C> {
    /// Objects are moved by so many bytes each, modulo 2⁶⁴; those beyond are not.
    pub fn new(to: C, moves: &'a [u64]) -> Self {
        Self { to, moves, steps: Steps::default(), before: None, handed_on: Vec::new() }
    }

    /// Who took it all in, and how far it is from one access to an object to the next.
    pub fn finish(self) -> (C, Steps) {
        (self.to, self.steps)
    }

    fn moved(&mut self, access: &Access) -> Access {
        if access.key == u32::MAX || access.kind == AccessKind::Fetch {
            return Access { key: UNMOVED, ..*access };
        }
        let by = self.moves.get(access.key as usize).copied().unwrap_or(0);
        let address = access.address.wrapping_add(by);
        self.steps.accesses += 1;
        if let Some(before) = self.before.replace(address) {
            self.steps.to_another_line += u64::from(before / LINE_BYTES != address / LINE_BYTES);
            self.steps.to_another_page += u64::from(before / PAGE_BYTES != address / PAGE_BYTES);
        }
        Access { address, key: MOVED, ..*access }
    }
}

impl<C: Consumer> Consumer for Relocated<'_, C> {
    fn take(&mut self, accesses: &[Access]) {
        let mut handed_on = std::mem::take(&mut self.handed_on);
        handed_on.clear();
        handed_on.extend(accesses.iter().map(|access| self.moved(access)));
        self.to.take(&handed_on);
        self.handed_on = handed_on;
    }

    /// Where pages are says nothing of where they would be: nobody is told.
    fn locate(&mut self, _: &Located<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen(Vec<(u64, u32)>);

    impl Consumer for Seen {
        fn take(&mut self, accesses: &[Access]) {
            self.0.extend(accesses.iter().map(|access| (access.address, access.key)));
        }
    }

    #[test]
    fn objects_move_and_nothing_else() {
        let access = |address, key| Access { address, key, bytes: 8, thread: 0, kind: AccessKind::Load };
        let moves = [0x1000, 0_u64.wrapping_sub(0x20)];
        let mut relocated = Relocated::new(Seen::default(), &moves);
        relocated.take(&[access(0x100, 0), access(0x1108, 1), access(0x7000, u32::MAX), access(0x10f8, 2)]);
        let (seen, steps) = relocated.finish();
        assert_eq!(seen.0, [(0x1100, 1), (0x10e8, 1), (0x7000, 0), (0x10f8, 1)]);
        // 0x1100, 0x10e8, 0x10f8: another line, then the same.
        assert_eq!(steps, Steps { accesses: 3, to_another_line: 1, to_another_page: 0 });
    }
}
