//! Where the parts of an expression are in its text.
//!
//! The parser does not keep the positions. They are found again by walking over the expression and the tokens of its text side by side: the
//! parts of an expression that it was written with have the order of their tokens.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, SelectExpr, StructExpr, operators,
};

use crate::bounds::tokens::Tokens;
use crate::syntax::{is_name, subexpressions};

/// The offsets in bytes of the parts of an expression, by their ids. As in cel-go, that of an operator or a call is that of the operator or
/// the bracket.
pub(super) struct Positions(BTreeMap<u64, usize>);

impl Positions {
    /// Finds the positions. Parts whose tokens are not found have none.
    pub(super) fn of(text: &str, root: &IdedExpr) -> Self {
        let mut tokens = Tokens::of(text);
        let mut all = Vec::new();
        while let Some(Ok((start, _))) = tokens.next() {
            all.push((start, &text[start..tokens.end()]));
        }
        let mut walk = Walk { tokens: &all, next: 0, found: BTreeMap::new() };
        // The positions that were found before an unexpected token are right.
        let _ = walk.expression(root);
        Self(walk.found)
    }

    /// Returns the offset of a part.
    pub(super) fn offset(&self, part: &IdedExpr) -> Option<usize> {
        self.of_id(part.id)
    }

    /// Returns the offset of the part with this id.
    pub(super) fn of_id(&self, id: u64) -> Option<usize> {
        self.0.get(&id).copied()
    }
}

struct Walk<'t> {
    tokens: &'t [(usize, &'t str)],
    next: usize,
    found: BTreeMap<u64, usize>,
}

impl Walk<'_> {
    /// Returns the offset of the next token of this text, before which there may be brackets, commas and prefixes that cancel each other.
    fn token(&mut self, expected: &str) -> Option<usize> {
        loop {
            let (offset, text) = *self.tokens.get(self.next)?;
            self.next += 1;
            if text == expected {
                return Some(offset);
            }
            if !is_skipped(text) {
                return None;
            }
        }
    }

    fn name(&mut self, name: &str) -> Option<usize> {
        if self.peek_operand() == Some(".") && name.starts_with('.') {
            let offset = self.token(".")?;
            self.token(&name[1..])?;
            return Some(offset);
        }
        self.token(name)
    }

    /// Returns the text of the next token that is not skipped.
    fn peek_operand(&self) -> Option<&str> {
        let rest = self.tokens.get(self.next..)?;
        rest.iter().map(|(_, text)| *text).find(|text| !is_skipped(text))
    }

    /// Passes a literal, with the sign of a negative number.
    fn literal(&mut self) -> Option<usize> {
        let mut sign = None;
        loop {
            let (offset, text) = *self.tokens.get(self.next)?;
            self.next += 1;
            if !is_skipped(text) {
                return Some(sign.unwrap_or(offset));
            }
            sign = (text == "-").then_some(offset);
        }
    }

    fn expression(&mut self, part: &IdedExpr) -> Option<()> {
        let offset = match &part.expr {
            Expr::Literal(_) => self.literal()?,
            Expr::Ident(name) => self.name(name)?,
            Expr::Select(select) => self.select(select)?,
            Expr::Call(call) => self.call(call)?,
            Expr::List(list) => {
                let offset = self.token("[")?;
                for (position, element) in list.elements.iter().enumerate() {
                    if list.optional_indices.binary_search(&position).is_ok() {
                        self.token("?")?;
                    }
                    self.expression(element)?;
                }
                offset
            }
            Expr::Map(map) => {
                let offset = self.token("{")?;
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { return None };
                    if entry.optional {
                        self.token("?")?;
                    }
                    self.expression(&entry.key)?;
                    self.token(":")?;
                    self.expression(&entry.value)?;
                }
                offset
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, part)?,
            Expr::Struct(message) => self.object(message)?,
            Expr::Unspecified => return None,
        };
        self.found.insert(part.id, offset);
        Some(())
    }

    /// Passes the construction of an object. The position of a field is that of its colon.
    fn object(&mut self, message: &StructExpr) -> Option<usize> {
        let name = message.type_name.as_str();
        if name.starts_with('.') {
            self.token(".")?;
        }
        for (index, part) in name.trim_start_matches('.').split('.').enumerate() {
            if index > 0 {
                self.token(".")?;
            }
            self.token(part)?;
        }
        let offset = self.token("{")?;
        for entry in &message.entries {
            let EntryExpr::StructField(field) = &entry.expr else { return None };
            if field.optional {
                self.token("?")?;
            }
            self.token(&field.field)?;
            let colon = self.token(":")?;
            self.found.insert(entry.id, colon);
            self.expression(&field.value)?;
        }
        Some(offset)
    }

    fn select(&mut self, select: &SelectExpr) -> Option<usize> {
        let bracket = if select.test {
            self.token("has")?;
            Some(self.token("(")?)
        } else {
            None
        };
        self.expression(&select.operand)?;
        let dot = self.token(".")?;
        let (_, field) = self.tokens.get(self.next)?;
        self.next += 1;
        (field.trim_matches('`') == select.field).then_some(bracket.unwrap_or(dot))
    }

    fn call(&mut self, call: &CallExpr) -> Option<usize> {
        if let Some(target) = &call.target {
            self.expression(target)?;
            self.token(".")?;
            self.token(&call.func_name)?;
            return self.arguments(&call.args);
        }
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => {
                self.expression(condition)?;
                let offset = self.token("?")?;
                self.expression(yes)?;
                self.token(":")?;
                self.expression(no)?;
                Some(offset)
            }
            (operators::INDEX, [list, index]) => {
                self.expression(list)?;
                let offset = self.token("[")?;
                self.expression(index)?;
                Some(offset)
            }
            (operators::OPT_SELECT, [operand, _]) => {
                self.expression(operand)?;
                let offset = self.token(".")?;
                self.token("?")?;
                // The name of the field.
                self.next += 1;
                Some(offset)
            }
            (operators::OPT_INDEX, [list, index]) => {
                self.expression(list)?;
                let offset = self.token("[")?;
                self.token("?")?;
                self.expression(index)?;
                Some(offset)
            }
            (operators::LOGICAL_NOT | operators::NEGATE, [inner]) => {
                let offset = self.token(call.func_name.trim_end_matches('_'))?;
                self.expression(inner)?;
                Some(offset)
            }
            (name, arguments) if is_name(name) => {
                self.name(name)?;
                self.arguments(arguments)
            }
            (operator, [left, right]) => {
                self.expression(left)?;
                let offset = self.token(operator.trim_matches(['_', '@']))?;
                self.expression(right)?;
                Some(offset)
            }
            _ => None,
        }
    }

    fn arguments(&mut self, arguments: &[IdedExpr]) -> Option<usize> {
        let offset = self.token("(")?;
        arguments.iter().try_for_each(|argument| self.expression(argument))?;
        Some(offset)
    }

    /// Passes a macro. What the parser made of it without a text of its own has the position of its bracket.
    fn comprehension(&mut self, comprehension: &ComprehensionExpr, part: &IdedExpr) -> Option<usize> {
        self.expression(&comprehension.iter_range)?;
        self.token(".")?;
        let (_, name) = *self.tokens.get(self.next)?;
        self.next += 1;
        let offset = self.token("(")?;
        self.token(&comprehension.iter_var)?;
        written(name, &comprehension.loop_step)?.into_iter().try_for_each(|part| self.expression(part))?;
        let mut generated = subexpressions(&part.expr);
        while let Some(part) = generated.pop() {
            if let std::collections::btree_map::Entry::Vacant(entry) = self.found.entry(part.id) {
                entry.insert(offset);
                generated.extend(subexpressions(&part.expr));
            }
        }
        Some(offset)
    }
}

/// Returns the arguments of a macro after its variable, which are parts of its step.
fn written<'e>(name: &str, step: &'e IdedExpr) -> Option<Vec<&'e IdedExpr>> {
    let Expr::Call(step) = &step.expr else { return None };
    match (name, step.func_name.as_str(), step.args.as_slice()) {
        (_, operators::LOGICAL_AND | operators::LOGICAL_OR, [_, predicate]) => Some(vec![predicate]),
        ("map", operators::ADD, [_, values]) => Some(vec![only_element(values)?]),
        ("map", operators::CONDITIONAL, [filter, IdedExpr { expr: Expr::Call(sum), .. }, _]) => {
            Some(vec![filter, only_element(sum.args.get(1)?)?])
        }
        (_, operators::CONDITIONAL, [condition, ..]) => Some(vec![condition]),
        _ => None,
    }
}

fn only_element(list: &IdedExpr) -> Option<&IdedExpr> {
    match &list.expr {
        Expr::List(list) => list.elements.first(),
        _ => None,
    }
}

fn is_skipped(token: &str) -> bool {
    matches!(token, "(" | ")" | "[" | "]" | "{" | "}" | "," | "!" | "-")
}
