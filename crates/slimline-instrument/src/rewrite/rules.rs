//! Which functions are instrumented, and which of them in a version of their own.

use super::own_allocators::OwnAllocators;
use super::touch::{Attributes, Deed};
use crate::llvm::{Function, Module, Value};

/// Functions that return a second time, whatever their declaration says.
const RETURN_TWICE: &[&str] =
    &["setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp", "savectx", "vfork", "getcontext"];

/// Functions that change to another stack, and return when somebody changes back.
const CHANGE_STACKS: &[&str] = &["swapcontext", "jump_fcontext", "ontop_fcontext", "co_switch"];

/// What has tracing begin again, as [`slimline.h`](crate::driver) calls it.
const START: &str = "__slimline_start";

/// Functions that the compiler calls by itself: where it does so, the cursor is in a register.
pub(crate) fn is_called_by_compiler(name: &str) -> bool {
    const MATH: &[&str] = &[
        "sqrt",
        "sin",
        "cos",
        "tan",
        "exp",
        "exp2",
        "exp10",
        "log",
        "log2",
        "log10",
        "pow",
        "fmin",
        "fmax",
        "floor",
        "ceil",
        "trunc",
        "rint",
        "nearbyint",
        "round",
        "roundeven",
        "lround",
        "llround",
        "lrint",
        "llrint",
        "fma",
        "fmod",
        "ldexp",
        "frexp",
        "copysign",
        "sincos",
    ];
    let of_memory = ["memcpy", "memmove", "memset", "memcmp", "bcmp", "bzero"].contains(&name);
    let stem = name.strip_suffix(['f', 'l']).unwrap_or(name);
    of_memory || MATH.contains(&name) || MATH.contains(&stem)
}

/// Whether functions may have been left without an end once a call of the function of this name returns: that returns twice, changes stacks, or
/// has tracing begin again.
pub(crate) fn may_have_left(name: &str) -> bool {
    RETURN_TWICE.contains(&name) || CHANGE_STACKS.contains(&name) || name == START
}

/// What can be said of functions without planning anything.
pub(super) struct Rules<'m> {
    pub(super) attributes: Attributes,
    returns_twice: u32,
    naked: u32,
    resolvers: Vec<Function<'m>>,
}

impl<'m> Rules<'m> {
    pub(super) fn new(module: &'m Module<'_>, own: &OwnAllocators) -> Self {
        Self {
            attributes: Attributes::new(module, own),
            returns_twice: module.attribute_kind("returns_twice"),
            naked: module.attribute_kind("naked"),
            resolvers: module.resolvers(),
        }
    }

    /// Whether a function is to have one version that is traced and one that is not. One is left to what can't be copied:
    /// what takes variable arguments or calls `setjmp`.
    pub(super) fn has_two_versions(&self, function: Function<'m>) -> bool {
        let name = function.value().name();
        if name.is_empty() || self.reason_to_skip(function, &name).is_some() || !function.can_be_inlined() {
            return false;
        }
        let takes_copies = function.takes_copies();
        let mut does_anything = false;
        for instruction in function.blocks().into_iter().flat_map(|block| block.instructions()) {
            let deed = Deed::of(instruction, &self.attributes);
            does_anything |= deed.is_boundary || !deed.before.is_empty() || !deed.after.is_empty();
            let stays = instruction.is_call() && self.returns_twice(instruction);
            if stays || takes_copies && instruction.is_must_tail() {
                return false;
            }
        }
        does_anything
    }

    /// Whether functions may have been left without an end once this call returns.
    pub(super) fn may_have_left(&self, call: Value<'m>) -> bool {
        call.is_call()
            && (self.returns_twice(call) || call.called().is_some_and(|called| may_have_left(&called.name())))
    }

    /// Why a function of this name stays as it is; none if it does not.
    pub(super) fn reason_to_skip(&self, function: Function<'m>, name: &str) -> Option<&'static str> {
        if function.attribute(self.naked).is_some() {
            Some("naked")
        } else if self.resolvers.contains(&function) {
            Some("the dynamic linker calls it to choose a function")
        } else if is_called_by_compiler(name) {
            Some("the compiler calls it by itself")
        } else if name.starts_with("__slimline_") {
            Some("of the runtime")
        } else {
            None
        }
    }

    /// Whether a call may return a second time.
    pub(super) fn returns_twice(&self, call: Value<'m>) -> bool {
        let Some(called) = call.called() else { return false };
        call.call_has_attribute(self.returns_twice)
            || called.as_function().is_some_and(|function| function.attribute(self.returns_twice).is_some())
            || RETURN_TWICE.contains(&&*called.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_the_compiler_calls() {
        for name in ["memcpy", "bcmp", "sqrt", "sqrtf", "fmaxl", "lround", "sincosf"] {
            assert!(is_called_by_compiler(name), "{name}");
        }
        for name in ["memcpy_fast", "f", "l", "sinus", "main"] {
            assert!(!is_called_by_compiler(name), "{name}");
        }
    }
}
