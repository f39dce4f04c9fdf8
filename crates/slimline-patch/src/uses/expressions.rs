//! What expressions are.

use super::{Holder, Initializer, Member, Store, Walk, What};
use crate::allocation::Allocation;
use crate::flows::{Flow, Origin};
use crate::names::Relation;
use crate::source::Token;
use crate::tree::{Node, Place};

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

impl<'n> Walk<'_, 'n> {
    pub(super) fn expression(&mut self, node: &'n Node) {
        if self.consumed.contains(&node.id) {
            return;
        }
        let relation = self.relation(node);
        match node.kind.as_str() {
            "MemberExpr" => self.member(node),
            "DeclRefExpr" => self.reference(node, relation),
            "CallExpr" | "CXXMemberCallExpr" | "CXXOperatorCallExpr" => self.call(node, relation),
            "UnaryExprOrTypeTraitExpr" => {
                let of = match (&node.argument_type, node.inner.first()) {
                    (Some(of), _) => self.names.relation(of.text()),
                    (None, Some(inner)) => self.relation(inner),
                    (None, None) => Relation::None,
                };
                if matches!(of, Relation::Value | Relation::Array) {
                    self.tell(What::Size, node.begin);
                }
            }
            "OffsetOfExpr" => {
                let (start, end) = (node.begin.expanded, node.end.expanded);
                let source = start.file.and_then(|file| self.of.sources.get(file as usize));
                // Up to the end of the macro's arguments, which is that of the line at most in practice.
                let line = source.map_or(end.end(), |source| {
                    let rest = source.text.get(end.end()..).unwrap_or_default();
                    end.end() + rest.find([';', '\n']).unwrap_or(rest.len())
                });
                let tokens = source.and_then(|source| source.tokens(start.offset, line));
                let is_its = |pair: &[Token<'_>]| {
                    let names = [pair[1].text.to_owned(), format!("{} {}", pair[0].text, pair[1].text)];
                    names.iter().any(|name| self.names.relation(name) != Relation::None)
                };
                if tokens.is_none_or(|tokens| tokens.windows(2).any(is_its)) {
                    self.tell(What::Offset, node.begin);
                }
            }
            kind if kind.ends_with("CastExpr") => self.cast(node, relation),
            "BinaryOperator" => self.operator(node, relation),
            "UnaryOperator" | "CompoundAssignOperator" => {
                if node.operator == "&" {
                    self.address(node);
                }
                let changed = node.inner.first().map(Node::bare);
                let changes = matches!(node.operator.as_str(), "&" | "++" | "--" | "+=" | "-=");
                if let Some(key) = changed.filter(|_| changes).and_then(|changed| self.key(changed)) {
                    self.uses.flows.add(Flow { to: key, origin: Origin::Other });
                }
            }
            "InitListExpr" if relation == Relation::Value => {
                let values =
                    node.inner.iter().map(|inner| (inner.kind != "ImplicitValueInitExpr").then_some(inner.begin));
                let holder = match self.above.last() {
                    _ if self.stored.contains(&node.id) => Holder::Store,
                    Some(above) if above.kind == "VarDecl" => Holder::Variable,
                    _ => Holder::Other,
                };
                let what = Initializer { begin: node.begin, end: node.end, values: values.collect(), holder };
                self.tell(What::Initializer(what), node.begin);
            }
            "CXXNewExpr" | "CXXDeleteExpr" => {
                let of = if relation == Relation::Pointer {
                    relation
                } else {
                    node.inner.first().map_or(Relation::None, |inner| self.relation(inner.uncast()))
                };
                if of == Relation::Pointer {
                    self.tell(What::New, node.begin);
                }
            }
            "CXXConstructExpr"
            | "CXXTemporaryObjectExpr"
            | "ConditionalOperator"
            | "StmtExpr"
            | "VAArgExpr"
            | "BinaryConditionalOperator"
                if relation == Relation::Value =>
            {
                self.tell(What::Copy, node.begin);
            }
            "TemplateArgument" if relation != Relation::None => self.tell(What::Template, node.begin),
            _ if relation == Relation::None || KNOWN.contains(&node.kind.as_str()) => {}
            _ => self.tell(What::Unknown(node.kind.clone()), node.begin),
        }
        if relation != Relation::None && self.is_in_template() {
            self.tell(What::Template, node.begin);
        }
    }

    /// A token that changes must change for all that it is read as: by macros, and in files that are included or compiled several times.
    pub(super) fn read(&mut self, place: Place) {
        *self.uses.readings.entry(place.spelled).or_default() += 1;
    }

    pub(super) fn member(&mut self, node: &'n Node) {
        self.read(node.end);
        let Some(&field) = self.of.fields.get(node.member.as_str()) else { return };
        let base = node.inner.first();
        let is_of_null = base.is_some_and(is_null);
        let indexed =
            base.map(Node::bare).filter(|base| !node.is_arrow && base.kind == "ArraySubscriptExpr").and_then(|base| {
                let variable = unconverted(base.inner.first()?);
                Some((self.key(variable)?, variable.begin))
            });
        let (begin, base_end) = base.map_or((node.begin, node.begin), |base| (base.begin, base.end));
        let member = Member { field, name: node.end, begin, base_end, is_arrow: node.is_arrow, indexed, is_of_null };
        self.tell(What::Member(member), node.end);
    }

    pub(super) fn operator(&mut self, node: &'n Node, relation: Relation) {
        let [left, right] = node.inner.as_slice() else { return };
        if node.operator != "=" {
            return;
        }
        if relation == Relation::Pointer
            && let Some(key) = self.key(left.bare())
        {
            let origin = self.origin(right);
            self.uses.flows.add(Flow { to: key, origin });
        }
        if relation != Relation::Value {
            return;
        }
        let literal = unconverted(right);
        let is_statement = self.above.last().is_some_and(|above| {
            matches!(
                above.kind.as_str(),
                "CompoundStmt" | "IfStmt" | "WhileStmt" | "DoStmt" | "ForStmt" | "CaseStmt" | "LabelStmt"
            )
        });
        let list =
            literal.inner.first().filter(|list| literal.kind == "CompoundLiteralExpr" && list.kind == "InitListExpr");
        match list.filter(|_| is_statement) {
            Some(list) => {
                self.consumed.insert(node.id.clone());
                self.stored.insert(list.id.clone());
                let store =
                    Store { left: (left.begin, left.end), literal: (literal.begin, literal.end), list: list.begin };
                self.tell(What::Store(store), node.begin);
            }
            None => self.tell(What::Copy, node.begin),
        }
    }

    /// Which variable an expression is.
    pub(super) fn key(&self, node: &Node) -> Option<String> {
        let referred = node.referred.as_ref().filter(|_| node.kind == "DeclRefExpr")?;
        self.uses.flows.key(self.unit, &referred.id)
    }

    /// Where a pointer comes from.
    pub(super) fn origin(&self, node: &Node) -> Origin {
        if is_null(node) {
            return Origin::Null;
        }
        let bare = node.uncast();
        match bare.kind.as_str() {
            "CallExpr" if Allocation::of(bare, &self.above, &self.names).is_some() => Origin::Allocation,
            _ => self.key(bare).map_or(Origin::Other, Origin::Variable),
        }
    }
}
