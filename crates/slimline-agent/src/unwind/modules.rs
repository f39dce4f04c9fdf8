//! Which loaded object holds an address, and where its unwind table lies in memory.
//!
//! glibc answers since 2.35 (`_dl_find_object`: no lock, async-signal-safe, always up to date). Before, a list is taken
//! with `dl_iterate_phdr`, which locks: at the start, and again when code outside a signal handler meets an unknown
//! address. Handlers only read the list; an old list is leaked, for a reader may be in it (one for each `dlopen`).
#![allow(unsafe_code)] // the dynamic linker's interfaces and the headers of loaded objects

use crate::{kernel, resolve};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Where a loaded object's `.eh_frame_hdr` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnwindTable {
    /// Start of `.eh_frame_hdr`.
    pub(super) header: u64,
    /// End of the mapped segment that holds it and `.eh_frame`.
    pub(super) end: u64,
}

/// `struct dl_find_object` of `dlfcn.h`.
#[repr(C)]
struct FoundObject {
    flags: u64,
    map_start: u64,
    map_end: u64,
    link_map: u64,
    eh_frame: u64,
    reserved: [u64; 7],
}

type FindObject = unsafe extern "C" fn(*mut c_void, *mut FoundObject) -> c_int;

static FIND_OBJECT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static LISTED: AtomicPtr<List> = AtomicPtr::new(null_mut());
/// Objects ever loaded when the list was taken.
static LISTED_LOADS: AtomicU64 = AtomicU64::new(0);

struct Listed {
    start: u64,
    end: u64,
    table: UnwindTable,
}

struct List {
    objects: *const Listed,
    count: usize,
}

/// Finds out how this C library wants to be asked. Not async-signal-safe.
pub(super) fn start() {
    let found = resolve::first(c"_dl_find_object");
    let function = found.map_or(null_mut(), |found| found.address.cast_mut().cast());
    FIND_OBJECT.store(function, Release);
    if function.is_null() {
        take_list();
    }
}

/// The unwind table for code at `address`. With `may_lock` the list is renewed where it does not know the address;
/// never from a signal handler.
pub(super) fn find(address: u64, may_lock: bool) -> Option<UnwindTable> {
    let function = FIND_OBJECT.load(Relaxed);
    if !function.is_null() {
        // SAFETY: the symbol of this name has this type.
        return ask(unsafe { core::mem::transmute::<*mut c_void, FindObject>(function) }, address);
    }
    find_listed(address).or_else(|| {
        let renewed = may_lock && LISTED_LOADS.load(Relaxed) != count_loads() && take_list();
        renewed.then(|| find_listed(address)).flatten()
    })
}

fn ask(find_object: FindObject, address: u64) -> Option<UnwindTable> {
    let mut found = MaybeUninit::<FoundObject>::uninit();
    // SAFETY: the function takes any address and fills the structure where it returns 0.
    let found = unsafe {
        if find_object(address as *mut c_void, found.as_mut_ptr()) != 0 {
            return None;
        }
        found.assume_init()
    };
    if found.eh_frame == 0 {
        return None;
    }
    let end = segment_end(found.map_start, found.eh_frame).unwrap_or(found.map_end);
    Some(UnwindTable { header: found.eh_frame, end })
}

/// End of the segment around `address` by the program headers, which lie behind the ELF header at the object's start.
/// None where they don't.
fn segment_end(object: u64, address: u64) -> Option<u64> {
    // SAFETY: the first page of a loaded object is mapped; anything may stand there.
    let header = unsafe { (object as *const libc::Elf64_Ehdr).read() };
    let table_end = header.e_phoff + u64::from(header.e_phnum) * size_of::<libc::Elf64_Phdr>() as u64;
    if header.e_ident[..4] != *b"\x7fELF" || table_end > 4096 {
        return None;
    }
    // SAFETY: within the same page.
    let segments = unsafe {
        core::slice::from_raw_parts((object + header.e_phoff) as *const libc::Elf64_Phdr, header.e_phnum.into())
    };
    let first = segments.iter().find(|segment| segment.p_type == libc::PT_LOAD)?;
    let bias = object.wrapping_sub(first.p_vaddr & !4095);
    loaded_around(segments, bias, address)
}

fn loaded_around(segments: &[libc::Elf64_Phdr], bias: u64, address: u64) -> Option<u64> {
    segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD).find_map(|segment| {
        let start = bias.wrapping_add(segment.p_vaddr);
        (address.wrapping_sub(start) < segment.p_filesz).then(|| start + segment.p_filesz)
    })
}

fn find_listed(address: u64) -> Option<UnwindTable> {
    // SAFETY: lists are published whole and never freed.
    let list = unsafe { LISTED.load(Acquire).as_ref()? };
    // SAFETY: `take_list` mapped and filled that many.
    let objects = unsafe { core::slice::from_raw_parts(list.objects, list.count) };
    let object = objects.iter().find(|object| (object.start..object.end).contains(&address))?;
    Some(object.table)
}

/// Calls `visit` for each loaded object until it says that this is enough. Takes the dynamic linker's lock.
pub(crate) fn each_object(visit: &mut dyn FnMut(&libc::dl_phdr_info) -> bool) {
    unsafe extern "C" fn pass_on(info: *mut libc::dl_phdr_info, _: usize, visit: *mut c_void) -> c_int {
        // SAFETY: the linker's structure is valid in here; the visitor is the one given below.
        unsafe { c_int::from((*visit.cast::<&mut dyn FnMut(&libc::dl_phdr_info) -> bool>())(&*info)) }
    }
    let mut visit = visit;
    // SAFETY: the function fits the data.
    unsafe { libc::dl_iterate_phdr(Some(pass_on), (&raw mut visit).cast()) };
}

fn count_loads() -> u64 {
    let mut loads = 0;
    each_object(&mut |info| {
        loads = info.dlpi_adds;
        true
    });
    loads
}

fn take_list() -> bool {
    let mut room = 0;
    let loads = count_loads();
    each_object(&mut |_| {
        room += 1;
        false
    });
    let Some(memory) = kernel::map(size_of::<List>() + room * size_of::<Listed>()) else { return false };
    let list = memory.cast::<List>().as_ptr();
    // SAFETY: behind the list is room for the objects; both are ours.
    let objects = unsafe { list.add(1).cast::<Listed>() };
    let mut count = 0;
    each_object(&mut |info| {
        // SAFETY: the linker's headers.
        let segments = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let loaded = || segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD);
        let start = loaded().map(|segment| segment.p_vaddr).min();
        let end = loaded().map(|segment| segment.p_vaddr + segment.p_memsz).max();
        let table = segments.iter().find(|segment| segment.p_type == libc::PT_GNU_EH_FRAME).and_then(|segment| {
            let header = info.dlpi_addr.wrapping_add(segment.p_vaddr);
            Some(UnwindTable { header, end: loaded_around(segments, info.dlpi_addr, header)? })
        });
        if let (Some(start), Some(end), Some(table)) = (start, end, table) {
            let (start, end) = (info.dlpi_addr.wrapping_add(start), info.dlpi_addr.wrapping_add(end));
            // SAFETY: within the room: it is counted, and more loaded since then are left for the next time.
            unsafe { objects.add(count).write(Listed { start, end, table }) };
            count += 1;
        }
        count == room
    });
    // SAFETY: our own memory, not published yet.
    unsafe { list.write(List { objects, count }) };
    LISTED.store(list, Release);
    LISTED_LOADS.store(loads, Relaxed);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_asking_agree() {
        start();
        take_list();
        let functions = [
            find as *const () as u64,
            libc::strtol as *const () as u64,
            libc::dlsym as *const () as u64,
            std::env::temp_dir as *const () as u64,
        ];
        for address in functions {
            let found = find_listed(address).unwrap();
            assert_eq!(find(address, true), Some(found));
        }
        let on_stack = &raw const functions as u64;
        assert_eq!(find(on_stack, true), None);
        assert_eq!(find_listed(on_stack), None);
        assert_eq!(find_listed(0), None);
    }
}
