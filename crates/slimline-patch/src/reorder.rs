//! Another order of the same fields, and elements that are aligned.

use crate::allocation::Allocator;
use crate::generated;
use crate::uses::{Initializer, What};
use crate::{Patching, Refusal};

impl Patching<'_> {
    /// Puts the fields into an order; aligns elements to so many bytes.
    pub(crate) fn reorder(&mut self, order: &[usize], align: Option<u32>) -> Result<(), Refusal> {
        let is_moved = !order.is_sorted();
        let found = self.found;
        let mut has_calloc = false;
        for use_ in &found.uses.all {
            if let Some(why) = Self::never(&use_.what) {
                return Err(self.refuse(use_, why));
            }
            match &use_.what {
                What::Initializer(list) if is_moved => self.designate(list)?,
                What::Neighbour(name) if is_moved => {
                    return Err(
                        self.refuse(use_, format!("the address of {name} may be used to reach what lies next to it"))
                    );
                }
                What::Offset if is_moved => {
                    return Err(self.refuse(use_, "the offset of a member is asked for"));
                }
                What::ConstructorList if is_moved => {
                    return Err(self.refuse(use_, "a constructor sets its members in their order"));
                }
                What::Escape(function) => match function.as_deref() {
                    Some("realloc") if align.is_some() => return Err(self.refuse(use_, "realloc can't align it")),
                    Some(known) if crate::allocation::TAKES_WHOLE.contains(&known) => {}
                    _ => return Err(self.refuse(use_, "here nothing tells any more that a pointer is one to it")),
                },
                What::New | What::Template if align.is_some() && found.is_cpp => {
                    return Err(self.refuse(use_, "what allocates it here aligns it only since C++17"));
                }
                What::Allocation(allocation) if align.is_some() => {
                    let why = format!("{} can't align it", allocation.function);
                    match allocation.allocator {
                        _ if !allocation.is_of_whole => {
                            return Err(self.refuse(use_, "how much is allocated is not understood"));
                        }
                        Allocator::Malloc | Allocator::Calloc => {}
                        Allocator::Aligned if allocation.alignment >= align => {}
                        Allocator::Aligned | Allocator::Other => return Err(self.refuse(use_, why)),
                    }
                    has_calloc |= self.align_allocation(allocation, align.unwrap_or_default())?;
                }
                What::Allocation(allocation) if is_moved && !allocation.is_of_whole => {
                    return Err(
                        self.refuse(use_, "how much is allocated is not understood: something may be behind it")
                    );
                }
                What::Inside { .. } if align.is_some() => {
                    return Err(
                        self.refuse(use_, "it is a member of another structure, which would have to be aligned, too")
                    );
                }
                _ => {}
            }
        }
        let definition = &found.definition;
        let (file, source) = (definition.file, found.source());
        let attribute = align.filter(|_| !found.is_cpp).map(|bytes| format!("_Alignas({bytes}) ")).unwrap_or_default();
        if is_moved {
            let open = definition.fields.iter().position(|field| field.type_text.ends_with("[]"));
            if open.is_some_and(|open| order.last() != Some(&open)) {
                return Err(found.refusal(definition.start, "its last member is an array without a length"));
            }
            let (Some(first), Some(last)) = (definition.declarations.first(), definition.declarations.last()) else {
                return Ok(());
            };
            for pair in definition.declarations.windows(2) {
                let gap = (pair[0].end, pair[1].start);
                let is_free = source.tokens(gap.0, gap.1).is_some_and(|tokens| tokens.is_empty());
                if !is_free || source.has_directive(gap.0, gap.1) {
                    return Err(found.refusal(pair[1].first, "something that is no member stands between its members"));
                }
            }
            let text = definition.text(source, order, definition.indentation(source), &attribute);
            let (start, end, text) = definition.in_lines(source, (first.start, last.end), text);
            self.edits.replace(file, (start, end), text);
        } else if !attribute.is_empty() {
            let first = definition.declarations.first().map_or(definition.open + 1, |first| first.first);
            self.edits.insert(file, first, attribute, first);
        }
        if let Some(bytes) = align.filter(|_| found.is_cpp) {
            let at = definition.start + definition.keyword.len();
            self.edits.insert(file, at, format!(" alignas({bytes})"), at);
        }
        if let Some(bytes) = align.filter(|_| has_calloc) {
            let code = generated::aligned_calloc(&self.calloc_name(), bytes);
            self.generate(&code, &["stdlib.h", "string.h"])?;
        }
        Ok(())
    }

    fn calloc_name(&self) -> String {
        self.found.new_name(&format!("{}_calloc", self.found.plain_name()))
    }

    /// Gives what a list says without names the names of its fields.
    fn designate(&mut self, list: &Initializer) -> Result<(), Refusal> {
        let refuse = |why: &str| Err(self.found.refusal_at(list.begin.expanded, why));
        // `{}` has nothing to name.
        if list.values.iter().all(Option::is_none) {
            return Ok(());
        }
        let Ok((file, start, end)) = self.range(list.begin, list.end) else {
            return refuse("an initializer of it is made by a macro");
        };
        let source = self.source(file);
        let Some(elements) = source.tokens(start, end).and_then(|tokens| elements(&tokens)) else {
            return refuse("an initializer of it has no braces of its own");
        };
        let is_zero = matches!(elements.as_slice(), [(_, "0")]);
        if is_zero || elements.iter().all(|(_, text)| *text == ".") && !self.found.is_cpp {
            return Ok(());
        }
        if self.found.is_cpp {
            return refuse("an initializer of it lists members in their order, which C++ can't change");
        }
        let said: Vec<usize> = list.values.iter().flatten().map(|value| value.expanded.offset).collect();
        let are_in_order = list.values.iter().take(said.len()).all(Option::is_some);
        if !are_in_order || said.len() != elements.len() || said.iter().zip(&elements).any(|(said, (at, _))| said != at)
        {
            return refuse("an initializer of it lists members in their order, and which is which is not understood");
        }
        for ((at, _), field) in elements.into_iter().zip(&self.found.definition.fields) {
            self.edits.insert(file, at, format!(".{} = ", field.name), at);
        }
        Ok(())
    }

    /// Has a block aligned; whether a function of our own has to.
    fn align_allocation(&mut self, allocation: &crate::allocation::Allocation, bytes: u32) -> Result<bool, Refusal> {
        let (file, start, end) = self.range(allocation.callee.0, allocation.callee.1)?;
        match allocation.allocator {
            Allocator::Malloc => {
                let source = self.source(file);
                let open = source.text[end..].find('(').filter(|at| source.text[end..end + at].trim().is_empty());
                let Some(open) = open else {
                    return Err(self.found.refusal_at(allocation.callee.0.expanded, "this call is not understood"));
                };
                self.edits.replace(file, (start, end), "aligned_alloc");
                let at = end + open + 1;
                self.edits.insert(file, at, format!("{bytes}, "), at);
                Ok(false)
            }
            Allocator::Calloc => {
                self.edits.replace(file, (start, end), self.calloc_name());
                Ok(true)
            }
            Allocator::Aligned | Allocator::Other => Ok(false),
        }
    }
}

/// Where each element of a list in braces begins, and its first token; none where it has none.
fn elements<'t>(tokens: &[crate::source::Token<'t>]) -> Option<Vec<(usize, &'t str)>> {
    let (open, close) = (tokens.first()?, tokens.last()?);
    if !open.is("{") || !close.is("}") {
        return None;
    }
    let inside = &tokens[1..tokens.len() - 1];
    let (mut depth, mut begins, mut found) = (0_usize, true, Vec::new());
    for token in inside {
        if begins {
            found.push((token.start, token.text));
            begins = false;
        }
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            "," if depth == 0 => begins = true,
            _ => {}
        }
    }
    Some(found)
}
