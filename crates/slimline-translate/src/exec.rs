//! Programs that the program becomes: QEMU would have the kernel run them as they are, untraced. So they are run by QEMU, and with us.
//!
//! Those that it can't run, and all of which anything is not as expected, are left to it: the kernel runs them, or says why not.
#![allow(unsafe_code)] // the program's memory, and a system call that does not return

use std::env;
use std::ffi::{CStr, CString, OsStr, c_void};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::ptr;

use slimline_trace::script::{LINE_BYTES, interpreter};
use slimline_trace::stream::ring::{DIRECTORY_VARIABLE, PAUSED_VARIABLE, VALUES_VARIABLE};

use crate::translation::guest_base;

/// `execve` on x86-64.
pub(crate) const EXECVE: i64 = 59;
/// Scripts that are scripts' interpreters: the kernel follows no more.
const MOST_SCRIPTS: usize = 5;
/// Most words of a list of arguments that is looked at.
const MOST_WORDS: usize = 1 << 20;
/// Longest argument (the kernel's `MAX_ARG_STRLEN`).
const MOST_BYTES: usize = 128 << 10;

/// The program is about to become another one: addresses of its path, its arguments and its environment. Returns where that is left
/// to QEMU.
pub(crate) fn goes_on(path: u64, arguments: u64, environment: u64) {
    let Some(mut memory) = Memory::open() else { return };
    let all = (|| {
        let path = PathBuf::from(OsStr::from_bytes(&memory.text(path)?));
        Some((path, memory.texts(arguments)?, memory.texts(environment)?))
    })();
    // Ours, and gone before the next program looks at its descriptors.
    drop(memory);
    let Some((path, arguments, environment)) = all else { return };
    let Some(command) = Command::of(path, &arguments, environment) else { return };
    command.run();
}

/// The process's memory, by way of the kernel: addresses may be none.
struct Memory(File);

impl Memory {
    fn open() -> Option<Self> {
        File::open("/proc/self/mem").ok().map(Self)
    }

    fn read(&mut self, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(bytes, address.wrapping_add(guest_base()))
    }

    /// A text that ends with a zero.
    fn text(&mut self, mut address: u64) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        while text.len() <= MOST_BYTES {
            // Up to the end of a page: the next one may be none.
            let mut bytes = [0; 256];
            let room = bytes.len().min(4096 - (address as usize & 4095));
            let read = self.read(address, &mut bytes[..room]).ok().filter(|read| *read > 0)?;
            match bytes[..read].iter().position(|&byte| byte == 0) {
                Some(end) => {
                    text.extend_from_slice(&bytes[..end]);
                    return Some(text);
                }
                None => text.extend_from_slice(&bytes[..read]),
            }
            address = address.wrapping_add(read as u64);
        }
        None
    }

    /// A list of such, that ends with a zero; none at all where the list has no address.
    fn texts(&mut self, list: u64) -> Option<Vec<Vec<u8>>> {
        let mut texts = Vec::new();
        while list != 0 && texts.len() < MOST_WORDS {
            let mut word = [0; 8];
            let read = self.read(list.wrapping_add(8 * texts.len() as u64), &mut word).ok()?;
            match (read, u64::from_ne_bytes(word)) {
                (8, 0) => break,
                (8, address) => texts.push(self.text(address)?),
                _ => return None,
            }
        }
        Some(texts)
    }
}

/// What is run in the place of the program.
struct Command {
    qemu: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Command {
    /// QEMU with the plugin, and what the kernel would run for `path`; none where QEMU can't.
    fn of(path: PathBuf, arguments: &[Vec<u8>], mut environment: Vec<Vec<u8>>) -> Option<Self> {
        // What that is, QEMU knows.
        if path.starts_with("/proc") {
            return None;
        }
        let (file, before) = started(path)?;
        let name = match (before.is_empty(), arguments.first()) {
            (true, Some(name)) => name.clone(),
            _ => file.clone().into_os_string().into_vec(),
        };
        let qemu = fs::read_link("/proc/self/exe").ok()?.into_os_string().into_vec();
        let text = |text: &str| text.as_bytes().to_vec();
        let mut all = vec![qemu.clone(), text("-cpu"), text("max")];
        for variable in [DIRECTORY_VARIABLE, PAUSED_VARIABLE, VALUES_VARIABLE] {
            let Some(value) = env::var_os(variable) else { continue };
            // For the plugin, and not for the program.
            all.extend([text("-U"), text(variable)]);
            environment.push([variable.as_bytes(), b"=", value.as_bytes()].concat());
        }
        all.extend([text("-plugin"), own_path()?, text("-0"), name, file.into_os_string().into_vec()]);
        all.extend(before);
        all.extend(arguments.iter().skip(1).cloned());
        let strings = |all: Vec<Vec<u8>>| all.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>().ok();
        Some(Self { qemu: CString::new(qemu).ok()?, arguments: strings(all)?, environment: strings(environment)? })
    }

    /// Does not return, unless the kernel refuses.
    fn run(&self) {
        let pointers = |all: &[CString]| all.iter().map(|it| it.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>();
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        // SAFETY: strings, and lists of such that end with none.
        unsafe { libc::execve(self.qemu.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    }
}

/// The program that the kernel would run, of those that QEMU can, and what it would put before the command's arguments.
fn started(mut file: PathBuf) -> Option<(PathBuf, Vec<Vec<u8>>)> {
    let mut before: Vec<Vec<u8>> = Vec::new();
    for _ in 0..=MOST_SCRIPTS {
        let start = beginning(&file)?;
        let Some((path, argument)) = interpreter(&start) else {
            // ELF of 64 bits, little-endian, for x86-64.
            let is_ours = start.starts_with(b"\x7fELF\x02\x01") && start.get(18..20) == Some(&[62, 0]);
            return is_ours.then_some((file, before));
        };
        let script = file.into_os_string().into_vec();
        before.splice(0..0, argument.map(<[u8]>::to_vec).into_iter().chain([script]));
        file = PathBuf::from(OsStr::from_bytes(path));
    }
    None
}

/// How a file begins that may be run; none of what the kernel gives other rights.
fn beginning(path: &Path) -> Option<Vec<u8>> {
    const SETS_RIGHTS: u32 = 0o6000;
    let metadata = fs::metadata(path).ok()?;
    let may_run = metadata.is_file() && metadata.mode() & 0o111 != 0 && metadata.mode() & SETS_RIGHTS == 0;
    let mut start = Vec::new();
    File::open(path).ok().filter(|_| may_run)?.take(LINE_BYTES as u64).read_to_end(&mut start).ok()?;
    Some(start)
}

/// The plugin's own file, as long as it is there: it goes when slimline does, and what the program left behind runs on.
fn own_path() -> Option<Vec<u8>> {
    let own = goes_on as *const () as *const c_void;
    let mut information = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: an address of the plugin's, and room for what is told of it.
    let is_known = unsafe { libc::dladdr(own, information.as_mut_ptr()) } != 0;
    // SAFETY: it was told; the loader's string lives as long as the plugin.
    let path = is_known.then(|| unsafe { CStr::from_ptr(information.assume_init().dli_fname) }.to_bytes().to_vec())?;
    Path::new(OsStr::from_bytes(&path)).exists().then_some(path)
}
