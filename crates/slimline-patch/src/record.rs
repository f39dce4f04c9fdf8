//! The structure's definition: its fields, and their text.

use crate::source::{Source, Token};
use crate::tree::{FileId, Node};

/// Where and how the structure is defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) file: FileId,
    /// `struct` or `class`.
    pub(crate) keyword: String,
    /// Its tag; empty where it has only a name of its own.
    pub(crate) tag: String,
    /// The bytes of the keyword to the closing brace.
    pub(crate) start: usize,
    pub(crate) open: usize,
    pub(crate) close: usize,
    /// Behind the declaration that it is in.
    pub(crate) end: usize,
    /// Whether it is in a namespace.
    pub(crate) is_in_namespace: bool,
    pub(crate) fields: Vec<Field>,
    /// Its declarations of fields, in order.
    pub(crate) declarations: Vec<Declaration>,
}

/// A field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// Its type.
    pub(crate) type_text: String,
    pub(crate) is_bit_field: bool,
    /// Which of the declarations it is in.
    pub(crate) declaration: usize,
    /// `*next`.
    pub(crate) declarator: String,
}

/// `double x, y;`, which may declare several fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declaration {
    /// With comments before it, and behind it on its line.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The first token.
    pub(crate) first: usize,
    /// `double`.
    pub(crate) specifier: String,
    pub(crate) fields: Vec<usize>,
}

/// What is wrong with a definition, and where.
pub(crate) type Fault = (usize, String);

impl Definition {
    /// Of a record's declaration in a source.
    ///
    /// # Errors
    /// Text that is not understood.
    pub(crate) fn read(node: &Node, (file, source): (FileId, &Source), is_in_namespace: bool) -> Result<Self, Fault> {
        let start = node.begin.spelled.offset;
        let fault = |at: usize, why: &str| Err((at, why.to_owned()));
        if node.begin.is_in_macro || node.end.is_in_macro || node.begin.spelled != node.begin.expanded {
            return fault(node.begin.expanded.offset, "its definition is made by a macro");
        }
        if node.inner.iter().any(|inner| LAID_OUT.contains(&inner.kind.as_str())) {
            return fault(start, "its layout is declared by an attribute or a pragma");
        }
        let close = node.end.spelled.offset;
        let Some(tokens) = source.tokens(start, source.text.len()) else { return fault(start, NOT_READ) };
        let Some(open) = tokens.iter().position(|token| token.is("{")).filter(|at| tokens[*at].start < close) else {
            return fault(start, NOT_READ);
        };
        let head = &tokens[..open];
        if let Some(token) =
            head.iter().find(|token| ["__attribute__", "alignas", "_Alignas", "["].contains(&token.text))
        {
            return fault(token.start, "its layout is declared by an attribute");
        }
        if head.iter().any(|token| token.is(":")) {
            return fault(start, "it has a parent");
        }
        let Some(closing) = tokens.iter().position(|token| token.start == close) else { return fault(start, NOT_READ) };
        let Some(semicolon) = tokens[closing..].iter().position(|token| token.is(";")) else {
            return fault(start, NOT_READ);
        };
        if let Some(token) = tokens[closing..closing + semicolon].iter().find(|token| token.is("__attribute__")) {
            return fault(token.start, "its layout is declared by an attribute");
        }
        let mut definition = Self {
            file,
            keyword: tokens[0].text.to_owned(),
            tag: node.name.clone(),
            start,
            open: tokens[open].start,
            close,
            end: tokens[closing + semicolon].end,
            is_in_namespace,
            fields: Vec::new(),
            declarations: Vec::new(),
        };
        definition.read_fields(node, source, &tokens[open + 1..closing])?;
        Ok(definition)
    }

    fn read_fields(&mut self, node: &Node, source: &Source, body: &[Token<'_>]) -> Result<(), Fault> {
        for field in node.inner.iter().filter(|inner| inner.kind == "FieldDecl") {
            let (name, first) = (field.place.spelled.offset, field.begin.spelled.offset);
            if field.place.spelled != field.place.expanded || field.begin.spelled != field.begin.expanded {
                return Err((field.place.expanded.offset, "a member of it is made by a macro".to_owned()));
            }
            if field.name.is_empty() {
                return Err((first, "it has a member without a name".to_owned()));
            }
            if self.declarations.last().is_none_or(|last| last.first != first) {
                self.declarations.push(declaration(source, body, (self.open + 1, self.close), first)?);
            }
            let number = self.fields.len();
            let at = self.declarations.len() - 1;
            let declaration = &mut self.declarations[at];
            declaration.fields.push(number);
            let tokens = statement(body, first).ok_or((first, NOT_READ.to_owned()))?;
            let declarator = declarator(source, tokens, name).ok_or((first, NOT_READ.to_owned()))?;
            if declaration.fields.len() == 1 {
                let specifier = source.text.get(first..declarator.0).unwrap_or_default();
                specifier.trim_end().clone_into(&mut declaration.specifier);
            }
            self.fields.push(Field {
                name: field.name.clone(),
                type_text: field.type_text.text().to_owned(),
                is_bit_field: field.is_bit_field,
                declaration: at,
                declarator: source.text[declarator.0..declarator.1].to_owned(),
            });
        }
        Ok(())
    }

    /// The text of these fields' declarations, one a line where they are not together as they were, with these blanks before each; the
    /// first with an attribute.
    pub(crate) fn text(&self, source: &Source, fields: &[usize], indentation: &str, attribute: &str) -> String {
        let mut text = String::new();
        let mut attribute = Some(attribute);
        let mut at = 0;
        while at < fields.len() {
            let declaration = &self.declarations[self.fields[fields[at]].declaration];
            let first = attribute.take().unwrap_or_default();
            let before = source.text[declaration.start..declaration.first].trim();
            let count = declaration.fields.len();
            let is_whole = fields.get(at..at + count).is_some_and(|those| those == declaration.fields);
            // A comment stays with the first.
            if !before.is_empty() && declaration.fields[0] == fields[at] {
                text += &format!("{indentation}{before}\n");
            }
            if is_whole {
                let own = source.text[declaration.first..declaration.end].trim_end();
                text += &format!("{indentation}{first}{own}\n");
                at += count;
                continue;
            }
            let field = &self.fields[fields[at]];
            text += &format!("{indentation}{first}{} {};\n", declaration.specifier, field.declarator);
            at += 1;
        }
        text
    }

    /// Text of lines in the place of these bytes, which may be a part of a line.
    pub(crate) fn in_lines(
        &self,
        source: &Source,
        (start, mut end): (usize, usize),
        text: String,
    ) -> (usize, usize, String) {
        let begins_line = source.text[..start].ends_with('\n');
        if !source.text[..end].ends_with('\n') && source.text[end..self.close].trim().is_empty() {
            end = self.close;
        }
        (start, end, if begins_line { text } else { format!("\n{text}") })
    }

    /// The bytes of a declaration, or of what is left of it without these fields, and the text that it has then.
    pub(crate) fn without(&self, source: &Source, number: usize, gone: &[usize]) -> Option<(usize, usize, String)> {
        let declaration = &self.declarations[number];
        let left: Vec<usize> = declaration.fields.iter().copied().filter(|field| !gone.contains(field)).collect();
        if left.len() == declaration.fields.len() {
            return None;
        }
        if left.is_empty() {
            return Some((declaration.start, declaration.end, String::new()));
        }
        let declarators: Vec<&str> = left.iter().map(|field| self.fields[*field].declarator.as_str()).collect();
        let text = format!("{} {};", declaration.specifier, declarators.join(", "));
        let end = statement_end(source, declaration)?;
        Some((declaration.first, end, text))
    }

    /// How the first field is indented.
    pub(crate) fn indentation<'a>(&self, source: &'a Source) -> &'a str {
        match self.declarations.first() {
            Some(first) if source.line(first.first) != source.line(self.open) => source.indentation(first.first).1,
            _ => "    ",
        }
    }

    /// `struct node`, or `node` where it has no tag.
    pub(crate) fn spelled(&self, alias: &str) -> String {
        if self.tag.is_empty() { alias.to_owned() } else { format!("struct {}", self.tag) }
    }
}

/// Behind a declaration's semicolon.
fn statement_end(source: &Source, declaration: &Declaration) -> Option<usize> {
    let tokens = source.tokens(declaration.first, declaration.end)?;
    tokens.last().filter(|last| last.is(";")).map(|last| last.end)
}

/// Attributes that say where fields are.
const LAID_OUT: [&str; 5] =
    ["PackedAttr", "MaxFieldAlignmentAttr", "AlignedAttr", "MSStructAttr", "RandomizeLayoutAttr"];
const NOT_READ: &str = "its definition is not understood";

/// The tokens of the statement that begins at a byte, up to its semicolon.
fn statement<'a, 't>(body: &'a [Token<'t>], first: usize) -> Option<&'a [Token<'t>]> {
    let from = body.iter().position(|token| token.start == first)?;
    let mut depth = 0_usize;
    let length = body[from..].iter().position(|token| {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && token.is(";")
    })?;
    Some(&body[from..=from + length])
}

fn declaration(
    source: &Source,
    body: &[Token<'_>],
    inside: (usize, usize),
    first: usize,
) -> Result<Declaration, Fault> {
    let fault = || (first, NOT_READ.to_owned());
    let tokens = statement(body, first).ok_or_else(fault)?;
    if let Some(token) = tokens
        .iter()
        .find(|token| ["__attribute__", "alignas", "_Alignas", "typeof", "__typeof__"].contains(&token.text))
    {
        return Err((token.start, format!("a member of it is declared with {}", token.text)));
    }
    let end = tokens.last().map(|token| token.end).ok_or_else(fault)?;
    let before = body.iter().rev().find(|token| token.start < first).map_or(inside.0, |token| token.end);
    Ok(Declaration {
        start: lead(source, before, first),
        end: trail(source, end, inside.1),
        first,
        specifier: String::new(),
        fields: Vec::new(),
    })
}

/// Where the comment before a declaration begins: behind the last directive, and behind what stands on the line of the one before it.
fn lead(source: &Source, before: usize, first: usize) -> usize {
    let gap = &source.text[before..first];
    // What is behind the last one on its line is its own.
    let mut start = match gap.find('\n') {
        Some(end) => before + end + 1,
        None => return before,
    };
    let mut line_start = start;
    for line in source.text[start..first].split_inclusive('\n') {
        line_start += line.len();
        if line.trim_start().starts_with('#') || line.trim().is_empty() && line.ends_with('\n') {
            start = line_start;
        }
    }
    start
}

/// Behind a comment that stands on the declaration's line, and the line's end, where nothing else stands there.
fn trail(source: &Source, end: usize, close: usize) -> usize {
    let line = source.text[end..close].find('\n').map_or(close, |length| end + length + 1);
    let rest = &source.text[end..line];
    let is_only_comment = source.tokens(end, line).is_some_and(|tokens| tokens.is_empty());
    // A comment that goes on in the next line is left where it is.
    let is_whole = rest.matches("/*").count() == rest.matches("*/").count();
    if rest.ends_with('\n') && is_only_comment && is_whole { line } else { end }
}

/// The bytes of the declarator that declares the name at that byte.
fn declarator(source: &Source, tokens: &[Token<'_>], name: usize) -> Option<(usize, usize)> {
    let at = tokens.iter().position(|token| token.start == name)?;
    // Back to a comma, or to what belongs to the type: a name, or a brace.
    let mut from = at;
    while from > 0 && matches!(tokens[from - 1].text, "*" | "(" | "const" | "restrict" | "volatile") {
        from -= 1;
    }
    // `struct x const *p`: those before the first star are the type's.
    while from < at && !matches!(tokens[from].text, "*" | "(") {
        from += 1;
    }
    let mut depth = tokens[from..at].iter().filter(|token| token.is("(")).count();
    let length = tokens[at..].iter().position(|token| {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(token.text, "," | ";")
    })?;
    let last = tokens.get((at + length).checked_sub(1)?)?;
    source.text.get(tokens[from].start..last.end)?;
    Some((tokens[from].start, last.end))
}
