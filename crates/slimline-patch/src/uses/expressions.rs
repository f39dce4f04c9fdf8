//! What expressions are.

use crate::tree::Node;

/// Expressions that only hand on what they are made of.
pub(super) const KNOWN: [&str; 34] = [
    "ParenExpr",
    "ArraySubscriptExpr",
    "ConditionalOperator",
    "BinaryConditionalOperator",
    "StmtExpr",
    "VAArgExpr",
    "ImplicitValueInitExpr",
    "InitListExpr",
    "CompoundLiteralExpr",
    "GNUNullExpr",
    "CXXNullPtrLiteralExpr",
    "CXXThisExpr",
    "ExprWithCleanups",
    "MaterializeTemporaryExpr",
    "CXXBindTemporaryExpr",
    "ConstantExpr",
    "CXXConstructExpr",
    "CXXTemporaryObjectExpr",
    "CXXDefaultArgExpr",
    "CXXDefaultInitExpr",
    "CXXScalarValueInitExpr",
    "LambdaExpr",
    "SubstNonTypeTemplateParmExpr",
    "CXXStdInitializerListExpr",
    "ArrayInitLoopExpr",
    "OpaqueValueExpr",
    "PredefinedExpr",
    "StringLiteral",
    "AtomicExpr",
    "ParenListExpr",
    "DesignatedInitExpr",
    "NoInitExpr",
    "UnresolvedLookupExpr",
    "FullComment",
];

/// Whether `this` is in it.
pub(super) fn names_this(node: &Node) -> bool {
    node.kind == "CXXThisExpr" || node.inner.iter().any(names_this)
}

/// Without parentheses and the conversions that are not written.
pub(super) fn unconverted(node: &Node) -> &Node {
    let bare = node.bare();
    match bare.inner.first() {
        Some(inner) if bare.kind == "ImplicitCastExpr" => unconverted(inner),
        _ => bare,
    }
}

/// Whether it is a null pointer.
pub(super) fn is_null(node: &Node) -> bool {
    let bare = node.bare();
    match bare.cast.as_str() {
        "NullToPointer" => true,
        "BitCast" | "NoOp" => bare.inner.first().is_some_and(is_null),
        "IntegralToPointer" => bare.inner.first().is_some_and(|inner| inner.uncast().value == "0"),
        _ => bare.kind == "CXXNullPtrLiteralExpr" || bare.kind == "GNUNullExpr",
    }
}
