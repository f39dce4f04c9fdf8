//! Slabs: what is taken from the allocator below for many buckets at once, and given back when none of them is owned.
//!
//! Two pieces of memory each: the data, whose size and address are multiples of [`GRANULE_BYTES`], and the headers, so that
//! nothing but objects is in the data. The first slab has 64 KiB of data; each further one has as much as all before it
//! together, at most 1 MiB, so that slabs are few and at most half of what is held was never used.
#![allow(unsafe_code)] // lists within memory of the allocator below

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::{NonNull, null_mut};

use crate::MIN_BUCKET_BYTES;
use crate::arena::Arena;
use crate::below::Below;
use crate::bucket::{Bucket, HEADER_ALIGN, Place, Shape};
use crate::lock::{Held, Lock};
use crate::page_map::{GRANULE_BYTES, PageMap};

/// Data of a slab at most.
pub(crate) const LARGEST_SLAB_BYTES: usize = 1 << 20;

/// Data of slabs of which nothing is owned, at most: so much is kept, as it would be given back and taken again where a
/// program's use goes up and down.
pub(crate) const IDLE_BYTES: usize = 4 << 20;

/// From the beginning of a slab to its first header.
const FIRST_HEADER: usize = size_of::<Slab>().next_multiple_of(HEADER_ALIGN);

const _: () = assert!(LARGEST_SLAB_BYTES / MIN_BUCKET_BYTES <= 1 << u16::BITS);

/// One slab, at the beginning of the memory of its headers.
#[derive(Debug)]
pub(crate) struct Slab {
    data: NonNull<u8>,
    bytes: usize,
    headers: NonNull<u8>,
    /// Buckets that never were owned begin with this one.
    fresh: usize,
    /// Buckets that are owned.
    owned: usize,
    /// Buckets that no longer are, by `next`.
    free: *mut Bucket,
    /// All slabs.
    next: *mut Slab,
    prev: *mut Slab,
    /// Those with buckets that nobody owns.
    next_open: *mut Slab,
    prev_open: *mut Slab,
}

impl Slab {
    /// The slab that a bucket is of.
    ///
    /// # Safety
    ///
    /// The bucket's slab is there.
    unsafe fn of(bucket: NonNull<Bucket>, shape: Shape) -> *mut Self {
        // SAFETY: a slab begins where the memory of its headers does; headers are so many bytes behind it, one after the
        // other, and pointers to them are made of the pointer to all. The number is written once.
        unsafe {
            let number = usize::from((*bucket.as_ptr()).number);
            bucket.as_ptr().byte_sub(FIRST_HEADER + number * shape.header_bytes()).cast()
        }
    }

    fn layouts(bytes: usize, shape: Shape) -> Option<(Layout, Layout)> {
        let data = Layout::from_size_align(bytes, GRANULE_BYTES).ok()?;
        let all = FIRST_HEADER + bytes / shape.bytes() * shape.header_bytes();
        Some((data, Layout::from_size_align(all, HEADER_ALIGN).ok()?))
    }

    /// # Safety
    ///
    /// `slab` is valid, nothing of it is in use, and no list has it.
    unsafe fn give_back<A: GlobalAlloc>(slab: *mut Slab, shape: Shape, below: &Below<A>) {
        // SAFETY: both pieces were taken from `below` with these layouts, which are functions of the bytes and the shape;
        // both are read before the memory that they are in is given back.
        unsafe {
            let (data, bytes) = ((*slab).data, (*slab).bytes);
            if let Some((data_layout, all)) = Self::layouts(bytes, shape) {
                below.dealloc(data, data_layout);
                below.dealloc(NonNull::new_unchecked(slab).cast(), all);
            }
        }
    }
}

/// All slabs of a context.
#[derive(Debug)]
pub(crate) struct Slabs {
    lock: Lock,
    shape: Shape,
    lists: UnsafeCell<Lists>,
}

#[derive(Debug)]
struct Lists {
    all: *mut Slab,
    open: *mut Slab,
    /// Data of all.
    bytes: usize,
    /// Data of those of which nothing is owned.
    idle_bytes: usize,
}

impl Slabs {
    pub(crate) fn new(shape: Shape) -> Self {
        let lists = Lists { all: null_mut(), open: null_mut(), bytes: 0, idle_bytes: 0 };
        Self { lock: Lock::default(), shape, lists: UnsafeCell::new(lists) }
    }

    /// A bucket without objects for an arena. `None`: the allocator below has no memory.
    pub(crate) fn take<A: GlobalAlloc>(
        &self,
        arena: &Arena,
        map: &PageMap,
        below: &Below<A>,
    ) -> Option<NonNull<Bucket>> {
        let _held = self.lock.lock();
        // SAFETY: the lock is held, and this is the only reference made under it.
        let lists = unsafe { &mut *self.lists.get() };
        if lists.open.is_null() {
            lists.add(self.shape, map, below)?;
        }
        let slab = lists.open;
        // SAFETY: slabs of the list are valid; what is read and written of them and of buckets that nobody owns is guarded
        // by the lock. A fresh bucket's header is zeroed and within the headers: `fresh` is less than the number of
        // buckets, else the slab would not be open. Its data are within the slab's.
        unsafe {
            let bucket = if (*slab).free.is_null() {
                let index = (*slab).fresh;
                (*slab).fresh += 1;
                let bucket: NonNull<Bucket> = (*slab).headers.add(index * self.shape.header_bytes()).cast();
                (*bucket.as_ptr()).data = (*slab).data.as_ptr().add(index << self.shape.bits());
                (*bucket.as_ptr()).number = index as u16;
                bucket
            } else {
                let bucket = NonNull::new_unchecked((*slab).free);
                (*slab).free = (*bucket.as_ptr()).room.next;
                bucket
            };
            if (*slab).owned == 0 {
                lists.idle_bytes -= (*slab).bytes;
            }
            (*slab).owned += 1;
            if (*slab).free.is_null() && (*slab).fresh == (*slab).bytes >> self.shape.bits() {
                lists.close(slab);
            }
            self.shape.own(bucket, arena);
            Some(bucket)
        }
    }

    /// A bucket is nobody's any longer.
    ///
    /// # Safety
    ///
    /// It is one of these slabs', without objects; its arena has the lock and no longer refers to it.
    pub(crate) unsafe fn give<A: GlobalAlloc>(&self, bucket: NonNull<Bucket>, map: &PageMap, below: &Below<A>) {
        let idle = {
            let _held = self.lock.lock();
            // SAFETY: the lock is held, and this is the only reference made under it.
            let lists = unsafe { &mut *self.lists.get() };
            // SAFETY: the bucket was owned until now, so its slab is valid and counts it; nobody else refers to it.
            unsafe {
                let slab = Slab::of(bucket, self.shape);
                if (*slab).free.is_null() && (*slab).fresh == (*slab).bytes >> self.shape.bits() {
                    lists.open(slab);
                }
                (*bucket.as_ptr()).room.place = Place::Unowned;
                (*bucket.as_ptr()).room.next = (*slab).free;
                (*slab).free = bucket.as_ptr();
                (*slab).owned -= 1;
                if (*slab).owned == 0 {
                    lists.idle_bytes += (*slab).bytes;
                }
                let spare = (*slab).owned == 0 && lists.idle_bytes > IDLE_BYTES;
                if spare { Some(lists.remove(slab, map, below)) } else { None }
            }
        };
        if let Some(slab) = idle {
            // SAFETY: nothing of it is owned and it is in no list any more; the map no longer finds it.
            unsafe { Slab::give_back(slab, self.shape, below) };
        }
    }

    /// No slab is made or given back as long as this is held, and no arena gets or gives a bucket.
    pub(crate) fn stay(&self) -> Held<'_> {
        self.lock.lock()
    }

    /// Objects in all buckets, and their units.
    pub(crate) fn contents(&self, _held: &Held<'_>) -> (usize, usize) {
        let (mut objects, mut units) = (0, 0);
        // SAFETY: the lock is held; slabs of the list are valid, and so are the headers of their buckets up to `fresh`, of
        // which nothing but what is atomic is read.
        unsafe {
            let mut slab = (*self.lists.get()).all;
            while !slab.is_null() {
                for number in 0..(*slab).fresh {
                    let bucket: NonNull<Bucket> = (*slab).headers.add(number * self.shape.header_bytes()).cast();
                    let (more, of_units) = (*bucket.as_ptr()).filled.get();
                    objects += more;
                    units += of_units;
                }
                slab = (*slab).next;
            }
        }
        (objects, units)
    }

    /// Gives back all slabs of which nothing is owned.
    pub(crate) fn trim<A: GlobalAlloc>(&self, map: &PageMap, below: &Below<A>) {
        let _held = self.lock.lock();
        // SAFETY: the lock is held, and this is the only reference made under it.
        let lists = unsafe { &mut *self.lists.get() };
        let mut slab = lists.all;
        while !slab.is_null() {
            // SAFETY: slabs of the list are valid, and the next one is read before this one is given back, which is so as
            // in `give`.
            unsafe {
                let next = (*slab).next;
                if (*slab).owned == 0 {
                    lists.remove(slab, map, below);
                    Slab::give_back(slab, self.shape, below);
                }
                slab = next;
            }
        }
    }

    /// Gives back all slabs.
    ///
    /// # Safety
    ///
    /// No object in any of them is used any more, nor a bucket.
    pub(crate) unsafe fn clear<A: GlobalAlloc>(&mut self, below: &Below<A>) {
        let lists = self.lists.get_mut();
        let mut slab = std::mem::replace(&mut lists.all, null_mut());
        lists.open = null_mut();
        (lists.bytes, lists.idle_bytes) = (0, 0);
        while !slab.is_null() {
            // SAFETY: slabs of the list are valid until given back, each once, after its `next` was read; the caller
            // promises that nothing of them is used.
            unsafe {
                let next = (*slab).next;
                Slab::give_back(slab, self.shape, below);
                slab = next;
            }
        }
    }
}

/// The lock is held in all of them, and slabs that they are given are valid.
impl Lists {
    fn add<A: GlobalAlloc>(&mut self, shape: Shape, map: &PageMap, below: &Below<A>) -> Option<()> {
        let bytes = self.bytes.clamp(GRANULE_BYTES, LARGEST_SLAB_BYTES);
        let (data_layout, all) = Slab::layouts(bytes, shape)?;
        let data = below.alloc(data_layout)?;
        let headers = below.alloc_zeroed(all);
        let noted = headers.is_some_and(|memory| {
            let first = memory.as_ptr().wrapping_add(FIRST_HEADER).cast();
            map.set(data.addr().get(), bytes, first, GRANULE_BYTES / shape.bytes() * shape.header_bytes(), below)
        });
        let (Some(memory), true) = (headers, noted) else {
            // SAFETY: both were just taken with these layouts, and nobody knows of them.
            unsafe {
                below.dealloc(data, data_layout);
                if let Some(headers) = headers {
                    below.dealloc(headers, all);
                }
            }
            return None;
        };
        let slab: *mut Slab = memory.as_ptr().cast();
        // SAFETY: `memory` is of a layout that begins with a `Slab` and has the headers behind it. The map already has
        // their addresses, but no pointer into the data has been handed out, so nobody looks it up.
        unsafe {
            slab.write(Slab {
                data,
                bytes,
                headers: memory.add(FIRST_HEADER),
                fresh: 0,
                owned: 0,
                free: null_mut(),
                next: self.all,
                prev: null_mut(),
                next_open: null_mut(),
                prev_open: null_mut(),
            });
            if !self.all.is_null() {
                (*self.all).prev = slab;
            }
            self.all = slab;
            self.bytes += bytes;
            self.idle_bytes += bytes;
            self.open(slab);
        }
        Some(())
    }

    /// # Safety
    ///
    /// The slab is not among the open ones.
    unsafe fn open(&mut self, slab: *mut Slab) {
        // SAFETY: all of them are valid, and the lock is held.
        unsafe {
            (*slab).next_open = self.open;
            (*slab).prev_open = null_mut();
            if !self.open.is_null() {
                (*self.open).prev_open = slab;
            }
            self.open = slab;
        }
    }

    /// # Safety
    ///
    /// The slab is among the open ones.
    unsafe fn close(&mut self, slab: *mut Slab) {
        // SAFETY: all of them are valid, and the lock is held.
        unsafe {
            let (next, prev) = ((*slab).next_open, (*slab).prev_open);
            if prev.is_null() {
                self.open = next;
            } else {
                (*prev).next_open = next;
            }
            if !next.is_null() {
                (*next).prev_open = prev;
            }
        }
    }

    /// Takes a slab of which nothing is owned, and which so is open, out of all lists and the map.
    ///
    /// # Safety
    ///
    /// The slab is in the lists.
    unsafe fn remove<A: GlobalAlloc>(&mut self, slab: *mut Slab, map: &PageMap, below: &Below<A>) -> *mut Slab {
        // SAFETY: all of them are valid, and the lock is held.
        unsafe {
            self.close(slab);
            let (next, prev) = ((*slab).next, (*slab).prev);
            if prev.is_null() {
                self.all = next;
            } else {
                (*prev).next = next;
            }
            if !next.is_null() {
                (*next).prev = prev;
            }
            self.bytes -= (*slab).bytes;
            self.idle_bytes -= (*slab).bytes;
            map.set((*slab).data.addr().get(), (*slab).bytes, null_mut(), 0, below);
        }
        slab
    }
}
