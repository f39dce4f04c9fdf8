//! The functions that compilers call to copy, fill and compare memory, of our own.
//!
//! ThreadSanitizer interposes those of the C library. It would report what the agent does as races of the program, and hang
//! where a signal handler of ours calls it while the thread holds its lock. These are hidden: only the agent calls them.
//!
//! Up to 64 bytes are loaded before any is stored: such ranges may overlap.

#![allow(unsafe_code)] // assembly

use core::arch::global_asm;

// Under the names that compilers know.
#[cfg(all(feature = "preload", not(test)))]
global_asm!(
    ".irp name, memcpy, memmove, memset, memcmp, bcmp, strlen",
    ".hidden \\name",
    ".globl \\name",
    ".set \\name, slimline_\\name",
    ".endr",
);

global_asm!(
    ".pushsection .text.slimline_memory, \"ax\", @progbits",
    ".irp name, memcpy, memmove, memset, memcmp, bcmp, strlen",
    ".hidden slimline_\\name",
    ".globl slimline_\\name",
    ".type slimline_\\name, @function",
    ".endr",
    // (rdi) to, (rsi) from, (rdx) bytes; gives `to`.
    "slimline_memmove:",
    ".cfi_startproc",
    "mov rax, rdi",
    "sub rax, rsi",
    "cmp rax, rdx",
    "jae slimline_memcpy",
    "cmp rdx, 64",
    "jbe slimline_memcpy",
    // The end of the source would be overwritten: from the end on.
    "mov rax, rdi",
    "lea rsi, [rsi + rdx - 1]",
    "lea rdi, [rdi + rdx - 1]",
    "mov rcx, rdx",
    "std",
    "rep movsb",
    "cld",
    "ret",
    ".cfi_endproc",
    ".size slimline_memmove, . - slimline_memmove",
    "slimline_memcpy:",
    ".cfi_startproc",
    "mov rax, rdi",
    "cmp rdx, 16",
    "jb 3f",
    "cmp rdx, 32",
    "ja 2f",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "ret",
    "2:",
    "cmp rdx, 64",
    "ja 22f",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + rdx - 32]",
    "movups xmm3, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + rdx - 32], xmm2",
    "movups [rdi + rdx - 16], xmm3",
    "ret",
    "22:",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    "3:",
    "cmp edx, 8",
    "jb 4f",
    "mov rcx, [rsi]",
    "mov rsi, [rsi + rdx - 8]",
    "mov [rdi], rcx",
    "mov [rdi + rdx - 8], rsi",
    "ret",
    "4:",
    "cmp edx, 4",
    "jb 5f",
    "mov ecx, [rsi]",
    "mov esi, [rsi + rdx - 4]",
    "mov [rdi], ecx",
    "mov [rdi + rdx - 4], esi",
    "ret",
    "5:",
    "test edx, edx",
    "jz 6f",
    "movzx ecx, byte ptr [rsi]",
    "movzx r8d, byte ptr [rsi + rdx - 1]",
    "mov r9, rdx",
    "shr r9, 1",
    "movzx esi, byte ptr [rsi + r9]",
    "mov [rdi], cl",
    "mov [rdi + rdx - 1], r8b",
    "mov [rdi + r9], sil",
    "6:",
    "ret",
    ".cfi_endproc",
    ".size slimline_memcpy, . - slimline_memcpy",
    // (rdi) to, (sil) byte, (rdx) bytes; gives `to`.
    "slimline_memset:",
    ".cfi_startproc",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    ".cfi_endproc",
    ".size slimline_memset, . - slimline_memset",
    // (rdi, rsi) ranges, (rdx) bytes of each; gives the difference of the first bytes that differ, or 0.
    "slimline_bcmp:",
    "slimline_memcmp:",
    ".cfi_startproc",
    "xor ecx, ecx",
    "7:",
    "cmp rcx, rdx",
    "je 8f",
    "movzx eax, byte ptr [rdi + rcx]",
    "movzx r8d, byte ptr [rsi + rcx]",
    "inc rcx",
    "sub eax, r8d",
    "je 7b",
    "ret",
    "8:",
    "xor eax, eax",
    "ret",
    ".cfi_endproc",
    ".size slimline_memcmp, . - slimline_memcmp",
    ".size slimline_bcmp, . - slimline_bcmp",
    // (rdi) a string; gives its bytes without the NUL.
    "slimline_strlen:",
    ".cfi_startproc",
    "xor eax, eax",
    "12:",
    "cmp byte ptr [rdi + rax], 0",
    "je 13f",
    "inc rax",
    "jmp 12b",
    "13:",
    "ret",
    ".cfi_endproc",
    ".size slimline_strlen, . - slimline_strlen",
    ".popsection",
);

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    unsafe extern "C" {
        fn slimline_memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
        fn slimline_memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
        fn slimline_memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8;
        fn slimline_memcmp(one: *const u8, other: *const u8, bytes: usize) -> i32;
        fn slimline_strlen(text: *const u8) -> usize;
    }

    const ROOM: usize = 400;

    fn numbered() -> Vec<u8> {
        (0..ROOM).map(|at| (at * 7 + at / 256) as u8).collect()
    }

    #[test]
    fn ranges_are_copied_wherever_they_overlap() {
        for bytes in 0..=130 {
            for (from, to) in [(0, 200), (200, 3), (10, 11), (11, 10), (10, 43), (43, 10), (5, 5), (0, 64), (64, 0)] {
                let (mut expected, mut found) = (numbered(), numbered());
                expected.copy_within(from..from + bytes, to);
                // SAFETY: inside the room, whose start is given back.
                unsafe {
                    let start = found.as_mut_ptr();
                    assert_eq!(slimline_memmove(start.add(to), start.add(from), bytes), start.add(to));
                }
                assert_eq!(found, expected, "{bytes} from {from} to {to}");
            }
            let (source, mut found) = (numbered(), vec![0; ROOM]);
            // SAFETY: two vectors with room.
            unsafe {
                assert_eq!(
                    slimline_memcpy(found.as_mut_ptr().add(1), source.as_ptr().add(2), bytes),
                    found.as_mut_ptr().add(1)
                )
            };
            assert_eq!((found[0], &found[1..=bytes], found[bytes + 1]), (0, &source[2..2 + bytes], 0));
        }
    }

    #[test]
    fn ranges_are_filled_and_compared() {
        for bytes in 0..=130 {
            let mut found = vec![1; ROOM];
            // SAFETY: inside the room. The lowest byte counts.
            unsafe { assert_eq!(slimline_memset(found.as_mut_ptr().add(1), 0x3ab, bytes), found.as_mut_ptr().add(1)) };
            assert!(found[0] == 1 && found[1..=bytes].iter().all(|&byte| byte == 0xab) && found[bytes + 1] == 1);
            let one = numbered();
            for differing in 0..ROOM {
                let mut other = one.clone();
                other[differing] ^= 0x80;
                // SAFETY: inside the room.
                let result = unsafe { slimline_memcmp(one.as_ptr(), other.as_ptr(), bytes) };
                assert_eq!(
                    result.cmp(&0),
                    one[..bytes].cmp(&other[..bytes]),
                    "{bytes} bytes, the {differing}th differs"
                );
            }
            let mut text = vec![b'a'; bytes];
            text.push(0);
            // SAFETY: it ends in NUL.
            assert_eq!(unsafe { slimline_strlen(text.as_ptr()) }, bytes);
        }
    }
}
