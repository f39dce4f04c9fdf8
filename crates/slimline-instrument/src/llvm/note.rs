//! Records that are also written where the gate is closed, as long as anybody reads: of what is to be known whatever is traced.

use std::ffi::CStr;

use super::build::{INTEGER_EQUAL, INTERNAL};
use super::module::OF_FUNCTION;
use super::{Builder, Function, Gate, Stamp, TypeKind, Value};

/// When a note is written, provided that anybody reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Noted {
    /// Always.
    Always,
    /// Where the gate is closed.
    IfClosed,
    /// Where the function that writes it finds that it is to be, which is given this number.
    AsFound(u32),
}

/// A function that writes a record of some number of words.
#[derive(Clone, Copy)]
pub struct Note<'m>(Function<'m>);

impl<'m> Gate<'m> {
    /// The function that has `tell`, of another object, write records of `words` words. The second one is a time stamp of
    /// its own where there is `stamp`.
    ///
    /// ```text
    /// void note(i64 word, …) {
    ///     if (gate & nobody_reads) return;                 and where it is open, if so asked
    ///     i64 words[] = { word, … };
    ///     tell(words, count, number);                      0 where it is always to be written
    /// }
    /// ```
    pub fn add_note(
        self,
        tell: &CStr,
        nobody_reads: u8,
        words: usize,
        noted: Noted,
        stamp: Option<Stamp<'m>>,
    ) -> Note<'m> {
        let module = self.0.module;
        let api = module.api();
        // SAFETY: everything is of this module and of the types that the functions ask for; the builder is ours.
        let function = unsafe {
            let void = (api.LLVMVoidTypeInContext)(module.context);
            let mut taken = [module.pointer(), module.integer(64), module.integer(32)];
            let tell_type = (api.LLVMFunctionType)(void, taken.as_mut_ptr(), taken.len() as u32, 0);
            let known = (api.LLVMGetNamedFunction)(module.raw, tell.as_ptr());
            let told =
                if known.is_null() { (api.LLVMAddFunction)(module.raw, tell.as_ptr(), tell_type) } else { known };
            let given = words - usize::from(stamp.is_some());
            let mut parameters = vec![module.integer(64); given];
            let r#type = (api.LLVMFunctionType)(void, parameters.as_mut_ptr(), given as u32, 0);
            let function = (api.LLVMAddFunction)(module.raw, c"slimline.note".as_ptr(), r#type);
            (api.LLVMSetLinkage)(function, INTERNAL);
            for name in ["noinline", "nounwind"] {
                (api.LLVMAddAttributeAtIndex)(function, OF_FUNCTION, module.attribute(name));
            }
            let block = |name: &CStr| (api.LLVMAppendBasicBlockInContext)(module.context, function, name.as_ptr());
            let [entry, asks, tells, ends] = [c"entry", c"asks", c"tells", c"ends"].map(block);
            let builder = Builder { module, raw: (api.LLVMCreateBuilderInContext)(module.context) };
            let raw = builder.raw;
            (api.LLVMPositionBuilderAtEnd)(raw, entry);
            let byte = (api.LLVMBuildLoad2)(raw, module.integer(8), self.0.raw, c"".as_ptr());
            // Somebody else opens and closes it.
            (api.LLVMSetVolatile)(byte, 1);
            let zero = module.constant(8, 0);
            let unread = (api.LLVMBuildAnd)(raw, byte, module.constant(8, nobody_reads.into()), c"".as_ptr());
            let is_read = (api.LLVMBuildICmp)(raw, INTEGER_EQUAL, unread, zero, c"".as_ptr());
            (api.LLVMBuildCondBr)(raw, is_read, asks, ends);
            (api.LLVMPositionBuilderAtEnd)(raw, asks);
            if noted == Noted::IfClosed {
                let is_open = (api.LLVMBuildICmp)(raw, INTEGER_EQUAL, byte, zero, c"".as_ptr());
                (api.LLVMBuildCondBr)(raw, is_open, ends, tells);
            } else {
                (api.LLVMBuildBr)(raw, tells);
            }
            (api.LLVMPositionBuilderAtEnd)(raw, tells);
            let place =
                (api.LLVMBuildAlloca)(raw, (api.LLVMArrayType2)(module.integer(64), words as u64), c"".as_ptr());
            let mut given = (0..given as u32).map(|number| (api.LLVMGetParam)(function, number));
            for word in 0..words as u64 {
                let value = match stamp.filter(|_| word == 1) {
                    Some(stamp) => Some(builder.call_stamp(stamp).raw),
                    None => given.next(),
                };
                if let Some(value) = value {
                    let store = (api.LLVMBuildStore)(raw, value, module.further(raw, place, 8 * word));
                    (api.LLVMSetAlignment)(store, 8);
                }
            }
            let number = match noted {
                Noted::AsFound(number) => number,
                Noted::Always | Noted::IfClosed => 0,
            };
            let mut arguments = [place, module.constant(64, words as u64), module.constant(32, number.into())];
            let count = arguments.len() as u32;
            (api.LLVMBuildCall2)(raw, tell_type, told, arguments.as_mut_ptr(), count, c"".as_ptr());
            (api.LLVMBuildBr)(raw, ends);
            (api.LLVMPositionBuilderAtEnd)(raw, ends);
            (api.LLVMBuildRetVoid)(raw);
            function
        };
        Note(Function(Value::new(module, function)))
    }
}

impl<'m> Builder<'m> {
    /// Has these words written, pointers or 64-bit integers, but for a time stamp that the note gives itself. Words that it does not have
    /// are left out.
    pub fn call_note(&self, note: Note<'m>, words: &[Value<'m>]) {
        let module = self.module;
        let api = module.api();
        let function = note.0.0.raw;
        // SAFETY: the builder stands somewhere; as many arguments as the function takes, of the types that it takes.
        unsafe {
            let mut arguments = vec![module.constant(64, 0); (api.LLVMCountParams)(function) as usize];
            for (argument, word) in arguments.iter_mut().zip(words) {
                *argument = match word.r#type().kind() {
                    TypeKind::Pointer => (api.LLVMBuildPtrToInt)(self.raw, word.raw, module.integer(64), c"".as_ptr()),
                    _ => word.raw,
                };
            }
            let r#type = (api.LLVMGlobalGetValueType)(function);
            let count = arguments.len() as u32;
            (api.LLVMBuildCall2)(self.raw, r#type, function, arguments.as_mut_ptr(), count, c"".as_ptr());
        }
    }
}
