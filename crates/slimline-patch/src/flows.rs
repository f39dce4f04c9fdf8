//! Where pointers in variables come from: which of them point to the beginning of the only array, if there is one.

use rustc_hash::{FxHashMap, FxHashSet};

/// Where a pointer comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It is what an allocation gave.
    Allocation,
    /// No object.
    Null,
    /// It is a variable's.
    Variable(String),
    /// Something else.
    Other,
}

/// A variable is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) to: String,
    pub(crate) origin: Origin,
}

/// What variables are set to. Variables have keys: those that several units share have one in all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows {
    all: Vec<Flow>,
    /// By unit and declaration.
    variables: FxHashMap<(usize, String), String>,
    /// Functions that are called by other names than their own.
    called_by_others: FxHashSet<String>,
    parameters: FxHashSet<(String, usize)>,
}

impl Flows {
    pub(crate) fn variable(&mut self, unit: usize, declaration: &str, key: &str) {
        self.variables.insert((unit, declaration.to_owned()), key.to_owned());
    }

    pub(crate) fn parameter(&mut self, unit: usize, declaration: &str, function: &str, number: usize) {
        self.parameters.insert((function.to_owned(), number));
        self.variable(unit, declaration, &parameter_key(function, number));
    }

    pub(crate) fn add(&mut self, flow: Flow) {
        self.all.push(flow);
    }

    pub(crate) fn argument(&mut self, function: &str, number: usize, origin: Origin) {
        self.all.push(Flow { to: parameter_key(function, number), origin });
    }

    pub(crate) fn unknown_callers(&mut self, function: String) {
        self.called_by_others.insert(function);
    }

    /// The variable that an argument of a function becomes, which is defined.
    pub(crate) fn parameter_of(&self, function: &str, number: usize) -> Option<String> {
        self.parameters.contains(&(function.to_owned(), number)).then(|| parameter_key(function, number))
    }

    pub(crate) fn key(&self, unit: usize, declaration: &str) -> Option<String> {
        self.variables.get(&(unit, declaration.to_owned())).cloned()
    }

    /// Variables that are null, or point to the beginning of the only array there is: what is allocated, or this variable.
    pub(crate) fn beginnings(&self, array: Option<&str>) -> FxHashSet<String> {
        let mut beginnings: FxHashSet<String> = self.variables.values().cloned().collect();
        for (function, number) in &self.parameters {
            if self.called_by_others.contains(function) {
                beginnings.remove(&parameter_key(function, *number));
            }
        }
        loop {
            let before = beginnings.len();
            for flow in &self.all {
                let keeps = match &flow.origin {
                    Origin::Null | Origin::Allocation => true,
                    Origin::Variable(key) => beginnings.contains(key) || array == Some(key),
                    Origin::Other => false,
                };
                if !keeps {
                    beginnings.remove(&flow.to);
                }
            }
            if beginnings.len() == before {
                return beginnings;
            }
        }
    }
}

fn parameter_key(function: &str, number: usize) -> String {
    format!("{function}({number})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_on_stays_the_beginning() {
        let mut flows = Flows::default();
        for key in ["items", "at"] {
            flows.variable(0, key, key);
        }
        flows.parameter(0, "p", "0:f", 0);
        flows.parameter(0, "q", "0:g", 0);
        flows.add(Flow { to: "items".to_owned(), origin: Origin::Allocation });
        flows.add(Flow { to: "at".to_owned(), origin: Origin::Variable("items".to_owned()) });
        flows.argument("0:f", 0, Origin::Variable("items".to_owned()));
        flows.argument("0:g", 0, Origin::Variable("at".to_owned()));
        assert_eq!(flows.beginnings(None).len(), 4);
        flows.add(Flow { to: "at".to_owned(), origin: Origin::Other });
        let beginnings = flows.beginnings(None);
        assert!(beginnings.contains("items") && beginnings.contains("0:f(0)") && beginnings.len() == 2);
        flows.unknown_callers("0:f".to_owned());
        assert_eq!(flows.beginnings(None).len(), 1);
    }
}
