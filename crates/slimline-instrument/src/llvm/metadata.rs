//! Metadata: debug information and type-based aliasing.

use slimline_trace::path_text::text_of_bytes;
use std::borrow::Cow;
use std::ffi::{OsStr, c_uint};
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr::null_mut;

use super::module::taken;
use super::{Module, Value, api, bytes_at, text};

/// What a node of metadata describes, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetadataKind {
    /// A text.
    Text,
    /// A value of the program, constant or not.
    Value,
    /// A list without a meaning of its own.
    Tuple,
    /// A position in the source.
    Location,
    /// A variable of the module and how it is found.
    GlobalVariableExpression,
    /// A number's type.
    BasicType,
    /// A type made of another: pointers, typedefs, members.
    DerivedType,
    /// Structures, unions, classes, arrays, enumerations.
    CompositeType,
    /// A function.
    Subprogram,
    /// A variable of a function.
    LocalVariable,
    /// Another node.
    Other,
    /// Not a node: it has no operands.
    Leaf,
}

/// A node of metadata or a leaf.
#[derive(Clone, Copy)]
pub struct Metadata<'m> {
    pub(super) module: &'m Module<'m>,
    pub(super) raw: api::Metadata,
}

impl PartialEq for Metadata<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}
impl Eq for Metadata<'_> {}
impl Hash for Metadata<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw.hash(state);
    }
}

/// A kind of text getter: a node and where the length goes.
type TextOf<Length> = unsafe extern "C" fn(api::Metadata, *mut Length) -> *const std::ffi::c_char;

impl<'m> Metadata<'m> {
    pub(super) fn some(module: &'m Module<'_>, raw: api::Metadata) -> Option<Self> {
        (!raw.is_null()).then_some(Self { module, raw })
    }

    pub(super) fn number(self) -> i32 {
        // SAFETY: any metadata.
        unsafe { (self.module.api().LLVMGetMetadataKind)(self.raw) }
    }

    /// What it is.
    pub fn kind(self) -> MetadataKind {
        match self.number() {
            0 => MetadataKind::Text,
            1 | 2 => MetadataKind::Value,
            4 => MetadataKind::Tuple,
            5 => MetadataKind::Location,
            7 => MetadataKind::GlobalVariableExpression,
            11 => MetadataKind::BasicType,
            12 => MetadataKind::DerivedType,
            13 => MetadataKind::CompositeType,
            17 => MetadataKind::Subprogram,
            25 => MetadataKind::LocalVariable,
            6 | 8..=33 => MetadataKind::Other,
            // A list of arguments (34) is none: asking it for operands would crash. So may be what comes after.
            _ => MetadataKind::Leaf,
        }
    }

    fn is_type(self) -> bool {
        // Basic, derived, composite and subroutine types, strings' too.
        matches!(self.number(), 11..=14 | 32)
    }

    fn as_value(self) -> api::Value {
        // SAFETY: any metadata of this context.
        unsafe { (self.module.api().LLVMMetadataAsValue)(self.module.context, self.raw) }
    }

    /// What it refers to, as values: constants as such, all else wrapped. Of a [`MetadataKind::Value`] that value.
    pub fn operands(self) -> Vec<Option<Value<'m>>> {
        if matches!(self.kind(), MetadataKind::Leaf | MetadataKind::Text) {
            return Vec::new();
        }
        let api = self.module.api();
        let wrapped = self.as_value();
        // SAFETY: a node or a value, and as many places to write to as it says that it has operands.
        let operands = unsafe {
            let mut operands = vec![null_mut(); (api.LLVMGetMDNodeNumOperands)(wrapped) as usize];
            (api.LLVMGetMDNodeOperands)(wrapped, operands.as_mut_ptr());
            operands
        };
        operands.into_iter().map(|raw| Value::some(self.module, raw)).collect()
    }

    /// What its operand of this number is.
    pub fn operand(self, number: usize) -> Option<Self> {
        self.operands().get(number).copied().flatten().map(Value::as_metadata)
    }

    /// The text of its operand of this number.
    pub fn operand_text(self, number: usize) -> Cow<'m, str> {
        self.operand(number).map(Self::text).unwrap_or_default()
    }

    /// The text that it is.
    pub fn text(self) -> Cow<'m, str> {
        let mut bytes = 0;
        if self.kind() != MetadataKind::Text {
            return Cow::Borrowed("");
        }
        // SAFETY: a text, which lives as long as the context.
        unsafe { text((self.module.api().LLVMGetMDString)(self.as_value(), &mut bytes), bytes as usize) }
    }

    /// The tag of a node of debug information, as DWARF numbers them.
    pub fn tag(self) -> Option<u16> {
        // SAFETY: nodes of debug information have one, all but macros.
        matches!(self.number(), 8..=28 | 31..=33).then(|| unsafe { (self.module.api().LLVMGetDINodeTag)(self.raw) })
    }

    /// The name of a type.
    pub fn type_name(self) -> Cow<'m, str> {
        let mut bytes = 0;
        if !self.is_type() {
            return Cow::Borrowed("");
        }
        // SAFETY: a type; its name lives as long as the context.
        unsafe { text((self.module.api().LLVMDITypeGetName)(self.raw, &mut bytes), bytes) }
    }

    /// Bits that a type takes.
    pub fn size_bits(self) -> u64 {
        // SAFETY: a type.
        if self.is_type() { unsafe { (self.module.api().LLVMDITypeGetSizeInBits)(self.raw) } } else { 0 }
    }

    /// Bits from the beginning of its structure to a member.
    pub fn offset_bits(self) -> u64 {
        // SAFETY: a type, which members are.
        if self.is_type() { unsafe { (self.module.api().LLVMDITypeGetOffsetInBits)(self.raw) } } else { 0 }
    }

    /// The line that declares a type; 0 where it is not known.
    pub fn type_line(self) -> u32 {
        // SAFETY: a type.
        if self.is_type() { unsafe { (self.module.api().LLVMDITypeGetLine)(self.raw) } } else { 0 }
    }

    /// Whether it is a member of the class and not of its objects.
    pub fn is_static_member(self) -> bool {
        const STATIC: i32 = 1 << 12;
        // SAFETY: a type.
        self.is_type() && unsafe { (self.module.api().LLVMDITypeGetFlags)(self.raw) } & STATIC != 0
    }

    /// Whether it is a member of some bits.
    pub fn is_bit_field(self) -> bool {
        const BIT_FIELD: i32 = 1 << 19;
        // SAFETY: a type.
        self.is_type() && unsafe { (self.module.api().LLVMDITypeGetFlags)(self.raw) } & BIT_FIELD != 0
    }

    /// Whether it is a base whose place in an object the object itself tells.
    pub fn is_virtual_base(self) -> bool {
        const VIRTUAL: i32 = 1 << 5;
        // SAFETY: a type.
        self.is_type() && unsafe { (self.module.api().LLVMDITypeGetFlags)(self.raw) } & VIRTUAL != 0
    }

    /// Whether the optimizer has changed what a function of this type takes or returns, so that debuggers do not call it.
    pub fn is_no_call_type(self) -> bool {
        const SUBROUTINE_TYPE: i32 = 14;
        if self.number() != SUBROUTINE_TYPE {
            return false;
        }
        self.written().contains("(cc: DW_CC_nocall,")
    }

    /// Of an expression that says how a variable is found: the first of its bits that are found so, where it is of some only.
    pub fn fragment_offset_bits(self) -> u64 {
        let written = self.written();
        let offset = written.split_once("DW_OP_LLVM_fragment, ").and_then(|(_, rest)| rest.split(',').next());
        offset.and_then(|offset| offset.parse().ok()).unwrap_or(0)
    }

    /// As LLVM writes it, for what the C API has no function to ask for.
    fn written(self) -> String {
        let api = self.module.api();
        // SAFETY: a value; the text is ours to dispose of.
        taken(api, unsafe { (api.LLVMPrintValueToString)(self.as_value()) })
    }

    fn is_location(self) -> bool {
        self.kind() == MetadataKind::Location
    }

    /// Line and column of a position.
    pub fn line_and_column(self) -> Option<(u32, u32)> {
        let api = self.module.api();
        // SAFETY: a position.
        self.is_location()
            .then(|| unsafe { ((api.LLVMDILocationGetLine)(self.raw), (api.LLVMDILocationGetColumn)(self.raw)) })
    }

    /// The line that declares a variable of a function.
    pub fn declared_in_line(self) -> Option<u32> {
        // SAFETY: a variable.
        (self.kind() == MetadataKind::LocalVariable)
            .then(|| unsafe { (self.module.api().LLVMDIVariableGetLine)(self.raw) })
    }

    /// What a position lies in.
    pub fn scope(self) -> Option<Self> {
        if !self.is_location() {
            return None;
        }
        // SAFETY: a position.
        Self::some(self.module, unsafe { (self.module.api().LLVMDILocationGetScope)(self.raw) })
    }

    /// The call of the function of a position that was inlined.
    pub fn inlined_at(self) -> Option<Self> {
        if !self.is_location() {
            return None;
        }
        // SAFETY: a position.
        Self::some(self.module, unsafe { (self.module.api().LLVMDILocationGetInlinedAt)(self.raw) })
    }

    /// Directory and name of the file of a structure, or of a function or a block of its source: their texts
    /// ([`path_text`](slimline_trace::path_text)).
    pub fn file(self) -> Option<(Cow<'m, str>, Cow<'m, str>)> {
        // Structures, and files, units, functions, blocks and namespaces.
        if !matches!(self.number(), 13 | 15..=20) {
            return None;
        }
        let api = self.module.api();
        // SAFETY: a scope.
        let file = Self::some(self.module, unsafe { (api.LLVMDIScopeGetFile)(self.raw) })?;
        let part = |get: TextOf<c_uint>| {
            let mut bytes = 0;
            // SAFETY: a file; its texts live as long as the context.
            text_of_bytes(unsafe { bytes_at(get(file.raw, &mut bytes), bytes as usize) })
        };
        Some((part(api.LLVMDIFileGetDirectory), part(api.LLVMDIFileGetFilename)))
    }
}

/// A variable that debug information tells of at an instruction.
pub struct ToldVariable<'m> {
    /// The value, or the place of it.
    pub value: Value<'m>,
    /// The variable.
    pub variable: Metadata<'m>,
    /// Whether `value` is the place where the variable lies.
    pub is_place: bool,
    /// Where in the variable it is, of a variable that is kept in several values.
    pub offset_bytes: u64,
}

impl<'m> Module<'m> {
    /// Has debug information tell of a file that it calls `name` as `instead`, where it is the file of a unit of its own.
    pub fn rename_file(&self, name: &OsStr, instead: &OsStr) {
        let api = self.api();
        for unit in self.named_metadata(c"llvm.dbg.cu") {
            // SAFETY: what that list holds are units, which are scopes.
            let file = Metadata::some(self, unsafe { (api.LLVMDIScopeGetFile)(unit.raw) });
            let Some(file) = file else { continue };
            let texts = file.operands();
            let is_name = |number: &usize| file.operand_text(*number) == name.to_string_lossy();
            let Some(number) = (0..texts.len()).find(is_name) else { continue };
            let instead = instead.as_bytes();
            // SAFETY: a node with that operand, and a text with its length. Where there is such a file already LLVM keeps both.
            unsafe {
                let text = (api.LLVMMDStringInContext2)(self.context, instead.as_ptr().cast(), instead.len());
                (api.LLVMReplaceMDNodeOperandWith)(file.as_value(), number as u32, text);
            }
        }
    }

    /// The expression of these operations: LLVM keeps each once, so handles can be compared.
    pub fn expression(&self, operations: &[u64]) -> Option<Metadata<'_>> {
        let mut operations = operations.to_vec();
        // SAFETY: a builder and a list with its length; expressions belong to the context and outlive the builder.
        let raw = self.with_debug_builder(|builder| unsafe {
            (self.api().LLVMDIBuilderCreateExpression)(builder, operations.as_mut_ptr(), operations.len())
        });
        Metadata::some(self, raw)
    }

    /// The number of the operand of a derived type that is the type it is made of. It differs between versions, so one is
    /// made and looked at.
    pub fn base_type_operand(&self) -> Option<usize> {
        const CONST: u32 = 0x26;
        // SAFETY: a builder, a name with its length, and a type that it has just made.
        let made = self.with_debug_builder(|builder| unsafe {
            let api = self.api();
            let number = (api.LLVMDIBuilderCreateBasicType)(builder, c"x".as_ptr(), 1, 32, 5, 0);
            [number, (api.LLVMDIBuilderCreateQualifiedType)(builder, CONST, number)]
        });
        let [number, constant] = made.map(|raw| Metadata::some(self, raw));
        constant?.operands().iter().position(|operand| operand.map(Value::as_metadata) == number)
    }

    /// What debug information tells of variables at this instruction: by a call that it is, or by records before it.
    pub fn told_variables<'a>(
        &'a self,
        instruction: Value<'a>,
        expressions: &Expressions<'a>,
    ) -> Vec<ToldVariable<'a>> {
        let mut told = self.told_by_records(instruction, expressions);
        let callee = instruction.called().map(Value::name).unwrap_or_default();
        let wrapped = |number| instruction.operand(number).map(Value::as_metadata);
        // The address of an assigned variable has an expression of its own.
        let (place, variable, expression) = match &*callee {
            "llvm.dbg.value" => (0, 1, 2),
            "llvm.dbg.declare" => (0, 1, 2),
            "llvm.dbg.assign" => (4, 1, 5),
            _ => return told,
        };
        let is_declared = &*callee != "llvm.dbg.value";
        if let (Some(place), Some(variable), Some(expression)) =
            (wrapped(place), wrapped(variable), wrapped(expression))
            && place.kind() == MetadataKind::Value
            && let Some(&Some(value)) = place.operands().first()
            && let Some((is_place, offset_bytes)) = expressions.place(expression, is_declared)
        {
            told.push(ToldVariable { value, variable, is_place, offset_bytes });
        }
        told
    }

    fn told_by_records<'a>(&'a self, instruction: Value<'a>, expressions: &Expressions<'a>) -> Vec<ToldVariable<'a>> {
        const DECLARE: i32 = 1;
        const VALUE: i32 = 2;
        let api = self.api();
        let mut told = Vec::new();
        let (Some(first), Some(next), Some(kind_of)) =
            (api.LLVMGetFirstDbgRecord, api.LLVMGetNextDbgRecord, api.LLVMDbgRecordGetKind)
        else {
            return told;
        };
        let (Some(value), Some(variable), Some(expression)) = (
            api.LLVMDbgVariableRecordGetValue,
            api.LLVMDbgVariableRecordGetVariable,
            api.LLVMDbgVariableRecordGetExpression,
        ) else {
            return told;
        };
        if instruction.opcode().is_none() {
            return told;
        }
        // SAFETY: an instruction; the list ends in null. Records of these two kinds are of variables, and the first value
        // of one is null where there is none.
        unsafe {
            let mut record = first(instruction.raw);
            while !record.is_null() {
                let kind = kind_of(record);
                if kind == DECLARE || kind == VALUE {
                    let value = Value::some(self, value(record, 0));
                    let variable = Metadata::some(self, variable(record));
                    let expression = Metadata::some(self, expression(record));
                    if let (Some(value), Some(variable), Some(expression)) = (value, variable, expression)
                        && let Some((is_place, offset_bytes)) = expressions.place(expression, kind == DECLARE)
                    {
                        told.push(ToldVariable { value, variable, is_place, offset_bytes });
                    }
                }
                record = next(record);
            }
        }
        told
    }
}

/// The expressions of debug information that are understood.
pub struct Expressions<'m> {
    /// The value as it is.
    plain: Option<Metadata<'m>>,
    /// What lies there.
    behind: Option<Metadata<'m>>,
    /// The words of a variable that is kept in several values.
    words: Vec<Option<Metadata<'m>>>,
}

impl<'m> Expressions<'m> {
    /// Those of this module, with those of parts of variables if they are wanted.
    pub fn new(module: &'m Module<'_>, has_parts: bool) -> Self {
        const DEREFERENCE: u64 = 0x06;
        const FRAGMENT: u64 = 0x1000;
        const WORD_BITS: u64 = 64;
        /// Larger variables are in memory.
        const WORDS: u64 = 8;
        let word = |word| module.expression(&[FRAGMENT, word * WORD_BITS, WORD_BITS]);
        Self {
            plain: module.expression(&[]),
            behind: module.expression(&[DEREFERENCE]),
            words: (0..if has_parts { WORDS } else { 0 }).map(word).collect(),
        }
    }

    /// Whether a value with this expression is the place of its variable, and which part of the variable it is; none where it is
    /// more complicated.
    fn place(&self, expression: Metadata<'m>, is_declared: bool) -> Option<(bool, u64)> {
        const WORD_BYTES: u64 = 8;
        if Some(expression) == self.plain {
            Some((is_declared, 0))
        } else if Some(expression) == self.behind && !is_declared {
            Some((true, 0))
        } else {
            let word = self.words.iter().position(|word| *word == Some(expression)).filter(|_| !is_declared)?;
            Some((false, word as u64 * WORD_BYTES))
        }
    }
}
