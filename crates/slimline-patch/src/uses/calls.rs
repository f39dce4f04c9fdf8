//! Functions that are named and called.

use super::expressions::is_null;
use super::{Walk, What};
use crate::allocation;
use crate::flows::Origin;
use crate::names::Relation;
use crate::tree::{Node, Referred};

/// The type of `object.method`.
const BOUND: &str = "<bound member function type>";

/// Something that a function is handed; or that it may be called with anything.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    pub(crate) unit: usize,
    /// The function's.
    pub(crate) declaration: String,
    pub(crate) name: String,
    /// Which argument, and where that comes from.
    pub(crate) argument: Option<(usize, Origin)>,
}

impl<'n> Walk<'_, 'n> {
    pub(super) fn reference(&mut self, node: &'n Node, relation: Relation) {
        self.read(node.begin);
        self.holder(node);
        let Some(referred) = node.referred.as_ref().filter(|referred| referred.kind == "FunctionDecl") else { return };
        let is_called = self.around().is_some_and(|call| {
            call.kind == "CallExpr" && call.callee().is_some_and(|callee| callee.id == referred.id)
        });
        let around = self.above.iter().rev().find(|above| above.is_function());
        let inside = self.above.iter().rev().take_while(|above| !above.is_function());
        let is_repeated = inside.into_iter().any(|above| allocation::repeats(above));
        let call = around
            .filter(|around| is_called && around.kind == "FunctionDecl")
            .map(|around| (around.name.clone(), is_repeated));
        self.uses.calls.entry(referred.name.clone()).or_default().push(call);
        if !is_called {
            self.pass(referred, None);
        }
        if relation == Relation::Function {
            self.ask(&referred.id, &referred.name, node.begin.expanded);
        }
    }

    fn pass(&mut self, function: &Referred, argument: Option<(usize, Origin)>) {
        let (declaration, name) = (function.id.clone(), function.name.clone());
        self.uses.passed.push(Passed { unit: self.unit, declaration, name, argument });
    }

    pub(super) fn call(&mut self, node: &'n Node, relation: Relation) {
        // Also by an operator of its own, as C++ assigns it.
        if relation == Relation::Value {
            self.tell(What::Copy, node.begin);
        }
        let Some(callee) = node.callee().filter(|callee| is_function(callee)) else { return self.call_of_other(node) };
        // What a template makes of it is told where it is made.
        let is_of_template = callee.kind == "CXXMethodDecl"
            && node.inner.get(1).is_some_and(|object| self.relation(object) == Relation::Template);
        let place = node.inner.first().map(Node::uncast).map(|callee| (callee.begin, callee.end)).unwrap_or_default();
        let arguments = node.inner.iter().skip(1);
        for (number, argument) in arguments.enumerate() {
            if self.relation(argument) == Relation::Pointer {
                let origin = self.origin(argument);
                self.pass(callee, Some((number, origin)));
            }
            let bare = argument.uncast();
            if self.relation(bare) != Relation::Pointer || is_null(argument) {
                continue;
            }
            let what = match callee.name.as_str() {
                "free" => What::Free(place),
                name if allocation::TAKES_BYTES.contains(&name) => What::Bytes(name.to_owned()),
                // What is copied to somewhere else is bytes.
                name if allocation::COPIES.contains(&name) && !self.copies_it(node) => What::Bytes(name.to_owned()),
                name if allocation::TAKES_PARTS.contains(&name) && !allocation::is_of_wholes(node, &self.names) => {
                    What::Bytes(name.to_owned())
                }
                name if allocation::TAKES_WHOLE.contains(&name) => What::Escape(Some(name.to_owned())),
                name if allocation::PRINTS.contains(&name) => continue,
                // Without a prototype nothing tells what it takes.
                name => {
                    if self.relation(argument) == Relation::Pointer && !is_of_template {
                        self.ask(&callee.id, name, argument.begin.expanded);
                    }
                    continue;
                }
            };
            let mut cast = argument;
            while cast.is_cast() || cast.kind == "ParenExpr" {
                self.consumed.insert(cast.id.clone());
                let Some(inner) = cast.inner.first() else { break };
                cast = inner;
            }
            self.tell(what, argument.begin);
        }
    }

    /// Of a method, or by a pointer. Functions whose type tells that they get it are asked for where they are declared or named.
    fn call_of_other(&mut self, node: &'n Node) {
        let Some(called) = node.inner.first().map(Node::uncast) else { return };
        let gets = |of: &&Node| matches!(self.relation(of), Relation::Pointer | Relation::Deeper | Relation::Value);
        let Some(argument) = node.inner.iter().skip(1).find(gets) else { return };
        if called.kind != "MemberExpr" || called.type_text.qual_type != BOUND {
            if self.relation(called) != Relation::Function {
                self.tell(What::ByPointer, argument.begin);
            }
        } else if called.inner.first().is_none_or(|object| self.relation(object) != Relation::Template) {
            self.ask(&called.member, &called.name, argument.begin.expanded);
        }
    }

    /// Whether both places of a copy are of the structure.
    pub(super) fn copies_it(&self, call: &Node) -> bool {
        let places = call.inner.iter().skip(1).take(2);
        places.into_iter().all(|place| matches!(self.relation(place.uncast()), Relation::Pointer | Relation::Array))
    }
}

/// Whether it is no variable that points to one.
fn is_function(referred: &Referred) -> bool {
    matches!(referred.kind.as_str(), "FunctionDecl" | "CXXMethodDecl")
}
