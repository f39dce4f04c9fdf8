//! Where the agent itself is loaded.
#![allow(unsafe_code)] // reads the library's own headers

use core::ops::Range;

const PAGE_BYTES: usize = 4096;

/// Where the library lies, by its own headers; None where they are not at its start.
pub(crate) fn range() -> Option<Range<usize>> {
    unsafe extern "C" {
        #[link_name = "__ehdr_start"]
        static HEADER: libc::Elf64_Ehdr;
    }
    // SAFETY: the linker puts the symbol at the start of the object, which is mapped; the program headers follow it.
    let (start, segments) = unsafe {
        let start = &raw const HEADER;
        let first = start.byte_add((*start).e_phoff as usize).cast::<libc::Elf64_Phdr>();
        (start.addr(), core::slice::from_raw_parts(first, (*start).e_phnum.into()))
    };
    let loaded = segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD);
    let bytes = loaded.map(|segment| (segment.p_vaddr + segment.p_memsz) as usize).max()?;
    Some(start..(start + bytes).next_multiple_of(PAGE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_known_by_its_headers() {
        let library = range().unwrap();
        static DATA: u8 = 0;
        let (code, data) = (range as *const () as usize, &raw const DATA as usize);
        assert!(library.contains(&code) && library.contains(&data), "{library:x?}");
    }
}
