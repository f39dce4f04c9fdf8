//! The functions of the LLVM-C API that are used, looked up by name.
//!
//! Their signatures are those of `llvm-c/*.h`, which keeps them from version to version; what changes gets a new name.

use std::ffi::{c_char, c_int, c_uint};
use std::path::Path;

use libloading::Library;

use super::LlvmError;

/// Defines the opaque things that the API hands out pointers to.
macro_rules! opaque {
    ($($name:ident),+) => { $(#[repr(C)] pub(super) struct $name([u8; 0]);)+ };
}

opaque!(
    Context,
    ModuleRaw,
    ValueRaw,
    TypeRaw,
    BlockRaw,
    BuilderRaw,
    MetadataRaw,
    Buffer,
    TargetData,
    DiBuilder,
    AttributeRaw,
    DbgRecord,
    PassOptions,
    ErrorRaw,
    MetadataEntries,
    DiagnosticInfo,
    UseRaw,
    ComdatRaw,
    Target,
    TargetMachine
);

pub(super) type Value = *mut ValueRaw;
pub(super) type Type = *mut TypeRaw;
pub(super) type Block = *mut BlockRaw;
pub(super) type Metadata = *mut MetadataRaw;
pub(super) type Bool = c_int;
pub(super) type DiagnosticHandler = unsafe extern "C" fn(*mut DiagnosticInfo, *mut std::ffi::c_void);

/// Defines [`Api`] with one function pointer each; those under `optional` are missing where the library lacks them.
macro_rules! api {
    (
        required { $($name:ident($($argument:ty),*) $(-> $result:ty)?;)* }
        optional { $($may:ident($($may_argument:ty),*) $(-> $may_result:ty)?;)* }
    ) => {
        /// A loaded libLLVM. Its functions have the safety conditions that `llvm-c/*.h` states.
        #[expect(non_snake_case, reason = "as LLVM spells them")]
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $(pub(super) $may: Option<unsafe extern "C" fn($($may_argument),*) $(-> $may_result)?>,)*
            /// Keeps the library mapped. LLVM has global state that destructors of the process use: never unloaded.
            _library: std::mem::ManuallyDrop<Library>,
        }

        impl Api {
            /// Loads the library and finds every function.
            pub(super) fn load(path: &Path) -> Result<Self, LlvmError> {
                // SAFETY: libLLVM's constructors register options and passes and need nothing of their caller.
                let library = unsafe { Library::new(path) }
                    .map_err(|reason| LlvmError::Load { library: path.to_owned(), reason: reason.to_string() })?;
                Ok(Self {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the signature is the one of `llvm-c`, which does not change.
                        let symbol = unsafe { library.get(name.as_bytes()) };
                        *symbol.map_err(|_| LlvmError::Lacks { library: path.to_owned(), symbol: stringify!($name) })?
                    },)*
                    $($may: {
                        let name = concat!(stringify!($may), "\0");
                        // SAFETY: as above.
                        unsafe { library.get(name.as_bytes()) }.ok().map(|symbol| *symbol)
                    },)*
                    _library: std::mem::ManuallyDrop::new(library),
                })
            }
        }
    };
}

api! {
    required {
        LLVMGetVersion(*mut c_uint, *mut c_uint, *mut c_uint);
        LLVMContextCreate() -> *mut Context;
        LLVMContextDispose(*mut Context);
        LLVMContextSetDiagnosticHandler(*mut Context, Option<DiagnosticHandler>, *mut std::ffi::c_void);
        LLVMGetDiagInfoDescription(*mut DiagnosticInfo) -> *mut c_char;
        LLVMGetDiagInfoSeverity(*mut DiagnosticInfo) -> c_int;
        LLVMDisposeMessage(*mut c_char);
        LLVMPrintValueToString(Value) -> *mut c_char;
        LLVMCreateMemoryBufferWithContentsOfFile(*const c_char, *mut *mut Buffer, *mut *mut c_char) -> Bool;
        LLVMDisposeMemoryBuffer(*mut Buffer);
        LLVMParseBitcodeInContext2(*mut Context, *mut Buffer, *mut *mut ModuleRaw) -> Bool;
        LLVMWriteBitcodeToFile(*mut ModuleRaw, *const c_char) -> c_int;
        LLVMDisposeModule(*mut ModuleRaw);
        LLVMVerifyModule(*mut ModuleRaw, c_int, *mut *mut c_char) -> Bool;
        LLVMGetTarget(*mut ModuleRaw) -> *const c_char;
        LLVMGetModuleDataLayout(*mut ModuleRaw) -> *mut TargetData;
        LLVMAppendModuleInlineAsm(*mut ModuleRaw, *const c_char, usize);
        LLVMGetSourceFileName(*mut ModuleRaw, *mut usize) -> *const c_char;
        LLVMGetNamedGlobal(*mut ModuleRaw, *const c_char) -> Value;
        LLVMGetNamedFunction(*mut ModuleRaw, *const c_char) -> Value;
        LLVMAddGlobal(*mut ModuleRaw, Type, *const c_char) -> Value;
        LLVMDeleteGlobal(Value);
        LLVMDeleteFunction(Value);
        LLVMAddFunction(*mut ModuleRaw, *const c_char, Type) -> Value;
        LLVMGlobalGetValueType(Value) -> Type;
        LLVMIsFunctionVarArg(Type) -> Bool;
        LLVMHasPrefixData(Value) -> Bool;
        LLVMHasPrologueData(Value) -> Bool;
        LLVMGetComdat(Value) -> *mut ComdatRaw;
        LLVMSetComdat(Value, *mut ComdatRaw);
        LLVMGetVisibility(Value) -> c_int;
        LLVMSetVisibility(Value, c_int);
        LLVMGetUnnamedAddress(Value) -> c_int;
        LLVMSetUnnamedAddress(Value, c_int);
        LLVMGetSection(Value) -> *const c_char;
        LLVMGetAlignment(Value) -> c_uint;
        LLVMGetFirstFunction(*mut ModuleRaw) -> Value;
        LLVMGetNextFunction(Value) -> Value;
        LLVMGetFirstGlobalIFunc(*mut ModuleRaw) -> Value;
        LLVMGetNextGlobalIFunc(Value) -> Value;
        LLVMGetGlobalIFuncResolver(Value) -> Value;
        LLVMGetNamedMetadataNumOperands(*mut ModuleRaw, *const c_char) -> c_uint;
        LLVMGetNamedMetadataOperands(*mut ModuleRaw, *const c_char, *mut Value);
        LLVMSetInitializer(Value, Value);
        LLVMGetInitializer(Value) -> Value;
        LLVMSetGlobalConstant(Value, Bool);
        LLVMSetLinkage(Value, c_int);
        LLVMGetLinkage(Value) -> c_int;
        LLVMSetSection(Value, *const c_char);
        LLVMSetAlignment(Value, c_uint);
        LLVMSetThreadLocalMode(Value, c_int);
        LLVMSetFunctionCallConv(Value, c_uint);
        LLVMGetFunctionCallConv(Value) -> c_uint;
        LLVMSetInstructionCallConv(Value, c_uint);
        LLVMSetTailCallKind(Value, c_int);
        LLVMSetVolatile(Value, Bool);
        LLVMIsDeclaration(Value) -> Bool;
        LLVMCountParams(Value) -> c_uint;
        LLVMGetParam(Value, c_uint) -> Value;
        LLVMGetFirstBasicBlock(Value) -> Block;
        LLVMGetNextBasicBlock(Block) -> Block;
        LLVMAppendBasicBlockInContext(*mut Context, Value, *const c_char) -> Block;
        LLVMMoveBasicBlockBefore(Block, Block);
        LLVMBasicBlockAsValue(Block) -> Value;
        LLVMValueIsBasicBlock(Value) -> Bool;
        LLVMGetFirstInstruction(Block) -> Value;
        LLVMGetNextInstruction(Value) -> Value;
        LLVMGetBasicBlockParent(Block) -> Value;
        LLVMGetBasicBlockTerminator(Block) -> Value;
        LLVMGetNumSuccessors(Value) -> c_uint;
        LLVMGetSuccessor(Value, c_uint) -> Block;
        LLVMGetInstructionParent(Value) -> Block;
        LLVMGetNormalDest(Value) -> Block;
        LLVMSetNormalDest(Value, Block);
        LLVMGetUnwindDest(Value) -> Block;
        LLVMIsAInstruction(Value) -> Value;
        LLVMIsAConstantInt(Value) -> Value;
        LLVMIsAUndefValue(Value) -> Value;
        LLVMIsNull(Value) -> Bool;
        LLVMIsAConstantExpr(Value) -> Value;
        LLVMIsAGlobalVariable(Value) -> Value;
        LLVMIsAFunction(Value) -> Value;
        LLVMIsAInlineAsm(Value) -> Value;
        LLVMIsABlockAddress(Value) -> Value;
        LLVMGetInstructionOpcode(Value) -> c_int;
        LLVMGetConstOpcode(Value) -> c_int;
        LLVMConstIntGetSExtValue(Value) -> i64;
        LLVMGetNumOperands(Value) -> c_int;
        LLVMGetOperand(Value, c_uint) -> Value;
        LLVMSetOperand(Value, c_uint, Value);
        LLVMGetNumArgOperands(Value) -> c_uint;
        LLVMGetCalledValue(Value) -> Value;
        LLVMGetInlineAsmHasSideEffects(Value) -> Bool;
        LLVMGetInlineAsmAsmString(Value, *mut usize) -> *const c_char;
        LLVMGetTailCallKind(Value) -> c_int;
        LLVMGetVolatile(Value) -> Bool;
        LLVMGetOrdering(Value) -> c_int;
        LLVMGetCmpXchgSuccessOrdering(Value) -> c_int;
        LLVMCountIncoming(Value) -> c_uint;
        LLVMGetIncomingValue(Value, c_uint) -> Value;
        LLVMGetIncomingBlock(Value, c_uint) -> Block;
        LLVMAddIncoming(Value, *mut Value, *mut Block, c_uint);
        LLVMReplaceAllUsesWith(Value, Value);
        LLVMInstructionEraseFromParent(Value);
        LLVMGetGEPSourceElementType(Value) -> Type;
        LLVMGetValueName2(Value, *mut usize) -> *const c_char;
        LLVMSetValueName2(Value, *const c_char, usize);
        LLVMGetFirstUse(Value) -> *mut UseRaw;
        LLVMGetNextUse(*mut UseRaw) -> *mut UseRaw;
        LLVMGetUser(*mut UseRaw) -> Value;
        LLVMTypeOf(Value) -> Type;
        LLVMGetTypeKind(Type) -> c_int;
        LLVMGetElementType(Type) -> Type;
        LLVMGetVectorSize(Type) -> c_uint;
        LLVMGetIntTypeWidth(Type) -> c_uint;
        LLVMGetPointerAddressSpace(Type) -> c_uint;
        LLVMStructGetTypeAtIndex(Type, c_uint) -> Type;
        LLVMCountStructElementTypes(Type) -> c_uint;
        LLVMStoreSizeOfType(*mut TargetData, Type) -> u64;
        LLVMABISizeOfType(*mut TargetData, Type) -> u64;
        LLVMOffsetOfElement(*mut TargetData, Type, c_uint) -> u64;
        LLVMPointerTypeInContext(*mut Context, c_uint) -> Type;
        LLVMIntTypeInContext(*mut Context, c_uint) -> Type;
        LLVMVoidTypeInContext(*mut Context) -> Type;
        LLVMArrayType2(Type, u64) -> Type;
        LLVMFunctionType(Type, *mut Type, c_uint, Bool) -> Type;
        LLVMConstInt(Type, u64, Bool) -> Value;
        LLVMConstPointerNull(Type) -> Value;
        LLVMGetInlineAsm(Type, *const c_char, usize, *const c_char, usize, Bool, Bool, c_int, Bool) -> Value;
        LLVMGetPoison(Type) -> Value;
        LLVMConstStringInContext2(*mut Context, *const c_char, usize, Bool) -> Value;
        LLVMConstArray2(Type, *mut Value, u64) -> Value;
        LLVMGetEnumAttributeKindForName(*const c_char, usize) -> c_uint;
        LLVMCreateEnumAttribute(*mut Context, c_uint, u64) -> *mut AttributeRaw;
        LLVMAddAttributeAtIndex(Value, c_uint, *mut AttributeRaw);
        LLVMAddCallSiteAttribute(Value, c_uint, *mut AttributeRaw);
        LLVMGetAttributeCountAtIndex(Value, c_uint) -> c_uint;
        LLVMGetAttributesAtIndex(Value, c_uint, *mut *mut AttributeRaw);
        LLVMGetEnumAttributeAtIndex(Value, c_uint, c_uint) -> *mut AttributeRaw;
        LLVMRemoveEnumAttributeAtIndex(Value, c_uint, c_uint);
        LLVMGetCallSiteEnumAttribute(Value, c_uint, c_uint) -> *mut AttributeRaw;
        LLVMRemoveCallSiteEnumAttribute(Value, c_uint, c_uint);
        LLVMGetEnumAttributeValue(*mut AttributeRaw) -> u64;
        LLVMGetTypeAttributeValue(*mut AttributeRaw) -> Type;
        LLVMCreateBuilderInContext(*mut Context) -> *mut BuilderRaw;
        LLVMDisposeBuilder(*mut BuilderRaw);
        LLVMPositionBuilderBefore(*mut BuilderRaw, Value);
        LLVMPositionBuilderBeforeInstrAndDbgRecords(*mut BuilderRaw, Value);
        LLVMPositionBuilderAtEnd(*mut BuilderRaw, Block);
        LLVMSetCurrentDebugLocation2(*mut BuilderRaw, Metadata);
        LLVMBuildAlloca(*mut BuilderRaw, Type, *const c_char) -> Value;
        LLVMBuildLoad2(*mut BuilderRaw, Type, Value, *const c_char) -> Value;
        LLVMBuildStore(*mut BuilderRaw, Value, Value) -> Value;
        LLVMBuildInBoundsGEP2(*mut BuilderRaw, Type, Value, *mut Value, c_uint, *const c_char) -> Value;
        LLVMBuildCall2(*mut BuilderRaw, Type, Value, *mut Value, c_uint, *const c_char) -> Value;
        LLVMBuildPtrToInt(*mut BuilderRaw, Value, Type, *const c_char) -> Value;
        LLVMBuildNot(*mut BuilderRaw, Value, *const c_char) -> Value;
        LLVMBuildAdd(*mut BuilderRaw, Value, Value, *const c_char) -> Value;
        LLVMBuildAnd(*mut BuilderRaw, Value, Value, *const c_char) -> Value;
        LLVMBuildMul(*mut BuilderRaw, Value, Value, *const c_char) -> Value;
        LLVMBuildZExt(*mut BuilderRaw, Value, Type, *const c_char) -> Value;
        LLVMBuildTrunc(*mut BuilderRaw, Value, Type, *const c_char) -> Value;
        LLVMBuildBitCast(*mut BuilderRaw, Value, Type, *const c_char) -> Value;
        LLVMBuildExtractElement(*mut BuilderRaw, Value, Value, *const c_char) -> Value;
        LLVMBuildICmp(*mut BuilderRaw, c_int, Value, Value, *const c_char) -> Value;
        LLVMBuildSelect(*mut BuilderRaw, Value, Value, Value, *const c_char) -> Value;
        LLVMBuildPhi(*mut BuilderRaw, Type, *const c_char) -> Value;
        LLVMBuildBr(*mut BuilderRaw, Block) -> Value;
        LLVMBuildCondBr(*mut BuilderRaw, Value, Block, Block) -> Value;
        LLVMBuildRet(*mut BuilderRaw, Value) -> Value;
        LLVMBuildUnreachable(*mut BuilderRaw) -> Value;
        LLVMAddCase(Value, Value, Block);
        LLVMSetSuccessor(Value, c_uint, Block);
        LLVMBuildRetVoid(*mut BuilderRaw) -> Value;
        LLVMGetMDKindIDInContext(*mut Context, *const c_char, c_uint) -> c_uint;
        LLVMGetMetadata(Value, c_uint) -> Value;
        LLVMSetMetadata(Value, c_uint, Value);
        LLVMMDStringInContext2(*mut Context, *const c_char, usize) -> Metadata;
        LLVMMDNodeInContext2(*mut Context, *mut Metadata, usize) -> Metadata;
        LLVMMetadataAsValue(*mut Context, Metadata) -> Value;
        LLVMValueAsMetadata(Value) -> Metadata;
        LLVMGetMDNodeNumOperands(Value) -> c_uint;
        LLVMGetMDNodeOperands(Value, *mut Value);
        LLVMGetMDString(Value, *mut c_uint) -> *const c_char;
        LLVMGlobalSetMetadata(Value, c_uint, Metadata);
        LLVMGlobalCopyAllMetadata(Value, *mut usize) -> *mut MetadataEntries;
        LLVMValueMetadataEntriesGetKind(*mut MetadataEntries, c_uint) -> c_uint;
        LLVMValueMetadataEntriesGetMetadata(*mut MetadataEntries, c_uint) -> Metadata;
        LLVMDisposeValueMetadataEntries(*mut MetadataEntries);
        LLVMGetMetadataKind(Metadata) -> c_int;
        LLVMGetDINodeTag(Metadata) -> u16;
        LLVMDITypeGetName(Metadata, *mut usize) -> *const c_char;
        LLVMDITypeGetSizeInBits(Metadata) -> u64;
        LLVMDITypeGetOffsetInBits(Metadata) -> u64;
        LLVMDITypeGetLine(Metadata) -> c_uint;
        LLVMDITypeGetFlags(Metadata) -> c_int;
        LLVMDIScopeGetFile(Metadata) -> Metadata;
        LLVMDIFileGetFilename(Metadata, *mut c_uint) -> *const c_char;
        LLVMDIFileGetDirectory(Metadata, *mut c_uint) -> *const c_char;
        LLVMDILocationGetLine(Metadata) -> c_uint;
        LLVMDIVariableGetLine(Metadata) -> c_uint;
        LLVMDILocationGetColumn(Metadata) -> c_uint;
        LLVMDILocationGetScope(Metadata) -> Metadata;
        LLVMDILocationGetInlinedAt(Metadata) -> Metadata;
        LLVMInstructionGetDebugLoc(Value) -> Metadata;
        LLVMGetSubprogram(Value) -> Metadata;
        LLVMSetSubprogram(Value, Metadata);
        LLVMDISubprogramGetLine(Metadata) -> c_uint;
        LLVMReplaceMDNodeOperandWith(Value, c_uint, Metadata);
        LLVMCreateDIBuilder(*mut ModuleRaw) -> *mut DiBuilder;
        LLVMDisposeDIBuilder(*mut DiBuilder);
        LLVMDIBuilderCreateExpression(*mut DiBuilder, *mut u64, usize) -> Metadata;
        LLVMDIBuilderCreateBasicType(*mut DiBuilder, *const c_char, usize, u64, c_uint, c_int) -> Metadata;
        LLVMDIBuilderCreateQualifiedType(*mut DiBuilder, c_uint, Metadata) -> Metadata;
        LLVMDIBuilderCreateSubroutineType(*mut DiBuilder, Metadata, *mut Metadata, c_uint, c_int) -> Metadata;
        LLVMDIBuilderCreateFunction(*mut DiBuilder, Metadata, *const c_char, usize, *const c_char, usize, Metadata, c_uint, Metadata, Bool, Bool, c_uint, c_int, Bool) -> Metadata;
        LLVMDIBuilderCreateDebugLocation(*mut Context, c_uint, c_uint, Metadata, Metadata) -> Metadata;
        LLVMModuleCreateWithNameInContext(*const c_char, *mut Context) -> *mut ModuleRaw;
        LLVMCreatePassBuilderOptions() -> *mut PassOptions;
        LLVMDisposePassBuilderOptions(*mut PassOptions);
        LLVMRunPasses(*mut ModuleRaw, *const c_char, *mut TargetMachine, *mut PassOptions) -> *mut ErrorRaw;
        LLVMGetErrorMessage(*mut ErrorRaw) -> *mut c_char;
        LLVMDisposeErrorMessage(*mut c_char);
        LLVMCreateStringAttribute(*mut Context, *const c_char, c_uint, *const c_char, c_uint) -> *mut AttributeRaw;
        LLVMRemoveStringAttributeAtIndex(Value, c_uint, *const c_char, c_uint);
        LLVMGetStringAttributeAtIndex(Value, c_uint, *const c_char, c_uint) -> *mut AttributeRaw;
        LLVMGetStringAttributeValue(*mut AttributeRaw, *mut c_uint) -> *const c_char;
        LLVMInitializeX86TargetInfo();
        LLVMInitializeX86Target();
        LLVMInitializeX86TargetMC();
        LLVMInitializeX86AsmPrinter();
        LLVMInitializeX86AsmParser();
        LLVMGetTargetFromTriple(*const c_char, *mut *mut Target, *mut *mut c_char) -> Bool;
        LLVMCreateTargetMachine(*mut Target, *const c_char, *const c_char, *const c_char, c_int, c_int, c_int) -> *mut TargetMachine;
        LLVMDisposeTargetMachine(*mut TargetMachine);
        LLVMTargetMachineEmitToFile(*mut TargetMachine, *mut ModuleRaw, *const c_char, c_int, *mut *mut c_char) -> Bool;
    }
    optional {
        // From LLVM 18 on.
        LLVMGetIsDisjoint(Value) -> Bool;
        // Up to LLVM 20: variables are told by calls or by records, and this changes one into the other.
        LLVMSetIsNewDbgInfoFormat(*mut ModuleRaw, Bool);
        // From LLVM 22 on there are only records.
        LLVMGetFirstDbgRecord(Value) -> *mut DbgRecord;
        LLVMGetNextDbgRecord(*mut DbgRecord) -> *mut DbgRecord;
        LLVMDbgRecordGetKind(*mut DbgRecord) -> c_int;
        LLVMDbgVariableRecordGetValue(*mut DbgRecord, c_uint) -> Value;
        LLVMDbgVariableRecordGetVariable(*mut DbgRecord) -> Metadata;
        LLVMDbgVariableRecordGetExpression(*mut DbgRecord) -> Metadata;
    }
}
