//! Which files instrumented code came from: their site tables say what its records mean.

use core::ffi::CStr;

use crate::kernel;

/// Longest path, with its NUL.
pub(crate) const PATH_BYTES: usize = 4096;

/// A path that is put together piece by piece, always ended by NUL.
pub(crate) struct Path {
    bytes: [u8; PATH_BYTES],
    length: usize,
    is_cut: bool,
}

impl Path {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; PATH_BYTES], length: 0, is_cut: false }
    }

    pub(crate) fn clear(&mut self) {
        self.length = 0;
        self.is_cut = false;
        self.bytes[0] = 0;
    }

    pub(crate) fn push(&mut self, byte: u8) {
        if self.length + 1 < PATH_BYTES && byte != 0 {
            // Volatile, here and below: a loop of these must not become a call of `memcpy`, which may be instrumented.
            volatile_store(&mut self.bytes, self.length, byte);
            self.length += 1;
            volatile_store(&mut self.bytes, self.length, 0);
        } else {
            self.is_cut = true;
        }
    }

    pub(crate) fn push_all(&mut self, text: &[u8]) {
        text.iter().for_each(|&byte| self.push(byte));
    }

    pub(crate) fn push_number(&mut self, number: u32) {
        let mut divisor = 1_000_000_000;
        while divisor > 0 {
            if number >= divisor || divisor == 1 {
                self.push(b'0' + (number / divisor % 10) as u8);
            }
            divisor /= 10;
        }
    }

    /// The whole; none where it did not fit.
    pub(crate) fn get(&self) -> Option<&CStr> {
        let bytes = self.bytes.get(..self.length + 1)?;
        CStr::from_bytes_with_nul(bytes).ok().filter(|_| !self.is_cut && self.length > 0)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }
}

/// Nothing beyond the end.
#[allow(unsafe_code)] // a store that stays one
fn volatile_store(bytes: &mut [u8; PATH_BYTES], at: usize, byte: u8) {
    if let Some(place) = bytes.get_mut(at) {
        // SAFETY: a reference.
        unsafe { core::ptr::from_mut(place).write_volatile(byte) };
    }
}

/// A mapping of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: usize,
    /// Which byte of the file is there.
    pub(crate) offset: usize,
}

/// Finds the file that is mapped at `address`, and puts its path into `path`. None where none is.
pub(crate) fn find(address: usize, path: &mut Path) -> Option<Mapping> {
    let mut line = Line::new(address);
    let mut found = None;
    read_maps(|byte| {
        if found.is_none() {
            found = line.take(byte, path);
        }
    });
    found
}

/// Hands on each byte of `/proc/self/maps`; false where that can't be read.
pub(crate) fn read_maps(mut each: impl FnMut(u8)) -> bool {
    let Ok(file) = kernel::open(c"/proc/self/maps", libc::O_RDONLY) else { return false };
    let mut buffer = [const { core::mem::MaybeUninit::<u8>::uninit() }; 1024];
    loop {
        let read = kernel::read(file, initialized(&mut buffer));
        if read == 0 {
            break;
        }
        buffer_of(&buffer, read).iter().for_each(|&byte| each(byte));
    }
    kernel::close(file);
    true
}

/// The buffer as bytes, which the kernel fills in.
#[allow(unsafe_code)] // zeros by a loop that is no call
fn initialized(buffer: &mut [core::mem::MaybeUninit<u8>; 1024]) -> &mut [u8] {
    for byte in buffer.iter_mut() {
        // SAFETY: a reference.
        unsafe { byte.as_mut_ptr().write_volatile(0) };
    }
    // SAFETY: all were just written.
    unsafe { core::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast(), buffer.len()) }
}

/// What was read.
#[allow(unsafe_code)] // as above
fn buffer_of(buffer: &[core::mem::MaybeUninit<u8>; 1024], read: usize) -> &[u8] {
    // SAFETY: `initialized` was called before each read.
    unsafe { core::slice::from_raw_parts(buffer.as_ptr().cast(), read.min(buffer.len())) }
}

/// A line of `/proc/self/maps`, byte by byte: `start-end rights offset device inode      path`.
struct Line {
    address: usize,
    start: usize,
    end: usize,
    offset: usize,
    /// 0: in the start; 1: in the end; 2 to 5: in other fields, of which 3 is the offset, blanks behind them included; 6: in the path.
    field: u8,
    was_blank: bool,
}

impl Line {
    fn new(address: usize) -> Self {
        Self { address, start: 0, end: 0, offset: 0, field: 0, was_blank: false }
    }

    /// The line's mapping, if that was the end of the line with the address, and a file's.
    fn take(&mut self, byte: u8, path: &mut Path) -> Option<Mapping> {
        if byte == b'\n' {
            let holds = (self.start..self.end).contains(&self.address) && path.bytes().first() == Some(&b'/');
            if !holds {
                path.clear();
            }
            let ended = core::mem::replace(self, Self::new(self.address));
            return holds.then_some(Mapping { start: ended.start, offset: ended.offset });
        }
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            _ => byte.wrapping_sub(b'a').wrapping_add(10),
        };
        match (self.field, byte) {
            (0, b'-') => self.field = 1,
            (0, _) => self.start = self.start << 4 | digit as usize,
            (1, b' ') => self.field = 2,
            (1, _) => self.end = self.end << 4 | digit as usize,
            (2..=5, b' ') => self.was_blank = true,
            (2..=4, _) if self.was_blank => {
                self.field += 1;
                self.was_blank = false;
                if self.field == 3 {
                    self.offset = digit as usize;
                }
            }
            (3, _) => self.offset = self.offset << 4 | digit as usize,
            (5, _) if self.was_blank => {
                self.field = 6;
                path.clear();
                path.push(byte);
            }
            (6.., _) => path.push(byte),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::string::{String, ToString};

    use super::*;

    fn found(maps: &str, address: usize) -> Option<(String, Mapping)> {
        let mut path = Path::new();
        let mut line = Line::new(address);
        let mapping = maps.bytes().find_map(|byte| line.take(byte, &mut path))?;
        Some((path.get().unwrap().to_str().unwrap().to_string(), mapping))
    }

    #[test]
    fn the_file_around_an_address_is_found() {
        let maps = "55d0e000-55d0f000 r-xp 00001000 08:01 1234                               /usr/bin/a b\n\
                    7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n\
                    7f0000002000-7f0000003000 r--p 00000000 00:00 0                          [vdso]\n\
                    7f0000004000-7f0000005000 r--p 00fab000 08:01 99                         /lib/x.so\n";
        let mapped = |path: &str, start, offset| Some((path.to_string(), Mapping { start, offset }));
        assert_eq!(found(maps, 0x55d0_e000), mapped("/usr/bin/a b", 0x55d0_e000, 0x1000));
        assert_eq!(found(maps, 0x7f00_0000_4fff), mapped("/lib/x.so", 0x7f00_0000_4000, 0xfa_b000));
        for nothing in [0x7f00_0000_0000, 0x7f00_0000_2000, 0x7f00_0000_5000, 0x55d0_dfff] {
            assert_eq!(found(maps, nothing), None, "{nothing:#x}");
        }
    }

    #[test]
    fn our_own_program_is_found() {
        let mut path = Path::new();
        let code = our_own_program_is_found as *const () as usize;
        let mapping = find(code, &mut path).unwrap();
        assert!(mapping.start <= code && mapping.start.is_multiple_of(4096) && mapping.offset.is_multiple_of(4096));
        let own = std::fs::read_link("/proc/self/exe").unwrap();
        assert_eq!(path.bytes(), own.as_os_str().as_encoded_bytes());
    }

    #[test]
    fn numbers_and_paths_that_are_too_long() {
        let mut path = Path::new();
        for number in [0, 7, 10, 4_294_967_295] {
            path.push_number(number);
            path.push(b' ');
        }
        assert_eq!(path.get().unwrap(), c"0 7 10 4294967295 ");
        path.push_all(&[b'x'; PATH_BYTES]);
        assert_eq!(path.get(), None);
        path.clear();
        assert_eq!(path.get(), None);
    }
}
