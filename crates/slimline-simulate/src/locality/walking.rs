//! How each key's accesses go through memory, for who wants to know nothing else of them.

use super::strides::Strides;
use super::walks::Walks;
use crate::access::{Access, AccessKind, Consumer, Work};

/// How accesses of one key go through memory. Takes some hundred bytes.
#[derive(Clone, Debug)]
pub struct Walking {
    /// How far one access is from the one before.
    pub strides: Strides,
    /// The same by loop.
    pub walks: Walks,
    /// Bytes of its first access; 0 where there was none.
    pub bytes: u32,
    /// What that does.
    pub kind: AccessKind,
    /// What is computed with it.
    pub work: Work,
    /// Its number among all accesses of the stream.
    pub begins: u64,
}

impl Default for Walking {
    fn default() -> Self {
        let (strides, walks) = Default::default();
        Self { strides, walks, bytes: 0, kind: AccessKind::Load, work: Work::USUAL, begins: 0 }
    }
}

impl Walking {
    /// Adds an access; `number` counts those of the whole stream.
    pub(super) fn add(&mut self, access: &Access, number: u64) {
        self.strides.add(access.address, access.bytes);
        self.walks.add(access.address, number);
        if self.bytes == 0 {
            (self.bytes, self.kind, self.work) = (access.bytes.max(1), access.kind, access.work);
            self.begins = number;
        }
    }

    /// How many there were.
    pub fn accesses(&self) -> u64 {
        if self.bytes == 0 { 0 } else { self.strides.total() + 1 }
    }
}

/// By key, how accesses go through memory.
#[derive(Debug, Default)]
pub struct KeyWalks {
    keys: Vec<Walking>,
    accesses: u64,
}

impl KeyWalks {
    /// What was found, by key.
    pub fn finish(self) -> Vec<Walking> {
        self.keys
    }
}

impl Consumer for KeyWalks {
    fn take(&mut self, accesses: &[Access]) {
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Fetch) {
            let access = Access { address: access.first_byte(), ..*access };
            if access.key as usize >= self.keys.len() {
                self.keys.resize_with(access.key as usize + 1, Walking::default);
            }
            self.accesses += 1;
            self.keys[access.key as usize].add(&access, self.accesses);
        }
    }
}
