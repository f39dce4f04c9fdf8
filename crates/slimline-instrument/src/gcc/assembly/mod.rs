//! gcc's assembly with records in the place of its hooks' calls.
//!
//! With `-fsanitize=thread` gcc calls a hook before each access (`__tsan_read4`, with the address in rdi), at the beginning and
//! the end of each function, and in the place of each atomic operation. Around such a call everything that a called function
//! may change is saved, so what stands there instead ([`emit`]) may change rax, r10 and r11 at will. Calls of allocators,
//! of functions that wait for other threads and of those that copy or fill memory are told as
//! [`rewrite`](crate::rewrite) tells them.
//!
//! Lines are all that is looked at: mnemonic, last operand, labels. What stands between `#APP` and `#NO_APP` is the
//! program's own, and is left alone.

mod call_frame;
mod constants;
mod emit;

use std::collections::{BTreeSet, HashSet};

use slimline_trace::stream::hooks::module_of;
use slimline_trace::stream::record::{MAX_SEGMENTS, SiteKind};
use slimline_trace::wire::AllocatorRole;

use crate::rewrite::{
    Allocator, OwnAllocator, OwnAllocators, REDIRECTED, acquires, is_called_by_compiler, may_have_left, releases,
};
use call_frame::CallFrame;
use constants::Constants;
use emit::{Asked, Emitter, Given, Record};

/// How the names of all hooks begin.
const HOOKS: &str = "__tsan_";
/// Registers of arguments.
const ARGUMENTS: [&str; 6] = ["%rdi", "%rsi", "%rdx", "%rcx", "%r8", "%r9"];
/// What compilers append to the names of functions whose parameters they have changed.
const CHANGED: [&str; 3] = [".constprop.", ".isra.", ".part."];

/// Why assembly can't be made to write records.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AssemblyError {
    /// It calls a hook that is not known, or calls one in another way.
    #[error("`{0}` is no call of a hook that is known: this gcc is too new, or told to make other code than usual")]
    Hook(String),
    /// There are more segments than a header can number.
    #[error("it has more than {MAX_SEGMENTS} accesses")]
    TooLarge,
}

/// Assembly that writes records.
#[derive(Debug)]
pub(super) struct Instrumented {
    pub(super) code: Vec<u8>,
    /// Functions of the program's own allocators with parameters that gcc has changed: their blocks are not known.
    pub(super) unlike: BTreeSet<String>,
}

/// The same code with records; none where it has no hooks.
pub(super) fn instrument(code: &[u8], own: &OwnAllocators) -> Result<Option<Instrumented>, AssemblyError> {
    if !code.windows(HOOKS.len()).any(|window| window == HOOKS.as_bytes()) {
        return Ok(None);
    }
    let lines: Vec<&[u8]> = code.split(|byte| *byte == b'\n').collect();
    let mut unit = Unit {
        emitter: Emitter::new(module_of(code), code.len()),
        own,
        functions: HashSet::new(),
        resolvers: HashSet::new(),
        going_on: HashSet::new(),
        constants: Constants::default(),
        frame: CallFrame::default(),
        function: "",
        is_left_alone: false,
        goes_on: false,
        ranges: Vec::new(),
        unlike: BTreeSet::new(),
    };
    unit.find_functions(&lines);
    let mut is_own_assembly = false;
    for (index, raw) in lines.iter().enumerate() {
        // What is no text is in nothing that we look at.
        let line = std::str::from_utf8(raw).unwrap_or_default();
        match line {
            "#APP" => {
                is_own_assembly = true;
                unit.go_on();
            }
            "#NO_APP" => {
                is_own_assembly = false;
                unit.constants.forget_all();
            }
            _ if is_own_assembly => {}
            _ if unit.line(line, &lines[index..])? => continue,
            _ => {}
        }
        unit.emitter.copy(raw);
        if index + 1 < lines.len() {
            unit.emitter.copy(b"\n");
        }
    }
    let code = unit.emitter.finish().ok_or(AssemblyError::TooLarge)?;
    Ok(Some(Instrumented { code, unlike: unit.unlike }))
}

struct Unit<'a> {
    emitter: Emitter,
    own: &'a OwnAllocators,
    /// Names of functions.
    functions: HashSet<&'a str>,
    /// Those that the dynamic linker calls to choose others, before anything is relocated.
    resolvers: HashSet<&'a str>,
    /// Those that tell when they begin, and go on after what they called may have been left without an end; without the mark of their parts.
    going_on: HashSet<&'a str>,
    constants: Constants,
    frame: CallFrame,
    /// The one that is looked at.
    function: &'a str,
    /// It must not write records.
    is_left_alone: bool,
    /// It goes on where the next instruction is.
    goes_on: bool,
    /// Bytes of the ranges that were told since the last call, label or other hook: what follows may be a copy that gcc makes
    /// of them by a call of its own.
    ranges: Vec<u64>,
    unlike: BTreeSet<String>,
}

/// An instruction.
#[derive(Clone, Copy)]
struct Instruction<'a> {
    mnemonic: &'a str,
    operands: &'a str,
}

impl<'a> Instruction<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let line = line.strip_prefix('\t')?;
        // `-fverbose-asm`.
        let line = line.split('#').next().unwrap_or_default().trim_end();
        let (mnemonic, operands) = line.split_once(['\t', ' ']).unwrap_or((line, ""));
        let is_one = !mnemonic.is_empty() && !mnemonic.starts_with('.') && !mnemonic.ends_with(':');
        is_one.then_some(Self { mnemonic, operands: operands.trim() })
    }

    /// The function that is called or jumped to, by its name.
    fn target(self) -> Option<&'a str> {
        let name = match self.operands.strip_prefix('*') {
            Some(place) => place.strip_suffix("@GOTPCREL(%rip)")?,
            None => self.operands.strip_suffix("@PLT").unwrap_or(self.operands),
        };
        (!name.starts_with(['%', '.', '*'])).then_some(name)
    }
}

impl<'a> Unit<'a> {
    fn find_functions(&mut self, lines: &[&'a [u8]]) {
        let mut chosen = HashSet::new();
        let mut set = Vec::new();
        let mut hooked = HashSet::new();
        let mut function = "";
        for line in lines.iter().filter_map(|line| std::str::from_utf8(line).ok()) {
            if let Some(label) = line.strip_suffix(':').filter(|label| self.functions.contains(label)) {
                function = label;
            } else if let Some(call) = Instruction::of(line).filter(|instruction| instruction.mnemonic == "call")
                && let Some(called) = call.target()
            {
                if may_have_left(called) {
                    self.going_on.insert(whole(function));
                } else if called.strip_prefix(HOOKS) == Some("func_entry") {
                    hooked.insert(function);
                }
            }
            if let Some((name, kind)) = line.strip_prefix("\t.type\t").and_then(|rest| rest.split_once(", @")) {
                match kind {
                    "function" => drop(self.functions.insert(name)),
                    "gnu_indirect_function" => drop(chosen.insert(name)),
                    _ => {}
                }
            } else if let Some((name, value)) = line.strip_prefix("\t.set\t").and_then(|rest| rest.split_once(',')) {
                set.push((name, value.trim()));
            }
        }
        // Of what is not traced nobody has told that it began.
        self.going_on.retain(|function| hooked.contains(function));
        self.resolvers.extend(set.into_iter().filter(|(name, _)| chosen.contains(name)).map(|(_, value)| value));
    }

    /// Looks at the first of these lines. Whether something else stands in its place now.
    fn line(&mut self, line: &'a str, rest: &[&[u8]]) -> Result<bool, AssemblyError> {
        if let Some(label) = line.strip_suffix(':').filter(|label| !label.starts_with(['\t', ' '])) {
            if is_reached(label) {
                self.go_on();
                self.ranges.clear();
                self.constants.forget_all();
            }
            if self.functions.contains(label) {
                self.begin(label, rest);
            }
            return Ok(false);
        }
        if let Some((name, operands)) = directive(line) {
            // Split debug information lists the addresses of all that is called (`.debug_addr`). Nobody calls hooks any more, so
            // nothing defines them.
            if is_data(name) && operands.starts_with(HOOKS) {
                self.emitter.line(&format!(".{name}\t0"));
                return Ok(true);
            }
            self.emitter.directive(name, operands);
            self.frame.take(name, operands);
            return Ok(false);
        }
        let Some(instruction) = Instruction::of(line) else { return Ok(false) };
        // Where processors let a jump go to only what is meant for it, that comes first.
        if instruction.mnemonic != "endbr64" {
            self.go_on();
        }
        let is_replaced = match (instruction.mnemonic, instruction.target()) {
            ("call", Some(name)) => match name.strip_prefix(HOOKS) {
                Some(hook) => self.hook(hook, false).ok_or_else(|| AssemblyError::Hook(line.trim().to_owned()))?,
                None => self.call(name, line),
            },
            ("jmp", Some(name)) if name.starts_with(HOOKS) => {
                let hook = &name[HOOKS.len()..];
                self.hook(hook, true).ok_or_else(|| AssemblyError::Hook(line.trim().to_owned()))?
            }
            ("call", None) => {
                self.ranges.clear();
                false
            }
            _ if instruction.operands.contains(HOOKS) => return Err(AssemblyError::Hook(line.trim().to_owned())),
            _ => false,
        };
        self.constants.take(instruction.mnemonic, instruction.operands);
        Ok(is_replaced)
    }

    fn begin(&mut self, function: &'a str, rest: &[&[u8]]) {
        let stem = function.split('.').next().unwrap_or(function);
        (self.function, self.goes_on) = (function, false);
        self.is_left_alone =
            is_called_by_compiler(stem) || self.resolvers.contains(function) || function.starts_with("__slimline_");
        let end = format!("\t.size\t{function}, ");
        let body = rest.iter().take_while(|line| !line.starts_with(end.as_bytes()));
        self.constants.begin(body.filter_map(|line| Instruction::of(std::str::from_utf8(line).ok()?)));
    }

    /// Writes what stands in the place of a hook's call, or of a jump there; none where the hook is not known.
    fn hook(&mut self, name: &str, is_jump: bool) -> Option<bool> {
        let had = std::mem::take(&mut self.ranges);
        match name {
            "init" => {}
            "func_entry" if !is_jump => {
                // A thread of the OpenMP library's, which has waited in between.
                if self.function.contains("._omp_fn.") {
                    self.acquire("a thread of a library's");
                }
                let goes_on = self.going_on.contains(whole(self.function));
                match self.frame.return_address().filter(|_| goes_on && !self.is_left_alone) {
                    Some(at) => {
                        self.emitter.line(&format!("leaq\t{at}, %rsi"));
                        self.record(Record { words: &["%rsi"], ..Record::of(SiteKind::EnterFrame) });
                    }
                    None => {
                        self.going_on.remove(whole(self.function));
                        self.record(Record::of(SiteKind::Enter));
                    }
                }
            }
            "func_exit" => self.record(Record::of(SiteKind::Leave)),
            // Of all others gcc makes calls only: functions have an end that is told.
            _ if is_jump => return None,
            "vptr_update" => self.record(Record::access(SiteKind::Store, 8)),
            "vptr_read" => self.record(Record::access(SiteKind::Load, 8)),
            "read_range" | "write_range" => {
                let kind = if name.starts_with("read") { SiteKind::Load } else { SiteKind::Store };
                match self.constants.of("%rsi") {
                    Some(bytes) => {
                        self.record(Record::access(kind, u32::try_from(bytes).ok()?));
                        self.ranges = had;
                        self.ranges.push(bytes);
                    }
                    None => self.record(Record { name: "a range of bytes", ..Record::of(SiteKind::Untraced) }),
                }
            }
            _ => match name.strip_prefix("atomic") {
                Some(operation) => self.atomic(operation)?,
                None => self.record(access(name)?),
            },
        }
        if is_jump {
            self.emitter.line("ret");
        }
        Some(true)
    }

    /// Writes a call of an atomic operation, `32_fetch_add`, or of a fence.
    fn atomic(&mut self, name: &str) -> Option<()> {
        let (bits, operation) = name.split_once('_')?;
        let kind = match operation {
            "thread_fence" | "signal_fence" if bits.is_empty() => None,
            "load" => Some(SiteKind::Load),
            "store" => Some(SiteKind::Store),
            "exchange"
            | "fetch_add"
            | "fetch_sub"
            | "fetch_and"
            | "fetch_or"
            | "fetch_xor"
            | "fetch_nand"
            | "compare_exchange_strong"
            | "compare_exchange_weak"
            | "compare_exchange_val" => Some(SiteKind::Update),
            _ => return None,
        };
        if let Some(kind) = kind {
            let bytes = match bits {
                "8" => 1,
                "16" => 2,
                "32" => 4,
                "64" => 8,
                "128" => 16,
                _ => return None,
            };
            // Others may see from it on what was done before.
            if kind == SiteKind::Store {
                self.acquire("an atomic operation");
            }
            self.record(Record { is_atomic: true, ..Record::access(kind, bytes) });
        }
        self.emitter.line(&format!("call\t__slimline_atomic{name}@PLT"));
        if kind != Some(SiteKind::Store) && operation != "signal_fence" {
            self.acquire("an atomic operation");
        }
        Some(())
    }

    /// Writes that the function goes on, if it does so here.
    fn go_on(&mut self) {
        let goes_on = std::mem::take(&mut self.goes_on) && self.going_on.contains(whole(self.function));
        if let Some(at) = self.frame.return_address().filter(|_| goes_on) {
            self.emitter.goes_on(&at);
        }
    }

    /// Writes what is to be told of a call, and the call. Whether it did.
    fn call(&mut self, name: &'a str, line: &str) -> bool {
        let ranges = std::mem::take(&mut self.ranges);
        let instead = REDIRECTED.iter().find(|(known, _)| known.to_str() == Ok(name));
        let instead = instead.filter(|_| self.own_allocator(name).is_none());
        if let Some(instead) = instead.and_then(|(_, instead)| instead.to_str().ok()) {
            self.emitter.line(&format!("call\t{instead}@PLT"));
            return true;
        }
        if self.is_left_alone {
            return false;
        }
        if let Some(own) = self.own_allocator(name) {
            return self.own_call(name, &own, line);
        }
        if let Some(allocator) = Allocator::named(name) {
            self.allocator(name, allocator, line);
            return true;
        }
        let is_compilers = |bytes: Option<u64>| bytes.is_some_and(|bytes| ranges.contains(&bytes));
        let (copy, fill) = (["%rdi", "%rsi", "%rdx"], ["%rdi", "%rdx"]);
        match name {
            // What gcc copies itself it has told already.
            "memcpy" | "memmove" | "memset" if is_compilers(self.constants.of("%rdx")) => {}
            "memcpy" | "memmove" | "mempcpy" | "__memcpy_chk" | "__memmove_chk" | "__mempcpy_chk" => {
                self.record(Record { words: &copy, ..Record::of(SiteKind::Copy) });
            }
            "memset" | "__memset_chk" => self.record(Record { words: &fill, ..Record::of(SiteKind::Fill) }),
            _ if may_have_left(name) => self.goes_on = true,
            _ if acquires(name) || releases(name) => {
                if releases(name) {
                    self.acquire(name);
                }
                self.emitter.line(line.trim());
                if acquires(name) {
                    self.acquire(name);
                }
                return true;
            }
            _ => {}
        }
        false
    }

    /// The program's own allocator with a function of this name, as it is in the source.
    fn own_allocator(&mut self, name: &str) -> Option<OwnAllocator> {
        let is_meant =
            |own: &&OwnAllocator, name: &str| name == own.function || (self.own.is_named)(name, &own.function);
        if let Some(own) = self.own.functions.iter().find(|own| is_meant(own, name)) {
            return Some(own.clone());
        }
        let whole = CHANGED.iter().find_map(|mark| name.split_once(mark))?.0;
        let own = self.own.functions.iter().find(|own| is_meant(own, whole))?;
        self.unlike.insert(own.function.clone());
        None
    }

    fn own_call(&mut self, name: &str, own: &OwnAllocator, line: &str) -> bool {
        let argument = |number: u8| ARGUMENTS.get(usize::from(number).checked_sub(1)?).copied();
        let block = argument(own.block);
        if own.role == AllocatorRole::Free {
            if let Some(block) = block {
                self.record(Record { words: &[block], name, ..Record::of(SiteKind::Free) });
            }
            return false;
        }
        let kind = match own.role {
            AllocatorRole::Allocate => SiteKind::Allocate,
            AllocatorRole::Resize => SiteKind::Resize,
            AllocatorRole::Free | AllocatorRole::Reset => return false,
        };
        let bytes = Asked::Product([argument(own.size), argument(own.count)], own.unit_bytes);
        let given = argument(own.place).map_or(Given::Returned, Given::StoredAt);
        self.allocation(name, kind, block, bytes, given, line);
        true
    }

    fn allocator(&mut self, name: &str, allocator: Allocator, line: &str) {
        let argument = |number: u32| ARGUMENTS.get(number as usize).copied();
        let product = |factors: [Option<u32>; 2]| Asked::Product(factors.map(|it| it.and_then(argument)), 1);
        let resized = allocator.resized().and_then(argument);
        let (asked, given) = match allocator {
            Allocator::Free { block } => {
                self.record(Record { words: &[ARGUMENTS[block as usize]], name, ..Record::of(SiteKind::Free) });
                self.emitter.line(line.trim());
                return;
            }
            Allocator::Allocate { bytes } | Allocator::Resize { bytes, .. } => {
                (product([Some(bytes), None]), Given::Returned)
            }
            Allocator::ResizeElements { count, bytes, .. } => (product([Some(count), Some(bytes)]), Given::Returned),
            Allocator::AllocateZeroed { count, bytes } => {
                (product([Some(bytes), None]), Given::Zeroed(ARGUMENTS[count as usize]))
            }
            Allocator::AllocateInto { place, bytes } => {
                (product([Some(bytes), None]), Given::StoredAt(ARGUMENTS[place as usize]))
            }
            // Flang's alone.
            Allocator::AllocateDescribed { .. } | Allocator::FreeDescribed { .. } => {
                self.emitter.line(line.trim());
                return;
            }
        };
        self.allocation(name, allocator.kind(), resized, asked, given, line);
    }

    fn allocation(
        &mut self,
        name: &str,
        kind: SiteKind,
        resized: Option<&'static str>,
        asked: Asked,
        given: Given,
        line: &str,
    ) {
        if let Some(block) = resized {
            self.record(Record { words: &[block], name, ..Record::of(SiteKind::ResizeBegins) });
        }
        self.emitter.allocating(asked, given);
        self.emitter.line(line.trim());
        self.emitter.acquire_block(name);
        self.emitter.allocated(kind, given, name);
    }

    fn record(&mut self, record: Record<'_>) {
        if !self.is_left_alone {
            self.emitter.record(record);
        }
    }

    fn acquire(&mut self, name: &str) {
        if !self.is_left_alone {
            self.emitter.acquire(name);
        }
    }
}

/// A directive's name, without its dot, and its operands.
fn directive(line: &str) -> Option<(&str, &str)> {
    let directive = line.strip_prefix("\t.")?;
    Some(directive.split_once(['\t', ' ']).unwrap_or((directive, "")))
}

/// Whether a directive, named without its dot, puts an address into a section.
fn is_data(name: &str) -> bool {
    ["quad", "8byte", "long", "4byte"].contains(&name)
}

/// The function that one is a part of, which gcc puts elsewhere as it hardly ever runs.
fn whole(function: &str) -> &str {
    function.split(".cold").next().unwrap_or(function)
}

/// Whether other code may come to a label: those that only debug and unwind information refer to have names of their own.
fn is_reached(label: &str) -> bool {
    label.strip_prefix(".L").is_none_or(|name| name.starts_with(|first: char| first.is_ascii_digit()))
}

/// The access that a hook tells: `read4`, `unaligned_write8`, `volatile_read1`.
fn access(name: &str) -> Option<Record<'static>> {
    let name = name.strip_prefix("unaligned_").unwrap_or(name);
    let (name, is_volatile) = match name.strip_prefix("volatile_") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let (kind, bytes) = match (name.strip_prefix("read"), name.strip_prefix("write")) {
        (Some(bytes), _) => (SiteKind::Load, bytes),
        (_, Some(bytes)) => (SiteKind::Store, bytes),
        _ => return None,
    };
    let bytes = bytes.parse().ok().filter(|bytes| [1, 2, 4, 8, 16].contains(bytes))?;
    Some(Record { is_volatile, ..Record::access(kind, bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that stand in the place of these, of a function `f`, without what each record has; and the entries.
    fn around(body: &[&str]) -> (Vec<String>, Vec<String>) {
        let mut code = "\t.text\n\t.type\tf, @function\nf:\n".to_owned();
        body.iter().for_each(|line| code.push_str(&format!("{line}\n")));
        code.push_str("\t.size\tf, .-f\n");
        let done = instrument(code.as_bytes(), &OwnAllocators::default()).unwrap().unwrap();
        let text = String::from_utf8(done.code).unwrap();
        let (code, table) = text.split_once("\t.section\tslimline_hooks").unwrap_or((&text, ""));
        let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
        let table = lines(table).into_iter().filter(|line| line.starts_with(".byte") || line.starts_with(".long"));
        (lines(code), table.collect())
    }

    fn kinds(body: &[&str]) -> Vec<(SiteKind, u32)> {
        let (_, table) = around(body);
        let number = |text: &str, from: &str| text.strip_prefix(from)?.split(',').next()?.trim().parse::<u32>().ok();
        let pairs = table.chunks(2).map(|pair| {
            let kind = number(&pair[0], ".byte").and_then(|kind| SiteKind::from_number(kind as u8)).unwrap();
            (kind, number(&pair[1], ".long").unwrap())
        });
        pairs.collect()
    }

    #[test]
    fn hooks_become_records() {
        let (code, _) = around(&["\tcall\t__tsan_read4@PLT", "\tjmp\t__tsan_func_exit@PLT"]);
        assert!(code.iter().any(|line| line == "nopl\t(%rdi)") && code.iter().any(|line| line == "ret"));
        assert!(code.iter().all(|line| !line.contains("__tsan_")));
        for (hook, kind, bytes) in [
            ("read4", SiteKind::Load, 4),
            ("unaligned_write8", SiteKind::Store, 8),
            ("volatile_read1", SiteKind::Load, 1),
            ("vptr_update", SiteKind::Store, 8),
            ("func_entry", SiteKind::Enter, 0),
            ("func_exit", SiteKind::Leave, 0),
        ] {
            assert_eq!(kinds(&[&format!("\tcall\t__tsan_{hook}@PLT")]), [(kind, bytes)], "{hook}");
            assert_eq!(kinds(&[&format!("\tcall\t*__tsan_{hook}@GOTPCREL(%rip)")]), [(kind, bytes)], "{hook}");
        }
        assert_eq!(kinds(&["\tcall\t__tsan_init@PLT", "\tcall\t__tsan_write16"]), [(SiteKind::Store, 16)]);
    }

    #[test]
    fn what_is_no_known_hook_is_an_error() {
        for line in
            ["\tcall\t__tsan_read3", "\tjmp\t__tsan_read4", "\tmovabsq\t$__tsan_read8, %rax", "\tcall\t__tsan_new"]
        {
            let error = instrument(format!("f:\n{line}\n").as_bytes(), &OwnAllocators::default()).unwrap_err();
            assert_eq!(error, AssemblyError::Hook(line.trim().to_owned()));
        }
        assert!(instrument(b"f:\n\tcall\tmalloc\n", &OwnAllocators::default()).unwrap().is_none());
    }

    #[test]
    fn ranges_are_told_once() {
        let ranges = ["\tmovl\t$3000, %esi", "\tcall\t__tsan_write_range@PLT", ".LVL7:", "\tmovl\t$3000, %esi"];
        let copied = [&ranges[..], &["\tcall\t__tsan_read_range@PLT", "\tmovl\t$3000, %edx", ".LVL8:"]].concat();
        let told = [(SiteKind::Store, 3000), (SiteKind::Load, 3000)];
        assert_eq!(kinds(&[&copied[..], &["\tcall\tmemcpy@PLT"]].concat()), told);
        // Another number, another call between, and code that may come from elsewhere: the program's own.
        for between in ["\tmovl\t$200, %edx", "\tcall\t*%rax", ".L5:"] {
            let own = [&copied[..], &[between, "\tcall\tmemcpy@PLT"]].concat();
            assert_eq!(kinds(&own).last(), Some(&(SiteKind::Copy, 0)), "{between}");
        }
        assert_eq!(kinds(&["\tmovl\t%eax, %esi", "\tcall\t__tsan_read_range@PLT"]), [(SiteKind::Untraced, 0)]);
    }

    #[test]
    fn calls_are_told_as_the_rewriter_tells_them() {
        let hook = "\tcall\t__tsan_init";
        assert_eq!(
            kinds(&[hook, "\tcall\trealloc@PLT"]),
            [(SiteKind::ResizeBegins, 0), (SiteKind::Acquire, 0), (SiteKind::Resize, 0)]
        );
        assert_eq!(kinds(&[hook, "\tcall\tfree@PLT", "\tcall\tmemset"]), [(SiteKind::Free, 0), (SiteKind::Fill, 0)]);
        assert_eq!(kinds(&[hook, "\tcall\tpthread_mutex_lock@PLT"]), [(SiteKind::Acquire, 0)]);
        assert_eq!(kinds(&["\tcall\t__tsan_atomic32_fetch_add@PLT"]), [(SiteKind::Update, 4), (SiteKind::Acquire, 0)]);
        assert_eq!(kinds(&["\tcall\t__tsan_atomic8_store@PLT"]), [(SiteKind::Acquire, 0), (SiteKind::Store, 1)]);
        assert_eq!(kinds(&[hook, "\tcall\tpthread_mutex_unlock@PLT"]), [(SiteKind::Acquire, 0)]);
        assert_eq!(kinds(&[hook, "\tcall\tpthread_barrier_wait"]), [(SiteKind::Acquire, 0), (SiteKind::Acquire, 0)]);
        let (code, _) = around(&[hook, "\tcall\tsigaction@PLT"]);
        assert!(code.iter().any(|line| line == "call\t__slimline_sigaction@PLT"));
        // A program's own assembly, and jumps, stay.
        assert_eq!(kinds(&[hook, "#APP", "\tcall malloc", "#NO_APP", "\tjmp\tmalloc@PLT"]), []);
    }

    #[test]
    fn what_goes_on_is_told_with_the_place_of_the_return_address() {
        let begin = ["\t.cfi_startproc", "\tsubq\t$24, %rsp", "\t.cfi_def_cfa_offset 32", "\tcall\t__tsan_func_entry"];
        let jumps = ["\tcall\t_setjmp@PLT", "\tendbr64", ".LVL3:", "\ttestl\t%eax, %eax"];
        let told = [(SiteKind::EnterFrame, 0), (SiteKind::GoesOn, 0)];
        let all = [&begin[..], &jumps].concat();
        assert_eq!(kinds(&all), told);
        let (code, _) = around(&all);
        let frame = "leaq\t24(%rsp), %rsi";
        assert_eq!(code.iter().filter(|line| *line == frame).count(), 2);
        // Behind what a jump may lead to, and before what looks at the result, which is left alone.
        let at = |wanted: &str| code.iter().rposition(|line| line == wanted).unwrap();
        let told = &code[at("endbr64") + 1..at("testl\t%eax, %eax")];
        assert!(told.iter().any(|line| line == frame) && told.iter().all(|line| !line.contains("%rax")), "{told:?}");
        // Before code that others come to, and the program's own.
        for behind in [".L5:", "#APP"] {
            let all = [&begin[..], &jumps[..1], &[behind]].concat();
            let (code, _) = around(&all);
            let last = code.iter().rposition(|line| line == behind).unwrap();
            assert!(code.iter().rposition(|line| line == frame).is_some_and(|at| at < last), "{code:?}");
        }
        // Where nobody knows where the return address lies, and in what does not go on.
        assert_eq!(kinds(&all[3..]), [(SiteKind::Enter, 0)]);
        assert_eq!(kinds(&[&begin[..], &["\tcall\tlongjmp@PLT"]].concat()), [(SiteKind::Enter, 0)]);
        // In what does not tell when it begins.
        let read = ["\tcall\t__tsan_read4"];
        assert_eq!(kinds(&[&begin[..3], &jumps, &read].concat()), [(SiteKind::Load, 4)]);
    }

    #[test]
    fn entries_are_bound_to_the_sections_of_their_code() {
        let code = "\t.section\t.text._Z1fv,\"axG\",@progbits,_Z1fv,comdat\n\t.type\t_Z1fv, @function\n_Z1fv:\n\tcall\t__tsan_read1\n\t\
                    .text\n\t.type\tmain, @function\nmain:\n\tcall\t__tsan_read2\n";
        let done = instrument(code.as_bytes(), &OwnAllocators::default()).unwrap().unwrap();
        let text = String::from_utf8(done.code).unwrap();
        let sections: Vec<&str> = text.lines().filter(|line| line.contains("slimline_hooks")).collect();
        let expected = [
            "\t.section\tslimline_hooks,\"aGo\",@progbits,.Lslimline_section_0,_Z1fv,comdat",
            "\t.section\tslimline_hooks,\"ao\",@progbits,.Lslimline_section_1",
        ];
        assert_eq!(sections, expected);
    }

    #[test]
    fn lists_of_addresses_keep_their_places_without_the_hooks() {
        let body = ["\tcall\t__tsan_read4", "\t.section\t.debug_addr,\"\",@progbits"];
        let list = ["\t.quad\t.LVL1", "\t.quad\t__tsan_read4", "\t.long\t__tsan_func_exit+4", "\t.quad\tf"];
        let names = ["\t.string\t\"__tsan_read4\""];
        let (code, _) = around(&[&body[..], &list, &names].concat());
        let begin = code.iter().position(|line| line.contains(".debug_addr")).unwrap();
        let expected = [".quad\t.LVL1", ".quad\t0", ".long\t0", ".quad\tf", ".string\t\"__tsan_read4\""];
        assert_eq!(code[begin + 1..][..5], expected);
    }

    #[test]
    fn what_runs_too_early_or_is_called_by_the_compiler_writes_nothing() {
        let hooks = "\tcall\t__tsan_read1\n\tjmp\t__tsan_func_exit\n";
        let chosen = format!(
            "\t.type\tpick, @function\npick:\n{hooks}\t.type\tname, @gnu_indirect_function\n\t.set\tname,pick\n"
        );
        let called = format!("\t.type\tmemcpy, @function\nmemcpy:\n{hooks}");
        for code in [chosen, called] {
            let done = instrument(code.as_bytes(), &OwnAllocators::default()).unwrap().unwrap();
            let text = String::from_utf8(done.code).unwrap();
            assert!(!text.contains("__slimline") && text.contains("\tret\n"), "{text}");
        }
    }
}
