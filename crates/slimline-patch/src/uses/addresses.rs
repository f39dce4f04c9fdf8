//! Addresses of fields: what lies next to a field is reached by none of them.
//!
//! An address is followed through variables and parameters. Where it is reckoned with, or is handed to where nothing more is seen of it and
//! the structure has another field of the same type, it may reach that. Addresses in arrays that are fields are left out: they are reckoned
//! with to reach the array's own elements.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Use, Uses, Walk, What};
use crate::tree::{Node, Place};

/// Functions that set what one address leads to, and nothing beside it.
const SETS_ONE: [&str; 11] =
    ["scanf", "fscanf", "sscanf", "time", "strtod", "strtof", "strtol", "strtoul", "strtoll", "frexp", "modf"];
/// Functions that are told last how many bytes they take.
const TOLD_LAST: [&str; 8] = ["memset", "memcpy", "memmove", "memcmp", "bzero", "bcopy", "read", "write"];
/// Functions that are told the size, and of how many.
const TOLD_COUNT: [&str; 2] = ["fread", "fwrite"];

/// What becomes of a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// It leads to one object, or to none.
    One,
    /// It is that variable's.
    Variable(String),
    /// A function's argument: by declaration and name, and which.
    Argument(String, String, usize),
    /// Something is added to it, or so many bytes are reached by it.
    Reckoned,
    /// Nothing more is seen of it.
    Lost,
}

/// What becomes of fields' addresses, and of pointers that variables hold.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    taken: Vec<Taken>,
    held: Vec<(String, Fate, usize)>,
}

#[derive(Clone, Debug)]
struct Taken {
    name: String,
    /// Whether another field has the same type, or both are pointers: types have several names.
    has_twin: bool,
    fate: Fate,
    at: Place,
    unit: usize,
}

impl Uses {
    /// When all units were looked at: addresses that may reach a neighbour.
    pub(super) fn reach_neighbours(&mut self) {
        let Addresses { taken, held } = std::mem::take(&mut self.addresses);
        let mut ways: FxHashMap<String, Vec<Fate>> = FxHashMap::default();
        for (variable, fate, unit) in held {
            let fate = self.followed(fate, unit);
            ways.entry(variable).or_default().push(fate);
        }
        for Taken { name, has_twin, fate, at, unit } in taken {
            let fate = self.followed(fate, unit);
            if fate == Fate::Reckoned || has_twin && leads_astray(fate, &ways) {
                self.all.push(Use { what: What::Neighbour(name), at: at.expanded, unit });
            }
        }
    }

    /// An argument is a variable of the function that gets it.
    fn followed(&self, fate: Fate, unit: usize) -> Fate {
        let Fate::Argument(declaration, name, number) = fate else { return fate };
        let function = self.linkage.name(unit, &declaration, &name);
        self.flows.parameter_of(&function, number).map_or(Fate::Lost, Fate::Variable)
    }
}

/// Whether a pointer may come to where it is reckoned with, or to where nothing more is seen of it.
fn leads_astray(fate: Fate, ways: &FxHashMap<String, Vec<Fate>>) -> bool {
    let (mut seen, mut open) = (FxHashSet::default(), vec![fate]);
    while let Some(fate) = open.pop() {
        match fate {
            Fate::Reckoned | Fate::Lost => return true,
            Fate::Variable(key) => {
                let onward = ways.get(&key).into_iter().flatten().cloned();
                if seen.insert(key) {
                    open.extend(onward);
                }
            }
            Fate::One | Fate::Argument(..) => {}
        }
    }
    false
}

impl<'n> Walk<'_, 'n> {
    /// Of `&x->f`.
    pub(super) fn address(&mut self, node: &'n Node) {
        let mut of = node.inner.first().map(Node::bare);
        // `&x->f.part` is in a field that is a structure.
        while let Some(member) = of.filter(|of| of.kind == "MemberExpr") {
            if let Some(&field) = self.of.fields.get(member.member.as_str()) {
                let own = &self.of.types[field];
                let is_like = |text: &String| {
                    text.split('[').next().map(str::trim_end) == Some(own) || text.ends_with('*') && own.ends_with('*')
                };
                let mut others = self.of.types.iter().enumerate().filter(|(other, _)| *other != field);
                // Each byte is a character's.
                let has_twin = own.ends_with("char") || others.any(|(_, text)| is_like(text));
                let (fate, unit) = (self.fate(node), self.unit);
                let taken = Taken { name: member.name.clone(), has_twin, fate, at: node.begin, unit };
                return self.uses.addresses.taken.push(taken);
            }
            of = member.inner.first().map(Node::bare).filter(|_| !member.is_arrow);
        }
    }

    /// Of a variable that is named and may hold such an address.
    pub(super) fn holder(&mut self, node: &'n Node) {
        let text = node.type_text.text().trim_end_matches("const").trim_end_matches("restrict").trim_end();
        let Some(key) = self.key(node).filter(|_| text.ends_with('*')) else { return };
        match self.fate(node) {
            Fate::One => {}
            fate => self.uses.addresses.held.push((key, fate, self.unit)),
        }
    }

    /// What becomes of the pointer that an expression is.
    fn fate(&self, node: &'n Node) -> Fate {
        let mut child = node;
        for (number, above) in self.above.iter().rev().enumerate() {
            let is_first = above.inner.first().is_some_and(|first| first.id == child.id);
            match above.kind.as_str() {
                "ParenExpr" | "ConstantExpr" | "ExprWithCleanups" | "MaterializeTemporaryExpr" => {}
                _ if above.is_cast() => match above.cast.as_str() {
                    "LValueToRValue" | "NoOp" => {}
                    "PointerToBoolean" | "ToVoid" => return Fate::One,
                    "BitCast" => return self.fate_as_bytes(child, number),
                    _ => return Fate::Lost,
                },
                "ConditionalOperator" if !is_first => {}
                "BinaryOperator" => match above.operator.as_str() {
                    "+" | "-" => return Fate::Reckoned,
                    "=" if is_first => return Fate::One,
                    "=" => {
                        // Of `a = b = &x->f` more is not followed.
                        let is_statement =
                            self.above.iter().rev().nth(number + 1).is_some_and(|of| of.kind.ends_with("Stmt"));
                        let key = above.inner.first().and_then(|left| self.key(left.bare())).filter(|_| is_statement);
                        return key.map_or(Fate::Lost, Fate::Variable);
                    }
                    "," if !is_first => {}
                    _ => return Fate::One,
                },
                "UnaryOperator" => match above.operator.as_str() {
                    "*" | "!" => return Fate::One,
                    "++" | "--" => return Fate::Reckoned,
                    _ => return Fate::Lost,
                },
                "CompoundAssignOperator" if is_first => return Fate::Reckoned,
                "ArraySubscriptExpr" => {
                    let is_0 = |of: &Node| of.uncast().kind == "IntegerLiteral" && of.uncast().value == "0";
                    return if above.inner.iter().any(is_0) { Fate::One } else { Fate::Reckoned };
                }
                "VarDecl" if !above.type_text.text().ends_with('&') => {
                    let key = self.uses.flows.key(self.unit, &above.id);
                    return key.map_or(Fate::Lost, Fate::Variable);
                }
                "CallExpr" => return self.fate_in_call(above, child),
                "MemberExpr" | "AtomicExpr" | "UnaryExprOrTypeTraitExpr" | "ConditionalOperator" => return Fate::One,
                "ReturnStmt" => return Fate::Lost,
                kind if kind.ends_with("Stmt") => return Fate::One,
                _ => return Fate::Lost,
            }
            child = above;
        }
        Fate::Lost
    }

    fn fate_in_call(&self, call: &Node, child: &Node) -> Fate {
        let Some(number) = call.inner.iter().position(|inner| inner.id == child.id) else { return Fate::Lost };
        let callee = call.callee().filter(|callee| callee.kind == "FunctionDecl");
        match (callee, number) {
            // The function itself.
            (_, 0) => Fate::One,
            (None, _) => Fate::Lost,
            (Some(callee), _) => match callee.name.as_str() {
                name if SETS_ONE.contains(&name) || name.starts_with("__sync_") || name.starts_with("__atomic_") => {
                    Fate::One
                }
                name => Fate::Argument(callee.id.clone(), name.to_owned(), number - 1),
            },
        }
    }

    /// What becomes of it as a pointer to something else, from so many nodes up: it is reckoned with, but where a function is told the size
    /// of what it leads to.
    fn fate_as_bytes(&self, pointer: &Node, number: usize) -> Fate {
        let around = self.above.iter().rev().skip(number).find(|above| !above.is_cast() && above.kind != "ParenExpr");
        let Some(around) = around else { return Fate::Reckoned };
        if around.kind == "BinaryOperator" && matches!(around.operator.as_str(), "==" | "!=") {
            return Fate::One;
        }
        let text = pointer.type_text.text();
        let is_its_size = |of: Option<&Node>| {
            let Some(size) = of.map(Node::uncast).filter(|of| of.kind == "UnaryExprOrTypeTraitExpr") else {
                return false;
            };
            let told = size.argument_type.as_ref().or_else(|| size.inner.first().map(|inner| &inner.type_text));
            told.is_some_and(|told| text.strip_suffix('*').map(str::trim_end) == Some(told.text()))
        };
        let is_of_one = match around.callee().filter(|_| around.kind == "CallExpr").map(|callee| callee.name.as_str()) {
            Some(name) if TOLD_LAST.contains(&name) => is_its_size(around.inner.last()),
            Some(name) if TOLD_COUNT.contains(&name) => {
                is_its_size(around.inner.get(2)) && around.inner.get(3).is_some_and(|count| count.uncast().value == "1")
            }
            _ => false,
        };
        if is_of_one { Fate::One } else { Fate::Reckoned }
    }
}
