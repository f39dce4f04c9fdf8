//! Bit tests, scans, counts and fields.

use crate::access::{Access, AccessKind, End, Memory};
use crate::flags::{self, AF, CF, OF, PF, SF, ZF, ones, sign_extend};
use crate::machine::Machine;
use crate::op::{BitTest, Bits, Op, Operand};
use crate::state::State;

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    /// `bt`, `bts`, `btr`, `btc`. With a bit number in a register, memory is a bit string.
    pub(crate) fn bit_test(&mut self, op: &Op, test: BitTest) -> Result<(), End> {
        let (bytes, bits) = (op.size, 8 * u64::from(op.size));
        let number = self.read_register(op, op.b, bytes);
        if op.a != Operand::Memory {
            let value = self.read_register(op, op.a, bytes);
            let outcome = value.zip(number).map(|(value, number)| change_bit(test, value, number % bits));
            self.put_bit_flags(outcome.map(|(_, bit)| bit));
            if test != BitTest::Test {
                self.write_register(op.a, bytes, outcome.map(|(result, _)| result));
            }
            return Ok(());
        }
        let number = number.ok_or(End::UnknownAddress)?;
        let mut address = self.address(op)?;
        if op.b != Operand::Immediate {
            let words = sign_extend(number, bytes) as i64 >> bits.trailing_zeros();
            address = address.wrapping_add((words as u64).wrapping_mul(u64::from(bytes)));
        }
        let value = self.peek(address, bytes)?;
        let outcome = value.map(|value| change_bit(test, value, number % bits));
        if test == BitTest::Test {
            self.report(address, u16::from(bytes), AccessKind::Load, false);
        } else {
            self.poke(address, bytes, outcome.map(|(result, _)| result))?;
            self.report(address, u16::from(bytes), AccessKind::Update, op.atomic);
        }
        self.put_bit_flags(outcome.map(|(_, bit)| bit));
        Ok(())
    }

    fn put_bit_flags(&mut self, bit: Option<u64>) {
        match bit {
            Some(bit) => self.state.put_flags(CF, bit, OF | SF | AF | PF),
            None => self.state.put_flags(0, 0, CF | OF | SF | AF | PF),
        }
    }

    /// a = f(b) or f(b, c), with the flags of each.
    pub(crate) fn bits(&mut self, op: &Op, kind: Bits) -> Result<(), End> {
        let bytes = op.size;
        let b = self.read(op, op.b, bytes)?;
        let c = if op.c == Operand::None { Some(0) } else { self.read(op, op.c, bytes)? };
        let result = match b.zip(c) {
            Some((b, c)) => compute(self.state, kind, b, c, bytes),
            None => {
                let written = if matches!(kind, Bits::Deposit | Bits::Gather) { 0 } else { flags::STATUS };
                self.state.put_flags(0, 0, written);
                None
            }
        };
        self.write_register(op.a, bytes, result);
        Ok(())
    }

    /// CRC-32C of `from` bytes, the polynomial of the `crc32` instruction.
    pub(crate) fn crc32(&mut self, op: &Op) -> Result<(), End> {
        let data = self.read(op, op.b, op.from as u8)?;
        let seed = self.read_register(op, op.a, 4);
        let sum = data.zip(seed).map(|(data, seed)| {
            let mut sum = seed as u32;
            for byte in data.to_le_bytes().into_iter().take(op.from as usize) {
                sum ^= u32::from(byte);
                for _ in 0..8 {
                    sum = sum >> 1 ^ (0x82F6_3B78 & (sum & 1).wrapping_neg());
                }
            }
            u64::from(sum)
        });
        self.write_register(op.a, op.size, sum);
        Ok(())
    }
}

fn change_bit(test: BitTest, value: u64, number: u64) -> (u64, u64) {
    let bit = 1 << number;
    let result = match test {
        BitTest::Test => value,
        BitTest::Set => value | bit,
        BitTest::Reset => value & !bit,
        BitTest::Complement => value ^ bit,
    };
    (result, value >> number & 1)
}

fn compute(state: &mut State, kind: Bits, b: u64, c: u64, bytes: u8) -> Option<u64> {
    let bits = 8 * u32::from(bytes);
    let zero = |value: u64| if value == 0 { ZF } else { 0 };
    let zero_sign = |value: u64| flags::of_result(value, bytes) & (ZF | SF);
    let result = match kind {
        Bits::ScanForward | Bits::ScanReverse => {
            state.put_flags(ZF, zero(b), CF | OF | SF | AF | PF);
            if b == 0 {
                // Undefined by Intel, unchanged by AMD and in practice.
                return None;
            }
            u64::from(if kind == Bits::ScanForward { b.trailing_zeros() } else { 63 - b.leading_zeros() })
        }
        Bits::TrailingZeros | Bits::LeadingZeros => {
            let count = if kind == Bits::TrailingZeros {
                b.trailing_zeros().min(bits)
            } else {
                b.leading_zeros() - (64 - bits)
            };
            let carry = u64::from(b == 0);
            state.put_flags(CF | ZF, carry | zero(u64::from(count)), OF | SF | AF | PF);
            u64::from(count)
        }
        Bits::Population => {
            state.put_flags(flags::STATUS, zero(b), 0);
            u64::from(b.count_ones())
        }
        Bits::AndNot => {
            let result = !b & c;
            state.put_flags(CF | OF | ZF | SF, zero_sign(result), AF | PF);
            result
        }
        Bits::Extract => {
            let (start, length) = (c as u32 & 0xff, c as u32 >> 8 & 0xff);
            let shifted = if start >= bits { 0 } else { b >> start };
            let result = shifted & crate::state::low_bits(length as usize);
            state.put_flags(CF | OF | ZF, zero(result), AF | SF | PF);
            result
        }
        Bits::LowestSet => {
            let result = b & b.wrapping_neg();
            state.put_flags(CF | OF | ZF | SF, zero_sign(result) | u64::from(b != 0), AF | PF);
            result
        }
        Bits::MaskToLowestSet => {
            let result = (b ^ b.wrapping_sub(1)) & ones(bytes);
            state.put_flags(CF | OF | ZF | SF, (zero_sign(result) & SF) | u64::from(b == 0), AF | PF);
            result
        }
        Bits::ResetLowestSet => {
            let result = b & b.wrapping_sub(1);
            state.put_flags(CF | OF | ZF | SF, zero_sign(result) | u64::from(b == 0), AF | PF);
            result
        }
        Bits::ZeroHigh => {
            let from = c as u32 & 0xff;
            let result = if from >= bits { b } else { b & crate::state::low_bits(from as usize) };
            state.put_flags(CF | OF | ZF | SF, zero_sign(result) | u64::from(from >= bits), AF | PF);
            result
        }
        Bits::Deposit => {
            let (mut result, mut mask, mut at) = (0, c, 0);
            while mask != 0 {
                result |= (b >> at & 1) << mask.trailing_zeros();
                mask &= mask - 1;
                at += 1;
            }
            result
        }
        Bits::Gather => {
            let (mut result, mut mask, mut at) = (0, c, 0);
            while mask != 0 {
                result |= (b >> mask.trailing_zeros() & 1) << at;
                mask &= mask - 1;
                at += 1;
            }
            result
        }
    };
    Some(result)
}
