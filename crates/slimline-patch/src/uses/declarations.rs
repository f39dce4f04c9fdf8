//! What declarations make of the structure.

use super::{Variable, Walk, What};
use crate::flows::Flow;
use crate::names::Relation;
use crate::tree::Node;

impl<'n> Walk<'_, 'n> {
    pub(super) fn alias(&mut self, node: &Node) {
        match pointers_to(node, self.of.record) {
            Some(pointers) => self.names.alias(&node.name, pointers),
            None => self.names.declare(&node.name, &node.type_text.qual_type),
        }
    }

    pub(super) fn function(&mut self, node: &'n Node) {
        let linked = self.linked(node);
        let is_method = node.kind != "FunctionDecl";
        let has_body = node.inner.iter().any(|inner| matches!(inner.kind.as_str(), "CompoundStmt" | "CXXTryStmt"));
        if has_body || is_method && (node.is_implicit || node.is_unwritten) {
            self.define(&linked);
        }
        if has_body {
            let parameters = node.inner.iter().filter(|inner| inner.kind == "ParmVarDecl");
            for (number, parameter) in parameters.enumerate() {
                self.uses.flows.parameter(self.unit, &parameter.id, &linked, number);
            }
        }
        if is_method {
            self.ask_for_method(node);
            // By names of a parent, by pointers, by operators, and constructors by none.
            self.uses.flows.unknown_callers(linked);
        }
        let text = node.type_text.text();
        if self.names.relation(text) == Relation::None || node.is_implicit {
            return;
        }
        let result = text.split('(').next().unwrap_or_default().trim();
        match self.names.relation(result) {
            Relation::Value => self.tell(What::ByValue, node.place),
            Relation::Template => self.tell(What::Template, node.place),
            _ => {}
        }
        if self.is_in_template() {
            self.tell(What::Template, node.place);
        }
    }

    pub(super) fn variable(&mut self, node: &'n Node) {
        let relation = self.relation(node);
        let parent = self.above.last().copied();
        let is_global = node.storage == "extern" || !self.is_in_function();
        let key = self.linked(node);
        self.uses.flows.variable(self.unit, &node.id, &key);
        let has_value = node.inner.iter().any(|inner| inner.kind.ends_with("Expr"));
        if has_value || node.storage != "extern" && !self.is_in_class() {
            self.define(&key);
        } else if relation != Relation::None {
            self.ask(&node.id, &node.name, node.place.expanded);
        }
        let value = node.inner.iter().find(|inner| !inner.kind.ends_with("Attr"));
        if relation == Relation::Pointer
            && let Some(value) = value
        {
            let origin = self.origin(value);
            self.uses.flows.add(Flow { to: key.clone(), origin });
        }
        let grand = self.above.iter().rev().nth(1);
        let variable = Variable {
            key,
            name: node.name.clone(),
            place: node.place,
            begin: node.begin,
            storage: node.storage.clone(),
            is_of_thread: node.is_of_thread,
            is_global,
            is_alone: parent.is_some_and(|parent| parent.inner.len() == 1 && parent.kind == "DeclStmt")
                && grand.is_some_and(|grand| grand.kind == "CompoundStmt"),
            initializer: value.map(|value| (value.begin, value.end)),
        };
        match relation {
            Relation::Value => self.tell(What::Variable(variable), node.place),
            Relation::Array => self.tell(What::Array(variable), node.place),
            Relation::Template => self.tell(What::Template, node.place),
            Relation::Other => self.tell(What::Unknown(node.type_text.qual_type.clone()), node.place),
            _ => {}
        }
    }
}

/// How many pointers a name for a type is from the record; none where it is another's, or a function's or an array's.
pub(crate) fn pointers_to(node: &Node, record: &str) -> Option<usize> {
    let inner = node.inner.first()?;
    let is_it = |referred: &crate::tree::Referred| referred.id == record;
    match inner.kind.as_str() {
        "RecordType" => inner.referred.as_ref().is_some_and(is_it).then_some(0),
        "ElaboratedType" | "ParenType" | "QualType" => pointers_to(inner, record),
        "PointerType" => Some(1 + pointers_to(inner, record)?),
        _ => None,
    }
}
