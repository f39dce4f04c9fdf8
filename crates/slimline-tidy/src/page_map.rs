//! Which buckets' headers an address is one of: what `free` has to find out of a pointer alone.
//!
//! ```text
//!   address   47 … 37 │ 36 … 26 │ 25 … 16 │ 15 … 0
//!             root    │ middle  │ leaf    │ within a granule of 64 KiB
//! ```
//!
//! Looked up without a lock, three loads; written under the slabs' lock only. A pointer that is in no slab is of a large
//! object. That a header's own pointer is what comes out, and not one made of the address, lets an object's owner have a pointer
//! to no more than the object.
#![allow(unsafe_code)] // nodes are memory of the allocator below

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::below::Below;
use crate::bucket::Bucket;

/// Slabs begin and end at multiples of it.
pub(crate) const GRANULE_BYTES: usize = 1 << GRANULE_BITS;
const GRANULE_BITS: u32 = 16;
const LEAF_BITS: u32 = 10;
const MIDDLE_BITS: u32 = 11;
const ROOT_BITS: u32 = 11;

/// Bits of an address that are told apart: what user space has on x86-64 and aarch64 unless a program asks for more.
const ADDRESS_BITS: u32 = GRANULE_BITS + LEAF_BITS + MIDDLE_BITS + ROOT_BITS;

type Leaf = [AtomicPtr<Bucket>; 1 << LEAF_BITS];
type Middle = [AtomicPtr<Leaf>; 1 << MIDDLE_BITS];
type Root = [AtomicPtr<Middle>; 1 << ROOT_BITS];

/// Nodes are made when they are first needed, and stay until the map is dropped: 24 KiB for each 64 MiB of addresses that
/// slabs are in, less where those are side by side.
#[derive(Debug)]
pub(crate) struct PageMap {
    /// Null as long as there is no slab.
    root: AtomicPtr<Root>,
}

/// The index of an address in a node whose entries are of `1 << shift` bytes.
#[inline(always)]
fn index(address: usize, shift: u32, bits: u32) -> usize {
    (address as u64 >> shift) as usize & ((1 << bits) - 1)
}

const LEAF_SHIFT: u32 = GRANULE_BITS;
const MIDDLE_SHIFT: u32 = LEAF_SHIFT + LEAF_BITS;
const ROOT_SHIFT: u32 = MIDDLE_SHIFT + MIDDLE_BITS;

impl PageMap {
    pub(crate) fn new() -> Self {
        Self { root: AtomicPtr::new(null_mut()) }
    }

    /// The header of the first bucket of the granule that an address is in. Null: it is in no slab.
    #[inline(always)]
    pub(crate) fn first(&self, address: usize) -> *mut Bucket {
        if address as u64 >> ADDRESS_BITS != 0 {
            return null_mut();
        }
        let Some(root) = node(&self.root) else { return null_mut() };
        let Some(middle) = node(&root[index(address, ROOT_SHIFT, ROOT_BITS)]) else { return null_mut() };
        let Some(leaf) = node(&middle[index(address, MIDDLE_SHIFT, MIDDLE_BITS)]) else { return null_mut() };
        leaf[index(address, LEAF_SHIFT, LEAF_BITS)].load(Ordering::Acquire)
    }

    /// Notes the headers of the buckets in `bytes` from `begin` on, both multiples of [`GRANULE_BYTES`]: those of each granule
    /// are `step` bytes behind those of the one before. Null, and a step of 0: they are of no slab any longer. False where there
    /// is no memory for nodes, or the address has too many bits; then nothing is noted. One thread at a time may call it.
    pub(crate) fn set<A: GlobalAlloc>(
        &self,
        begin: usize,
        bytes: usize,
        first: *mut Bucket,
        step: usize,
        below: &Below<A>,
    ) -> bool {
        if (begin as u64 + bytes as u64 - 1) >> ADDRESS_BITS != 0 {
            return false;
        }
        for address in (begin..begin + bytes).step_by(GRANULE_BYTES) {
            let Some(entry) = self.entry(address, below) else {
                if address != begin {
                    // Nodes are there for those, so this can't fail.
                    self.set(begin, address - begin, null_mut(), 0, below);
                }
                return false;
            };
            entry.store(first.wrapping_byte_add((address - begin) / GRANULE_BYTES * step), Ordering::Release);
        }
        true
    }

    fn entry<A: GlobalAlloc>(&self, address: usize, below: &Below<A>) -> Option<&AtomicPtr<Bucket>> {
        let root = node_or_new(&self.root, below)?;
        let middle = node_or_new(&root[index(address, ROOT_SHIFT, ROOT_BITS)], below)?;
        let leaf = node_or_new(&middle[index(address, MIDDLE_SHIFT, MIDDLE_BITS)], below)?;
        Some(&leaf[index(address, LEAF_SHIFT, LEAF_BITS)])
    }

    /// Gives all nodes back.
    pub(crate) fn clear<A: GlobalAlloc>(&mut self, below: &Below<A>) {
        let Some(root) = take(&mut self.root) else { return };
        // SAFETY: nodes are valid until they are given back, which only this function does, with the map borrowed
        // mutably; `take` has removed the pointer, so each is given back once, with the layout that it was made with.
        unsafe {
            for entry in (*root.as_ptr()).iter_mut() {
                let Some(middle) = take(entry) else { continue };
                for entry in (*middle.as_ptr()).iter_mut() {
                    let Some(leaf) = take(entry) else { continue };
                    below.dealloc(leaf.cast(), Layout::new::<Leaf>());
                }
                below.dealloc(middle.cast(), Layout::new::<Middle>());
            }
            below.dealloc(root.cast(), Layout::new::<Root>());
        }
    }
}

fn take<N>(entry: &mut AtomicPtr<N>) -> Option<NonNull<N>> {
    NonNull::new(std::mem::replace(entry.get_mut(), null_mut()))
}

#[inline(always)]
fn node<N>(entry: &AtomicPtr<N>) -> Option<&N> {
    // SAFETY: what an entry holds is null or was put there by `node_or_new`: a node of this type, published after it was
    // filled, which lives until `clear`, which has the map to itself.
    unsafe { entry.load(Ordering::Acquire).as_ref() }
}

fn node_or_new<'m, N, A: GlobalAlloc>(entry: &'m AtomicPtr<N>, below: &Below<A>) -> Option<&'m N> {
    if let Some(node) = node(entry) {
        return Some(node);
    }
    // Nodes are arrays of pointers, all of which zero bytes make null.
    let new = below.alloc_zeroed(Layout::new::<N>())?;
    entry.store(new.as_ptr().cast(), Ordering::Release);
    node(entry)
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use super::*;

    #[test]
    fn what_is_noted_is_found_until_it_is_removed() {
        let below = Below::new(System);
        let mut map = PageMap::new();
        let bucket = std::ptr::without_provenance_mut::<Bucket>(64);
        assert!(map.first(0x7f00_0000_0000).is_null());
        assert_eq!(below.held_bytes(), 0);
        // Two granules on either side of a border between leaves.
        assert!(map.set(0x7f00_03ff_0000, 2 * GRANULE_BYTES, bucket, 16, &below));
        assert_eq!(map.first(0x7f00_03ff_0000), bucket);
        assert_eq!(map.first(0x7f00_0400_ffff), bucket.wrapping_byte_add(16));
        assert!(map.first(0x7f00_0401_0000).is_null());
        assert!(map.first(0x7f00_03fe_ffff).is_null());
        // A root and a middle node of 2048 pointers, two leaves of 1024.
        assert_eq!(below.held_bytes(), 6 * 1024 * size_of::<usize>());
        assert!(map.set(0x7f00_03ff_0000, 2 * GRANULE_BYTES, null_mut(), 0, &below));
        assert!(map.first(0x7f00_0400_ffff).is_null());
        assert!(!map.set(1 << 48, GRANULE_BYTES, bucket, 16, &below));
        map.clear(&below);
        assert_eq!(below.held_bytes(), 0);
    }
}
