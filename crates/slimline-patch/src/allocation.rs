//! Blocks of the structure: which calls allocate them.

use crate::names::{Names, Relation};
use crate::tree::{Node, Place};

/// Functions that handle memory as a whole, whatever is in it.
pub(crate) const TAKES_WHOLE: [&str; 9] =
    ["memset", "memcpy", "memmove", "bzero", "bcopy", "realloc", "qsort", "bsearch", "pthread_create"];
/// Those that copy what is in it, from one of their first two arguments to the other.
pub(crate) const COPIES: [&str; 3] = ["memcpy", "memmove", "bcopy"];
/// Those that are told how many bytes of it they take, last.
pub(crate) const TAKES_PARTS: [&str; 5] = ["memset", "memcpy", "memmove", "bzero", "bcopy"];
/// Those that take a table of pointers to it as what it is.
pub(crate) const TAKES_TABLES: [&str; 9] =
    ["free", "realloc", "qsort", "bsearch", "memset", "memcpy", "memmove", "bzero", "bcopy"];
/// Those for which bytes mean something.
pub(crate) const TAKES_BYTES: [&str; 13] = [
    "fwrite", "fread", "write", "read", "pwrite", "pread", "send", "recv", "sendto", "recvfrom", "memcmp", "mmap",
    "msync",
];
/// Those that take no more than an address.
pub(crate) const PRINTS: [&str; 1] = ["__builtin_prefetch"];

/// How memory is got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Allocator {
    /// `malloc`.
    Malloc,
    /// `calloc`.
    Calloc,
    /// `aligned_alloc`.
    Aligned,
    /// Another function that is told the size: `realloc`, `alloca`, those of the program's own.
    Other,
}

/// A call that allocates.
#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    pub(crate) allocator: Allocator,
    /// What is called.
    pub(crate) function: String,
    /// The place of its name.
    pub(crate) callee: (Place, Place),
    /// Whether it is seen to be for whole structures.
    pub(crate) is_of_whole: bool,
    /// Whether it is for one.
    pub(crate) is_of_one: bool,
    /// What `aligned_alloc` aligns it to, where that is a number.
    pub(crate) alignment: Option<u32>,
    /// Where the function that it is in begins.
    pub(crate) within_begin: Place,
    /// The function that it is in, and whether it is in a loop there.
    pub(crate) within: Option<String>,
    pub(crate) is_in_loop: bool,
}

impl Allocation {
    /// Of a call, if it allocates; and the expressions that ask for the structure's size, which are understood with it.
    pub(crate) fn of(call: &Node, above: &[&Node], names: &Names) -> Option<(Self, Vec<String>)> {
        let name = call.callee()?.name.as_str();
        let allocator = match name {
            "malloc" => Allocator::Malloc,
            "calloc" => Allocator::Calloc,
            "aligned_alloc" => Allocator::Aligned,
            _ => Allocator::Other,
        };
        let callee = call.inner.first().map(Node::uncast)?;
        let arguments = call.inner.get(1..)?;
        let sized = match (allocator, arguments) {
            (Allocator::Malloc, [size]) | (Allocator::Aligned, [_, size]) => vec![size],
            (Allocator::Calloc, [count, size]) => vec![count, size],
            // A function of the program's own, which is told how large it is.
            _ => arguments.iter().collect(),
        };
        let mut factors = Vec::new();
        sized.into_iter().for_each(|argument| factors_of(argument, &mut factors));
        let (sizes, others): (Vec<&Node>, Vec<&Node>) = factors.into_iter().partition(|factor| is_size(factor, names));
        if allocator == Allocator::Other && sizes.len() != 1 {
            return None;
        }
        let function = above.iter().rev().find(|above| above.is_function());
        let inside = above.iter().rev().take_while(|above| !above.is_function());
        let is_in_loop = inside.into_iter().any(|above| repeats(above)) || function.is_some_and(|of| has_label(of));
        let allocation = Self {
            allocator,
            function: name.to_owned(),
            callee: (callee.begin, callee.end),
            is_of_whole: sizes.len() == 1,
            is_of_one: sizes.len() == 1 && others.iter().all(|other| other.value == "1"),
            alignment: arguments.first().and_then(|first| first.uncast().value.parse().ok()),
            within_begin: function.map(|function| function.begin).unwrap_or_default(),
            within: function.filter(|function| function.kind == "FunctionDecl").map(|function| function.name.clone()),
            is_in_loop,
        };
        Some((allocation, sizes.into_iter().map(|size| size.id.clone()).collect()))
    }
}

/// Whether a call's last argument is the size of whole structures.
pub(crate) fn is_of_wholes(call: &Node, names: &Names) -> bool {
    let mut factors = Vec::new();
    call.inner.last().into_iter().for_each(|bytes| factors_of(bytes, &mut factors));
    factors.into_iter().any(|factor| is_size(factor, names))
}

/// Whether there is a label in it, where code may be gone back to.
fn has_label(node: &Node) -> bool {
    matches!(node.kind.as_str(), "LabelStmt" | "IndirectGotoStmt") || node.inner.iter().any(has_label)
}

/// Whether what is in it may run several times.
pub(crate) fn repeats(node: &Node) -> bool {
    matches!(
        node.kind.as_str(),
        "ForStmt" | "WhileStmt" | "DoStmt" | "LabelStmt" | "CXXForRangeStmt" | "StmtExpr" | "LambdaExpr"
    )
}

/// What is multiplied in an expression.
fn factors_of<'n>(node: &'n Node, factors: &mut Vec<&'n Node>) {
    let bare = node.uncast();
    match bare.inner.as_slice() {
        [left, right] if bare.kind == "BinaryOperator" && bare.operator == "*" => {
            factors_of(left, factors);
            factors_of(right, factors);
        }
        _ => factors.push(bare),
    }
}

/// Whether it is the structure's size.
fn is_size(node: &Node, names: &Names) -> bool {
    let of = match (&node.argument_type, node.inner.first()) {
        (Some(of), _) => of.text(),
        (None, Some(inner)) => inner.type_text.text(),
        (None, None) => return false,
    };
    node.kind == "UnaryExprOrTypeTraitExpr" && node.name == "sizeof" && names.relation(of) == Relation::Value
}
