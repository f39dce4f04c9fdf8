//! Which memory an instruction accesses.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, MemorySize, Mnemonic,
    OpAccess, OpKind,
};
use slimline_trace::stream::record::{SiteKind, ValueKind};

/// What an instruction does to memory, as far as translators tell: all that it loads, and all that it stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Bytes of a load; of several the largest.
    pub load: Option<u32>,
    /// Of a store.
    pub store: Option<u32>,
    /// It loads and stores the same at once.
    pub is_atomic: bool,
    /// It loads an address and goes on there.
    pub is_return: bool,
    /// It stores where the next instruction is, and goes on elsewhere.
    pub is_call: bool,
}

/// Accesses that not all translators tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// Of numbers of x87 that no other register holds: 80 bits.
    Number = 0,
    /// Of what is saved and restored of the processor's state.
    State = 1,
}

impl Extended {
    /// Both, in order.
    pub const ALL: [Self; 2] = [Self::Number, Self::State];
}

/// Finds that out.
#[derive(Debug)]
pub struct Analyst(InstructionInfoFactory);

impl Default for Analyst {
    fn default() -> Self {
        Self(InstructionInfoFactory::new())
    }
}

impl Analyst {
    /// The instruction that these bytes begin with, of a program that has it at `address`; none where they begin with none that is whole.
    pub fn decode(&mut self, bytes: &[u8], address: u64) -> Option<Code<'_>> {
        let mut instruction = Instruction::default();
        Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode_out(&mut instruction);
        if instruction.code() == iced_x86::Code::INVALID {
            return None;
        }
        let info = self.0.info(&instruction);
        Some(Code { instruction, info })
    }
}

/// An instruction, and what of registers and memory it uses.
#[derive(Debug)]
pub struct Code<'i> {
    pub(crate) instruction: Instruction,
    pub(crate) info: &'i InstructionInfo,
}

impl Code<'_> {
    /// What it accesses.
    pub fn accesses(&self) -> Accesses {
        let mut accesses = Accesses::default();
        for memory in self.info.used_memory() {
            // What has no size of its own (`xsave`) comes in words.
            let bytes = match memory.memory_size().size() {
                0 => 8,
                bytes => bytes as u32,
            };
            let (loads, stores) = match memory.access() {
                OpAccess::Read | OpAccess::CondRead => (true, false),
                OpAccess::Write | OpAccess::CondWrite => (false, true),
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
                OpAccess::None | OpAccess::NoMemAccess => (false, false),
            };
            if loads {
                accesses.load = accesses.load.max(Some(bytes));
            }
            if stores {
                accesses.store = accesses.store.max(Some(bytes));
            }
        }
        let is_both = accesses.load.is_some() && accesses.store.is_some();
        // `xchg` with memory locks by itself.
        let locks = self.instruction.has_lock_prefix() || self.instruction.mnemonic() == Mnemonic::Xchg;
        accesses.is_atomic = is_both && locks;
        let flow = self.instruction.flow_control();
        accesses.is_return = flow == FlowControl::Return;
        accesses.is_call = matches!(flow, FlowControl::Call | FlowControl::IndirectCall) && accesses.store.is_some();
        accesses
    }

    /// Whether its accesses are of those that not all translators tell.
    pub fn extended(&self) -> Option<Extended> {
        match self.instruction.memory_size() {
            MemorySize::Float80 | MemorySize::Bcd => Some(Extended::Number),
            MemorySize::FpuEnv14 | MemorySize::FpuEnv28 | MemorySize::FpuState94 | MemorySize::FpuState108 => {
                Some(Extended::State)
            }
            MemorySize::Fxsave_512Byte | MemorySize::Fxsave64_512Byte | MemorySize::Xsave | MemorySize::Xsave64 => {
                Some(Extended::State)
            }
            _ => None,
        }
    }

    /// What the value is that an access of this kind and size loads or stores, as far as the instruction tells. None of what is no scalar,
    /// of updates, of strings (`memcpy` has no values either), and of what goes to the stack by itself: saved registers and return
    /// addresses. Nor of `movbe`, which turns the bytes of memory round.
    pub fn value(&self, kind: SiteKind, bytes: u32) -> Option<ValueKind> {
        let instruction = &self.instruction;
        // Operands of strings, and the stack of `push`, are memory of other kinds.
        let operand = (0..instruction.op_count()).find(|&operand| instruction.op_kind(operand) == OpKind::Memory)?;
        let is_it = match self.info.op_access(operand) {
            OpAccess::Read | OpAccess::CondRead => kind == SiteKind::Load,
            OpAccess::Write | OpAccess::CondWrite => kind == SiteKind::Store,
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => matches!(kind, SiteKind::Load | SiteKind::Store),
            OpAccess::None | OpAccess::NoMemAccess => false,
        };
        let size = instruction.memory_size();
        if !is_it || size.size() != bytes as usize || instruction.is_vsib() || instruction.mnemonic() == Mnemonic::Movbe
        {
            return None;
        }
        match size {
            MemorySize::Float32 | MemorySize::Float64 => Some(ValueKind::Float),
            MemorySize::QwordOffset => Some(ValueKind::Pointer),
            MemorySize::UInt8 | MemorySize::UInt16 | MemorySize::UInt32 | MemorySize::UInt64 => {
                Some(ValueKind::Integer)
            }
            MemorySize::Int8 | MemorySize::Int16 | MemorySize::Int32 | MemorySize::Int64 => Some(ValueKind::Integer),
            _ => None,
        }
    }
}

impl Accesses {
    /// Each with its kind and its bytes: a load and a store, or an update.
    pub fn each(self) -> impl Iterator<Item = (SiteKind, u32)> {
        let load = self.load.filter(|_| !self.is_atomic).map(|bytes| (SiteKind::Load, bytes));
        let kind = if self.is_atomic { SiteKind::Update } else { SiteKind::Store };
        load.into_iter().chain(self.store.map(|bytes| (kind, bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_instructions_access() {
        use SiteKind::{Load, Store, Update};
        type Case = (&'static [u8], &'static [(SiteKind, u32)]);
        let cases: [Case; 14] = [
            (&[0x8b, 0x07], &[(Load, 4)]),                   // mov eax, [rdi]
            (&[0x48, 0x89, 0x07], &[(Store, 8)]),            // mov [rdi], rax
            (&[0x01, 0x07], &[(Load, 4), (Store, 4)]),       // add [rdi], eax
            (&[0xf0, 0x01, 0x07], &[(Update, 4)]),           // lock add [rdi], eax
            (&[0x87, 0x07], &[(Update, 4)]),                 // xchg [rdi], eax
            (&[0x50], &[(Store, 8)]),                        // push rax
            (&[0xc3], &[(Load, 8)]),                         // ret
            (&[0xe8, 0, 0, 0, 0], &[(Store, 8)]),            // call
            (&[0xff, 0x17], &[(Load, 8), (Store, 8)]),       // call [rdi]
            (&[0x0f, 0x28, 0x07], &[(Load, 16)]),            // movaps xmm0, [rdi]
            (&[0xc5, 0xfc, 0x11, 0x07], &[(Store, 32)]),     // vmovups [rdi], ymm0
            (&[0xf3, 0x48, 0xa5], &[(Load, 8), (Store, 8)]), // rep movsq
            (&[0x48, 0x8d, 0x07], &[]),                      // lea rax, [rdi]
            (&[0x0f, 0x18, 0x0f], &[]),                      // prefetcht0 [rdi]
        ];
        let mut analyst = Analyst::default();
        for (bytes, expected) in cases {
            let found: Vec<_> = analyst.decode(bytes, 0).unwrap().accesses().each().collect();
            assert_eq!(found, expected, "{bytes:02x?}");
        }
        assert!(analyst.decode(&[0x48, 0x8b], 0).is_none(), "cut off at the end of a page");
    }

    #[test]
    fn what_not_all_translators_tell() {
        let mut analyst = Analyst::default();
        for (bytes, expected) in [
            (&[0xdb, 0x2f][..], Some(Extended::Number)),  // fld tbyte [rdi]
            (&[0xdb, 0x3f], Some(Extended::Number)),      // fstp tbyte [rdi]
            (&[0xdf, 0x37], Some(Extended::Number)),      // fbstp [rdi]
            (&[0xd9, 0x27], Some(Extended::State)),       // fldenv [rdi]
            (&[0x0f, 0xae, 0x07], Some(Extended::State)), // fxsave [rdi]
            (&[0x0f, 0xc7, 0x27], Some(Extended::State)), // xsavec [rdi]
            (&[0xdd, 0x07], None),                        // fld qword [rdi]
            (&[0xd9, 0x3f], None),                        // fnstcw [rdi]
            (&[0xd9, 0xc9], None),                        // fxch
        ] {
            assert_eq!(analyst.decode(bytes, 0).unwrap().extended(), expected, "{bytes:02x?}");
        }
    }

    #[test]
    fn what_values_are() {
        use SiteKind::{Load, Store, Update};
        use ValueKind::{Float, Integer, Pointer};
        type Case = (&'static [u8], &'static [(SiteKind, Option<ValueKind>)]);
        let cases: [Case; 18] = [
            (&[0x8b, 0x07], &[(Load, Some(Integer))]),              // mov eax, [rdi]
            (&[0x48, 0x0f, 0xbe, 0x07], &[(Load, Some(Integer))]),  // movsx rax, byte [rdi]
            (&[0x66, 0xc7, 0x07, 1, 0], &[(Store, Some(Integer))]), // mov word [rdi], 1
            (&[0xf2, 0x0f, 0x10, 0x07], &[(Load, Some(Float))]),    // movsd xmm0, [rdi]
            (&[0xf3, 0x0f, 0x11, 0x07], &[(Store, Some(Float))]),   // movss [rdi], xmm0
            (&[0xf2, 0x0f, 0x58, 0x07], &[(Load, Some(Float))]),    // addsd xmm0, [rdi]
            (&[0xdd, 0x07], &[(Load, Some(Float))]),                // fld qword [rdi]
            (&[0xdb, 0x2f], &[(Load, None)]),                       // fld tbyte [rdi]
            (&[0x0f, 0x28, 0x07], &[(Load, None)]),                 // movaps xmm0, [rdi]
            (&[0x0f, 0x12, 0x07], &[(Load, None)]),                 // movlps xmm0, [rdi]
            (&[0x01, 0x07], &[(Load, Some(Integer)), (Store, Some(Integer))]), // add [rdi], eax
            (&[0xf0, 0x01, 0x07], &[(Update, None)]),               // lock add [rdi], eax
            (&[0xff, 0x37], &[(Load, Some(Integer)), (Store, None)]), // push [rdi]
            (&[0x8f, 0x07], &[(Load, None), (Store, Some(Integer))]), // pop [rdi]
            (&[0xff, 0x17], &[(Load, Some(Pointer)), (Store, None)]), // call [rdi]
            (&[0x50], &[(Store, None)]),                            // push rax
            (&[0xf3, 0x48, 0xa5], &[(Load, None), (Store, None)]),  // rep movsq
            (&[0x0f, 0x38, 0xf0, 0x07], &[(Load, None)]),           // movbe eax, [rdi]
        ];
        let mut analyst = Analyst::default();
        for (bytes, expected) in cases {
            let code = analyst.decode(bytes, 0).unwrap();
            let found: Vec<_> = code.accesses().each().map(|(kind, bytes)| (kind, code.value(kind, bytes))).collect();
            assert_eq!(found, expected, "{bytes:02x?}");
        }
    }
}
