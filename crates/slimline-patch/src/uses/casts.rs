//! Pointers to the structure that become others, and the other way round.

use super::expressions::is_null;
use super::{Walk, What};
use crate::allocation::{self, Allocation};
use crate::names::Relation;
use crate::tree::{Node, Referred};

impl<'n> Walk<'_, 'n> {
    pub(super) fn cast(&mut self, node: &'n Node, to: Relation) {
        let Some(inner) = node.inner.first() else { return };
        let from = self.relation(inner);
        if to == Relation::None && from == Relation::None {
            return;
        }
        match node.cast.as_str() {
            "LValueToRValue" => {
                let is_stored = self.above.last().is_some_and(|above| self.consumed.contains(&above.id));
                if to == Relation::Value && !is_stored {
                    self.tell(What::Copy, node.begin);
                }
            }
            "NoOp"
            | "ArrayToPointerDecay"
            | "FunctionToPointerDecay"
            | "NullToPointer"
            | "PointerToBoolean"
            | "ToVoid"
            | "ConstructorConversion"
            | "UserDefinedConversion" => {}
            "PointerToIntegral" => self.tell(What::Cast(node.type_text.qual_type.clone()), node.begin),
            "BitCast" | "IntegralToPointer" => self.pointer_cast(node, inner, (from, to)),
            kind => self.tell(What::Unknown(format!("a cast: {kind}")), node.begin),
        }
    }

    fn pointer_cast(&mut self, node: &'n Node, inner: &'n Node, (from, to): (Relation, Relation)) {
        let is_any = |text: &str| matches!(text.trim_start_matches("const ").trim_start_matches("volatile "), "void *");
        // Memory that holds pointers is not the structure's.
        let matters = |relation: Relation| matches!(relation, Relation::Pointer | Relation::Array | Relation::Other);
        if from == to || is_null(inner) {
            return;
        }
        // What it leads to may be a pointer to one, which is freed or set there; a table is sorted, copied and freed as it is.
        let leads_to_one = from == Relation::Deeper && !self.is_argument_of(&allocation::TAKES_TABLES)
            || to == Relation::Function && from == Relation::None;
        if leads_to_one && !self.is_compared() {
            return self.tell(What::Cast(node.type_text.qual_type.clone()), node.begin);
        }
        if !matters(from) && !matters(to) {
            return;
        }
        if to == Relation::Pointer && from == Relation::None {
            let source = inner.uncast();
            let allocated =
                (source.kind == "CallExpr").then(|| Allocation::of(source, &self.above, &self.names)).flatten();
            if let Some((allocation, size)) = allocated {
                self.consumed.extend(size);
                return self.tell(What::Allocation(allocation), node.begin);
            }
            if is_any(inner.type_text.text()) {
                let name = source.callee().map(|callee| callee.name.clone());
                return self.tell(What::Adopted(name), node.begin);
            }
            return self.tell(What::Cast(inner.type_text.qual_type.clone()), node.begin);
        }
        if from == Relation::Pointer && is_any(node.type_text.text()) {
            if self.is_compared() || self.is_argument_of(&allocation::PRINTS) {
                return;
            }
            let name = self.called_around().map(|function| function.name.clone());
            return self.tell(What::Escape(name), node.begin);
        }
        let other = if from == Relation::None { inner } else { node };
        self.tell(What::Cast(other.type_text.qual_type.clone()), node.begin);
    }

    /// What an expression is part of, but for casts and parentheses.
    pub(super) fn around(&self) -> Option<&'n Node> {
        self.above.iter().rev().find(|above| !above.is_cast() && above.kind != "ParenExpr").copied()
    }

    fn is_compared(&self) -> bool {
        let is_equality =
            |above: &Node| above.kind == "BinaryOperator" && matches!(above.operator.as_str(), "==" | "!=");
        self.around().is_some_and(is_equality)
    }

    /// The function that an expression is an argument of.
    fn called_around(&self) -> Option<&Referred> {
        self.around().filter(|around| around.kind == "CallExpr").and_then(Node::callee)
    }

    fn is_argument_of(&self, functions: &[&str]) -> bool {
        self.called_around().is_some_and(|function| functions.contains(&function.name.as_str()))
    }
}
