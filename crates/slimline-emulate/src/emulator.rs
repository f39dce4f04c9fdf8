//! The emulator: decode cache, write overlay and the loop over instructions.

use iced_x86::Mnemonic;

use crate::access::{Access, Burst, End, Memory};
use crate::flags::{self, condition};
use crate::lower::{MAX_INSTRUCTION_BYTES, lower_bytes, specialize};
use crate::machine::Machine;
use crate::op::{Op, Operand, Work};
use crate::overlay::Overlay;
use crate::state::{RAX, RDX, State};

const PAGE_BYTES: u64 = 4096;

/// A decoded instruction and the bytes it was decoded from.
#[derive(Clone, Copy)]
struct Entry {
    /// 0 = empty.
    ip: u64,
    /// The first 16 bytes at `ip`; those beyond the instruction are ignored.
    raw: [u64; 2],
    op: Op,
    /// The burst in which the bytes were last compared.
    checked: u32,
}

/// Decode cache and write overlay of one thread.
///
/// `ENTRIES` (a power of two) instructions stay decoded, by default 2048 (about 180 KB, and 45 KB for the overlay).
/// All-zero bytes are a valid `Emulator`, equal to [`Emulator::new`]: it can live in fresh mapped
/// memory without being written first. Nothing in it points anywhere, and it may be moved.
pub struct Emulator<const ENTRIES: usize = 2048> {
    entries: [Entry; ENTRIES],
    overlay: Overlay,
    burst: u32,
    decoded: u64,
}

impl<const ENTRIES: usize> Default for Emulator<ENTRIES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const ENTRIES: usize> Emulator<ENTRIES> {
    const VALID: () = assert!(ENTRIES.is_power_of_two() && ENTRIES > 1);

    /// An emulator with an empty cache.
    pub const fn new() -> Self {
        () = Self::VALID;
        Self {
            entries: [Entry { ip: 0, raw: [0; 2], op: Op::EMPTY, checked: 0 }; ENTRIES],
            overlay: Overlay::new(),
            burst: 0,
            decoded: 0,
        }
    }

    /// Instructions decoded so far: what the cache did not hold.
    pub fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Emulates up to `limit` instructions from `state`, reporting each access to `sink`.
    ///
    /// Afterwards `state` is that before the first instruction not emulated. Stores are seen by
    /// later loads of the same burst only.
    pub fn run<M: Memory, S: FnMut(Access)>(
        &mut self,
        state: &mut State,
        memory: &mut M,
        limit: u32,
        mut sink: S,
    ) -> Burst {
        self.begin();
        let mut instructions = 0;
        while instructions < limit {
            if let Err(end) = self.step(state, memory, &mut sink) {
                return Burst { instructions, end };
            }
            instructions += 1;
        }
        Burst { instructions, end: End::Limit }
    }

    /// What a load of 1 to 8 bytes would see in this burst; none if unreadable or unknown.
    pub fn peek<M: Memory>(&self, memory: &mut M, address: u64, bytes: usize) -> Option<u64> {
        self.overlay.load(memory, address, bytes.clamp(1, 8)).ok()?
    }

    /// Starts a burst for [`Emulator::step`]: forgets stores and re-checks code bytes.
    pub fn begin(&mut self) {
        self.overlay.clear();
        self.burst = self.burst.wrapping_add(1);
        if self.burst == 0 {
            self.entries.iter_mut().for_each(|entry| entry.checked = 0);
            self.burst = 1;
        }
    }

    /// Emulates one instruction (or one group of a repeated string instruction). On an error the
    /// state is as before.
    #[inline(always)]
    pub fn step<M: Memory, S: FnMut(Access)>(
        &mut self,
        state: &mut State,
        memory: &mut M,
        sink: &mut S,
    ) -> Result<(), End> {
        let ip = state.rip;
        let slot = (ip.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - ENTRIES.trailing_zeros())) as usize % ENTRIES;
        let entry = &mut self.entries[slot];
        if entry.ip != ip || entry.checked != self.burst {
            self.decoded += u64::from(refresh(entry, ip, memory)?);
            entry.checked = self.burst;
        }
        let op = &entry.op;
        let mut machine = Machine { state, memory, overlay: &mut self.overlay, sink };
        let next = machine.execute(op, ip.wrapping_add(u64::from(op.length)))?;
        state.rip = next;
        Ok(())
    }
}

/// Makes `entry` hold the instruction at `ip` as it is now; true if it had to be decoded.
#[cold]
fn refresh<M: Memory>(entry: &mut Entry, ip: u64, memory: &mut M) -> Result<bool, End> {
    if ip == 0 {
        return Err(End::Fault);
    }
    let mut code = [0; 16];
    let in_page = (PAGE_BYTES - ip % PAGE_BYTES).min(16) as usize;
    if in_page == 16 {
        if !memory.read(ip, &mut code) || !memory.knows(ip, 16) {
            return Err(End::Fault);
        }
    } else {
        if !memory.read(ip, &mut code[..in_page]) || !memory.knows(ip, in_page) {
            return Err(End::Fault);
        }
        // The next page may be missing; then it holds no part of the instruction.
        let (_, rest) = code.split_at_mut(in_page);
        let beyond = ip.wrapping_add(in_page as u64);
        if !memory.read(beyond, rest) || !memory.knows(beyond, rest.len()) {
            rest.fill(0);
        }
    }
    let raw = u128::from_le_bytes(code);
    let old = u128::from(entry.raw[1]) << 64 | u128::from(entry.raw[0]);
    if entry.ip == ip && (raw ^ old) << (128 - 8 * u32::from(entry.op.length.clamp(1, 15))) == 0 {
        return Ok(false);
    }
    let mut op = lower_bytes(&code[..MAX_INSTRUCTION_BYTES], ip);
    specialize(&mut op);
    if op.work == Work::Undecodable {
        return Err(End::Undecodable);
    }
    *entry = Entry { ip, raw: [raw as u64, (raw >> 64) as u64], op, checked: 0 };
    Ok(true)
}

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    /// Executes one lowered instruction; returns the next instruction pointer.
    #[inline(always)]
    fn execute(&mut self, op: &Op, next: u64) -> Result<u64, End> {
        match op.work {
            Work::Nothing => {}
            Work::MoveRegister => {
                let value = self.register(op.b, op.size);
                self.set_register(op.a, value);
            }
            Work::LoadRegister => {
                let address = self.address(op)?;
                let value = self.load(address, op.size)?;
                self.set_register(op.a, value);
            }
            Work::StoreRegister => {
                let address = self.address(op)?;
                let value = self.register(op.b, op.size);
                self.store(address, op.size, value)?;
            }
            Work::AluRegister(alu) => {
                let b = self.register(op.b, op.size);
                self.alu_register(op, alu, b);
            }
            Work::AluImmediate(alu) => self.alu_register(op, alu, Some(op.immediate)),
            Work::Move => {
                let value = self.read(op, op.b, op.size)?;
                self.write(op, op.a, op.size, value)?;
            }
            Work::MoveZero => {
                let value = self.read(op, op.b, op.from as u8)?;
                self.write_register(op.a, op.size, value);
            }
            Work::MoveSign => {
                let from = op.from as u8;
                let value = self.read(op, op.b, from)?.map(|value| flags::sign_extend(value, from));
                self.write_register(op.a, op.size, value);
            }
            Work::Address => {
                let address = op.place.address(&self.state.registers);
                self.write_register(op.a, op.size, address);
            }
            Work::Alu(alu) => self.alu(op, alu)?,
            Work::JumpIf(number) => return self.jump_if(op, number, next),
            Work::Jump => return self.jump(op),
            Work::Call => return self.call(op, next),
            Work::Return => return self.return_near(op),
            Work::Push => self.push(op)?,
            Work::Pop => self.pop(op)?,
            Work::Unary(unary) => self.unary(op, unary)?,
            Work::Shift(shift) => self.shift(op, shift)?,
            Work::MoveIf(number) => {
                let value = self.read(op, op.b, op.size)?;
                let result = match condition(number, self.state) {
                    Some(true) => value,
                    Some(false) => self.read_register(op, op.a, op.size),
                    None => None,
                };
                self.write_register(op.a, op.size, result);
            }
            Work::SetIf(number) => {
                let value = condition(number, self.state).map(u64::from);
                self.write(op, op.a, 1, value)?;
            }
            Work::Vector(work) => self.vector(op, work)?,
            _ => return self.execute_rare(op, next),
        }
        Ok(next)
    }

    #[inline(never)]
    fn execute_rare(&mut self, op: &Op, next: u64) -> Result<u64, End> {
        match op.work {
            Work::ShiftPlain(shift) => self.shift_plain(op, shift)?,
            Work::ShiftDouble(left) => self.shift_double(op, left)?,
            Work::BitTest(test) => self.bit_test(op, test)?,
            Work::Bits(bits) => self.bits(op, bits)?,
            Work::Multiply => self.multiply(op)?,
            Work::MultiplyWide(signed) => self.multiply_wide(op, signed)?,
            Work::Mulx => self.mulx(op)?,
            Work::Divide(signed) => self.divide(op, signed)?,
            Work::AddCarryOnly(overflow) => self.add_carry_only(op, overflow)?,
            Work::ByteSwap => {
                let value = self.read_register(op, op.a, op.size);
                // Of two bytes it is undefined.
                let swapped = if op.size == 2 { None } else { value.map(|value| swap_bytes(value, op.size)) };
                self.write_register(op.a, op.size, swapped);
            }
            Work::MoveSwapped => {
                let value = self.read(op, op.b, op.size)?.map(|value| swap_bytes(value, op.size));
                self.write(op, op.a, op.size, value)?;
            }
            Work::Exchange => self.exchange(op)?,
            Work::ExchangeAdd => self.exchange_add(op)?,
            Work::CompareExchange => self.compare_exchange(op)?,
            Work::CompareExchangePair => self.compare_exchange_pair(op)?,
            Work::ExtendRax => {
                let half = op.size / 2;
                let value = self.read_register(op, Operand::Gpr(RAX as u8), half);
                self.write_gpr(RAX as u8, op.size, value.map(|value| flags::sign_extend(value, half)));
            }
            Work::ExtendRdx => {
                let value = self.read_register(op, Operand::Gpr(RAX as u8), op.size);
                let sign = value.map(|value| (flags::sign_extend(value, op.size) as i64 >> 63) as u64);
                self.write_gpr(RDX as u8, op.size, sign);
            }
            Work::Crc32 => self.crc32(op)?,
            Work::Flag(change) => self.change_flag(change),
            Work::Xlat => {
                let base = self.state.gpr(op.place.base as usize).ok_or(End::UnknownAddress)?;
                let index = self.read_register(op, Operand::Gpr(RAX as u8), 1).ok_or(End::UnknownAddress)?;
                let value = self.load(base.wrapping_add(index), 1)?;
                self.write_gpr(RAX as u8, 1, value);
            }
            Work::ReadBase(fs) => {
                let base = self.state.base(fs);
                self.write_register(op.a, op.size, base);
            }
            Work::WriteBase(fs) => {
                let base = self.read_register(op, op.a, op.size);
                if fs { self.state.set_fs_base(base) } else { self.state.set_gs_base(base) }
            }
            Work::PushFlags => self.push_flags(op)?,
            Work::PopFlags => self.pop_flags(op)?,
            Work::Enter => self.enter(op)?,
            Work::Leave => self.leave()?,
            Work::Loop(kind) => return self.loop_or_skip(op, kind, next),
            Work::Text(text, repeat) => return self.text(op, text, repeat, next),
            Work::Forget => {
                self.state.registers.known &= !(op.immediate as u32 & 0xffff);
                let flags = op.immediate >> 32;
                self.state.put_flags(0, 0, flags);
            }
            Work::Poison => self.poison(op)?,
            Work::PoisonStore => self.poison_store(op)?,
            Work::Syscall => return Err(End::Syscall),
            Work::Exception => return Err(End::Exception),
            Work::FarBranch => return Err(End::FarBranch),
            Work::Undecodable => return Err(End::Undecodable),
            _ => return Err(unsupported(op)),
        }
        Ok(next)
    }
}

fn swap_bytes(value: u64, bytes: u8) -> u64 {
    value.swap_bytes() >> (64 - 8 * u32::from(bytes))
}

fn unsupported(op: &Op) -> End {
    End::Unsupported(Mnemonic::try_from(op.immediate as usize).unwrap_or(Mnemonic::INVALID))
}

/// Builds the decoder's tables, which allocates once; afterwards decoding allocates nothing. Call
/// it outside signal handlers before the first burst.
pub fn prepare() {
    let _ = lower_bytes(&[0x90], 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessKind::{self, Load, Store, Update};
    use crate::state::{RBX, RCX, RDI, RSI, RSP};

    /// Code at 0x1000, data at 0x2000, nothing else.
    struct Flat {
        code: [u8; 64],
        data: [u8; 256],
    }

    impl Memory for Flat {
        fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
            let (from, base) = if address < 0x2000 { (&self.code[..], 0x1000) } else { (&self.data[..], 0x2000) };
            let Some(start) = address.checked_sub(base).map(|start| start as usize) else {
                return false;
            };
            match from.get(start..start + into.len()) {
                Some(bytes) => into.copy_from_slice(bytes),
                None => return false,
            }
            true
        }
    }

    /// Runs `code` from the given registers with every flag clear; returns state, burst, accesses.
    fn run(code: &[u8], registers: &[(usize, u64)], limit: u32) -> (State, Burst, [Option<Access>; 8]) {
        let mut flat = Flat { code: [0xcc; 64], data: [0; 256] };
        flat.code[..code.len()].copy_from_slice(code);
        for (at, byte) in flat.data.iter_mut().enumerate() {
            *byte = at as u8;
        }
        let mut state = State::unknown(0x1000);
        state.set_flags(2);
        for &(register, value) in registers {
            state.set_gpr(register, Some(value));
        }
        let mut emulator = Emulator::<64>::new();
        let (mut accesses, mut count) = ([None; 8], 0);
        let burst = emulator.run(&mut state, &mut flat, limit, |access| {
            accesses[count] = Some(access);
            count += 1;
        });
        (state, burst, accesses)
    }

    fn access(ip: u64, address: u64, bytes: u16, kind: AccessKind) -> Option<Access> {
        Some(Access { ip, address, bytes, kind, atomic: false })
    }

    #[test]
    fn stores_stay_in_the_overlay_and_are_read_back() {
        // mov [rdi+6], eax (crosses a cell); mov rbx, [rdi+4]; int3
        let (state, burst, accesses) =
            run(&[0x89, 0x47, 0x06, 0x48, 0x8b, 0x5f, 0x04], &[(RAX, 0xAABB_CCDD), (RDI, 0x2000)], 9);
        assert_eq!(burst, Burst { instructions: 2, end: End::Exception });
        assert_eq!(state.gpr(RBX), Some(0x0b0a_aabb_ccdd_0504));
        assert_eq!(accesses[..2], [access(0x1000, 0x2006, 4, Store), access(0x1003, 0x2004, 8, Load)]);
    }

    #[test]
    fn read_modify_write_is_one_update() {
        // add dword [rdi+4], 1; lock xadd [rdi], eax
        let code = [0x83, 0x47, 0x04, 0x01, 0xf0, 0x0f, 0xc1, 0x07];
        let (state, _, accesses) = run(&code, &[(RAX, 1), (RDI, 0x2000)], 2);
        assert_eq!(accesses[0], access(0x1000, 0x2004, 4, Update));
        assert_eq!(accesses[1], Some(Access { ip: 0x1004, address: 0x2000, bytes: 4, kind: Update, atomic: true }));
        assert_eq!(state.gpr(RAX), Some(0x0302_0100));
    }

    #[test]
    fn unknown_is_poison_and_ends_the_burst_where_it_matters() {
        // mov rax, rbx (unknown); add rcx, 1; test rax, rax; je +0
        let code = [0x48, 0x89, 0xd8, 0x48, 0x83, 0xc1, 0x01, 0x48, 0x85, 0xc0, 0x74, 0x00];
        let (state, burst, _) = run(&code, &[(RCX, 1)], 9);
        assert_eq!(burst, Burst { instructions: 3, end: End::UnknownCondition });
        assert_eq!((state.gpr(RAX), state.gpr(RCX), state.rip), (None, Some(2), 0x100a));
        // mov rax, [rbx]
        assert_eq!(run(&[0x48, 0x8b, 0x03], &[], 9).1.end, End::UnknownAddress);
        // mov rax, [rdi] beyond the data
        assert_eq!(run(&[0x48, 0x8b, 0x07], &[(RDI, 0x20f9)], 9).1, Burst { instructions: 0, end: End::Fault });
    }

    #[test]
    fn poison_survives_a_trip_through_memory() {
        // mov [rdi], bl (unknown); mov eax, [rdi]; movzx ecx, byte [rdi+1]
        let (state, ..) = run(&[0x88, 0x1f, 0x8b, 0x07, 0x0f, 0xb6, 0x4f, 0x01], &[(RDI, 0x2000)], 3);
        assert_eq!((state.gpr(RAX), state.gpr(RCX)), (None, Some(1)));
    }

    #[test]
    fn repeated_move_goes_in_groups() {
        // rep movsb of 70 bytes: 64, then 6
        let (state, burst, accesses) = run(&[0xf3, 0xa4], &[(RCX, 70), (RSI, 0x2000), (RDI, 0x2080)], 9);
        assert_eq!(burst.instructions, 2);
        assert_eq!(
            accesses[..4],
            [
                access(0x1000, 0x2000, 64, Load),
                access(0x1000, 0x2080, 64, Store),
                access(0x1000, 0x2040, 6, Load),
                access(0x1000, 0x20c0, 6, Store),
            ]
        );
        assert_eq!((state.gpr(RCX), state.gpr(RSI)), (Some(0), Some(0x2046)));
    }

    #[test]
    fn stack_moves() {
        // push rax; pop rbx
        let (state, _, accesses) = run(&[0x50, 0x5b], &[(RAX, 7), (RSP, 0x2040)], 2);
        assert_eq!((state.gpr(RBX), state.gpr(RSP)), (Some(7), Some(0x2040)));
        assert_eq!(accesses[..2], [access(0x1000, 0x2038, 8, Store), access(0x1001, 0x2038, 8, Load)]);
    }

    /// What the documentation promises to those who map fresh memory.
    #[test]
    #[allow(unsafe_code)]
    fn zero_bytes_are_an_emulator() {
        // SAFETY: every enum inside is repr(u8) with a payload-free first variant; the rest are
        // integers, bools and arrays of them.
        let mut emulator: std::boxed::Box<Emulator<64>> = unsafe { std::boxed::Box::new_zeroed().assume_init() };
        assert!(emulator.entries.iter().all(|entry| entry.op == Op::EMPTY && entry.ip == 0));
        let mut flat = Flat { code: [0x90; 64], data: [0; 256] };
        let mut state = State::unknown(0x1000);
        let burst = emulator.run(&mut state, &mut flat, 5, |_| {});
        assert_eq!((burst.instructions, state.rip, emulator.decoded()), (5, 0x1005, 5));
    }

    #[test]
    fn changed_code_is_decoded_anew() {
        let mut emulator = Emulator::<64>::new();
        let mut flat = Flat { code: [0x90; 64], data: [0; 256] };
        let mut state = State::unknown(0x1000);
        emulator.run(&mut state, &mut flat, 1, |_| {});
        flat.code[..3].copy_from_slice(&[0x48, 0x31, 0xc0]); // xor rax, rax
        state.rip = 0x1000;
        emulator.run(&mut state, &mut flat, 1, |_| {});
        assert_eq!((state.gpr(RAX), state.rip, emulator.decoded()), (Some(0), 0x1003, 2));
    }
}
