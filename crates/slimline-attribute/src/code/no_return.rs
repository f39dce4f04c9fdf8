//! Calls that do not come back: after them the code goes on with something else.

use std::cell::RefCell;

use iced_x86::{FlowControl, Instruction};
use rustc_hash::FxHashMap;
use slimline_trace::address::Svma;

use super::flow::{decode, find};
use super::imports::{Target, target_of};
use crate::module::Module;

/// Functions of other modules that never return, as linked.
const IMPORTS: &[&str] = &[
    "abort",
    "exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "__assert_fail",
    "__assert_perror_fail",
    "__stack_chk_fail",
    "__fortify_fail",
    "__chk_fail",
    "__longjmp_chk",
    "longjmp",
    "_longjmp",
    "siglongjmp",
    "pthread_exit",
    "err",
    "errx",
    "verr",
    "verrx",
    "_Unwind_Resume",
    "__cxa_throw",
    "__cxa_rethrow",
    "__cxa_bad_cast",
    "__cxa_bad_typeid",
    "__cxa_throw_bad_array_new_length",
    "__cxa_pure_virtual",
    "_ZSt9terminatev",
    "_ZSt17__throw_bad_allocv",
    "_ZSt20__throw_length_errorPKc",
    "_ZSt19__throw_logic_errorPKc",
    "_ZSt20__throw_out_of_rangePKc",
    "_ZSt24__throw_out_of_range_fmtPKcz",
    "_ZSt25__throw_bad_function_callv",
    "_ZSt28__throw_bad_array_new_lengthv",
    "_ZSt24__throw_invalid_argumentPKc",
    "__libc_fatal",
    "g_assertion_message_expr",
];

/// Longer functions are taken to return.
const MAX_CODE_BYTES: u64 = 64 << 10;

/// Remembers which functions of which modules never return.
#[derive(Default)]
pub struct NoReturn {
    /// By name of the module's file and address.
    known: RefCell<FxHashMap<(String, u64), bool>>,
}

impl NoReturn {
    /// Whether a call instruction never returns.
    pub(super) fn is_so(&self, module: &Module<'_>, call: &Instruction) -> bool {
        let target = match target_of(module, call) {
            Target::Import(name) => return IMPORTS.contains(&name),
            Target::Here(target) if call.flow_control() == FlowControl::Call => target,
            _ => return false,
        };
        let key = (module.path().to_owned(), target.0);
        if let Some(&known) = self.known.borrow().get(&key) {
            return known;
        }
        let answer = never_returns(module, target);
        self.known.borrow_mut().insert(key, answer);
        answer
    }
}

/// A function that has no `ret` and never jumps out of itself can't return.
fn never_returns(module: &Module<'_>, target: Svma) -> bool {
    let Some(image) = module.image() else { return false };
    let code = image.bytes_from(target);
    let Some((start, end)) = module.function_bounds(target) else { return false };
    if start != target || end.0 - start.0 > MAX_CODE_BYTES {
        return false;
    }
    let bytes = (end.0 - start.0) as usize;
    let Some(code) = code.get(..bytes) else { return false };
    let instructions = decode(code, start);
    !instructions.iter().any(|instruction| match instruction.flow_control() {
        FlowControl::Return | FlowControl::IndirectBranch => true,
        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
            find(&instructions, instruction.near_branch_target()).is_none()
        }
        _ => instruction.is_invalid(),
    })
}
