//! What files are that have no types to be read, and what to do.

use super::image::Image;

/// Processors, by the numbers that ELF files have.
const MACHINES: [(u16, &str); 12] = [
    (3, "x86 (32 bits)"),
    (8, "MIPS"),
    (20, "PowerPC"),
    (21, "PowerPC (64 bits)"),
    (22, "S/390"),
    (40, "Arm (32 bits)"),
    (43, "SPARC"),
    (62, "x86-64 with pointers of 32 bits (x32)"),
    (183, "AArch64"),
    (243, "RISC-V"),
    (247, "BPF"),
    (258, "LoongArch"),
];
const X86_64: u16 = 62;
/// Begins of other files with code.
const OTHERS: [(&[u8], &str); 9] = [
    (b"MZ", "a Windows program (PE)"),
    (b"\x64\x86", "a Windows object file (COFF)"),
    (b"\xfe\xed\xfa\xce", "a macOS file (Mach-O)"),
    (b"\xfe\xed\xfa\xcf", "a macOS file (Mach-O)"),
    (b"\xce\xfa\xed\xfe", "a macOS file (Mach-O)"),
    (b"\xcf\xfa\xed\xfe", "a macOS file (Mach-O)"),
    (b"\xca\xfe\xba\xbe", "a macOS file (Mach-O) or a Java class"),
    (b"\0asm", "a WebAssembly module"),
    (b"dex\n", "an Android file (DEX)"),
];
/// Begins of LLVM's bitcode, as it is and in a wrapper.
const BITCODE: [&[u8]; 2] = [b"BC\xc0\xde", b"\xde\xc0\x17\x0b"];
/// Words that linker scripts begin with, behind their comments.
const LINKER_SCRIPT: [&str; 4] = ["GROUP", "INPUT", "OUTPUT_FORMAT", "AS_NEEDED"];
const MOST_SCRIPT_BYTES: usize = 4096;

/// Whether a file that begins so may have code for some machine.
pub fn is_code(begin: &[u8]) -> bool {
    begin.starts_with(b"\x7fELF") || super::archive::is_archive(begin) || other_code(begin).is_some()
}

fn other_code(begin: &[u8]) -> Option<&'static str> {
    if BITCODE.iter().any(|magic| begin.starts_with(magic)) {
        return Some("LLVM's bitcode, as clang -flto makes it");
    }
    OTHERS.iter().find(|(magic, _)| begin.starts_with(magic)).map(|(_, what)| *what)
}

/// What a file is that is no [`Image`], in words.
pub fn why_no_image(bytes: &[u8]) -> String {
    const WANTED: &str = "no program, library or object file for x86-64 (ELF)";
    if BITCODE.iter().any(|magic| bytes.starts_with(magic)) {
        return "LLVM's bitcode, as clang -flto makes it: its debug information is made when it is linked; give the linked \
                program, or compile without -flto"
            .to_owned();
    }
    if bytes.starts_with(b"\x7fELF") {
        return match machine(bytes) {
            Some((X86_64, true)) => "a damaged ELF file, or one that is cut off".to_owned(),
            Some((number, _)) => match MACHINES.iter().find(|(known, _)| *known == number) {
                Some((_, name)) => format!("{WANTED}, but one for {name}"),
                None => format!("{WANTED}, but one for another processor (number {number})"),
            },
            None => "an ELF file that is cut off within its head".to_owned(),
        };
    }
    if let Some(what) = other_code(bytes) {
        return format!("{WANTED}, but {what}");
    }
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_SCRIPT_BYTES)]);
    if text.starts_with("/*") && LINKER_SCRIPT.iter().any(|word| text.contains(word)) {
        return format!("{WANTED}, but a script for the linker: give the files that it names");
    }
    WANTED.to_owned()
}

/// The processor that an ELF file is for, and whether it is one of 64 bits in little endian.
fn machine(bytes: &[u8]) -> Option<(u16, bool)> {
    let (class, order) = (*bytes.get(4)?, *bytes.get(5)?);
    let number = [*bytes.get(18)?, *bytes.get(19)?];
    let number = if order == 2 { u16::from_be_bytes(number) } else { u16::from_le_bytes(number) };
    Some((number, class == 2 && order == 1))
}

/// Why an image has no debug information, and what to do, in words.
pub fn why_no_debug_info(image: &Image<'_>) -> String {
    let has = |name| image.has_section(name);
    if image.is_core_dump() {
        return "a core dump, which has no debug information: give the program that it is of".to_owned();
    }
    if has(".debug_cu_index") {
        return "a package of split debug information (.dwp): give the program that it is of".to_owned();
    }
    if has(".debug_info.dwo") {
        return "split debug information (.dwo): give the object file or the program that it is of".to_owned();
    }
    if image.has_section_of(".gnu.lto_") {
        return "compiled with -flto: its debug information is made when it is linked; give the linked program, or compile it \
                with -g without -flto or with -ffat-lto-objects"
            .to_owned();
    }
    if let Some((name, _)) = image.debug_link() {
        let name = String::from_utf8_lossy(name);
        return format!(
            "has no debug information: that is in {name}, which is not there or of another build; install its debug package, \
             or put it beside the file"
        );
    }
    if has(".gnu_debugdata") {
        return "has no debug information but names of functions (.gnu_debugdata): install its debug package"
            .to_owned();
    }
    "has no debug information: compile it with -g, or install its debug package".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_machines_are_named() {
        let elf = |class: u8, order: u8, number: [u8; 2]| {
            let mut bytes = vec![0; 64];
            bytes[..4].copy_from_slice(b"\x7fELF");
            (bytes[4], bytes[5]) = (class, order);
            bytes[18..20].copy_from_slice(&number);
            why_no_image(&bytes)
        };
        let wanted = "no program, library or object file for x86-64 (ELF)";
        assert_eq!(elf(2, 1, [183, 0]), format!("{wanted}, but one for AArch64"));
        assert_eq!(elf(2, 2, [0, 22]), format!("{wanted}, but one for S/390"));
        assert_eq!(elf(1, 1, [3, 0]), format!("{wanted}, but one for x86 (32 bits)"));
        assert_eq!(elf(1, 1, [62, 0]), format!("{wanted}, but one for x86-64 with pointers of 32 bits (x32)"));
        assert_eq!(elf(2, 1, [62, 0]), "a damaged ELF file, or one that is cut off");
        assert_eq!(elf(2, 1, [1, 1]), format!("{wanted}, but one for another processor (number 257)"));
        assert_eq!(why_no_image(b"\x7fELF"), "an ELF file that is cut off within its head");
        assert!(why_no_image(b"BC\xc0\xde").starts_with("LLVM's bitcode"));
        assert_eq!(why_no_image(b"MZ\x90"), format!("{wanted}, but a Windows program (PE)"));
        assert!(why_no_image(b"/* GNU ld script */\nGROUP ( libm.so.6 )").ends_with("give the files that it names"));
        assert_eq!(why_no_image(b"/* one.c */ int main;"), wanted);
        assert_eq!(why_no_image(b""), wanted);
        assert!(is_code(b"\xcf\xfa\xed\xfe") && is_code(b"\x7fELF") && is_code(b"!<thin>\n") && !is_code(b"{}"));
    }
}
