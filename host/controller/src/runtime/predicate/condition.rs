//! Translates CEL expressions to conditions, which need no interpreter and which the informer evaluates for all plugins at once.
//!
//! What has no translation becomes [`Condition::unknown`]. The interpreter evaluates from left to right, as a condition does, so wherever the
//! condition is true or false, the interpreter's value is the same.

use pilothouse_cel::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};
use pilothouse_informer::condition::{Condition, EventKind, FieldPath, MetadataPart};

use super::event_name;
use super::read_set::ReadSet;

/// The functions that compare the old state with the new one.
pub(super) const CHANGE_FUNCTIONS: [(&str, MetadataPart); 3] = [
    ("generationChanged", MetadataPart::Generation),
    ("labelsChanged", MetadataPart::Labels),
    ("annotationsChanged", MetadataPart::Annotations),
];

/// Translates an expression.
pub(super) struct Translation<'e> {
    /// The fields of `object` that the expression reads.
    pub(super) object: Option<&'e ReadSet>,
}

impl Translation<'_> {
    /// Returns the condition of an expression.
    pub(super) fn condition(&self, expression: &IdedExpr) -> Condition {
        match &expression.expr {
            Expr::Literal(LiteralValue::Boolean(value)) => Condition::constant(*value.inner()),
            Expr::Select(select) if select.test => {
                let names = path(&select.operand).map(|mut names| {
                    names.push(select.field.as_str());
                    names
                });
                let field = names.and_then(|names| self.field(&names));
                field.map_or_else(Condition::unknown, Condition::field_exists)
            }
            Expr::Call(call) if call.target.is_none() => self.call(call).unwrap_or_else(Condition::unknown),
            _ => Condition::unknown(),
        }
    }

    fn call(&self, call: &CallExpr) -> Option<Condition> {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_AND, [left, right]) => {
                Some(Condition::all([self.condition(left), self.condition(right)]))
            }
            (operators::LOGICAL_OR, [left, right]) => {
                Some(Condition::any([self.condition(left), self.condition(right)]))
            }
            (operators::LOGICAL_NOT, [inner]) => Some(self.condition(inner).negated()),
            (operators::EQUALS, [left, right]) => self.equality(left, right),
            (operators::NOT_EQUALS, [left, right]) => self.equality(left, right).map(Condition::negated),
            (operators::IN, [value, container]) => self.membership(value, container),
            (name, []) => {
                let (_, part) = CHANGE_FUNCTIONS.iter().find(|(known, _)| *known == name)?;
                Some(Condition::changed(*part))
            }
            _ => None,
        }
    }

    fn equality(&self, left: &IdedExpr, right: &IdedExpr) -> Option<Condition> {
        self.equals(left, right).or_else(|| self.equals(right, left))
    }

    /// Translates the comparison of a variable or a field with a literal.
    fn equals(&self, value: &IdedExpr, literal: &IdedExpr) -> Option<Condition> {
        match (&value.expr, &literal.expr) {
            (Expr::Ident(name), Expr::Literal(LiteralValue::String(text))) if name == "event" => {
                Some(is_event(text.inner()))
            }
            (Expr::Ident(name), Expr::Literal(LiteralValue::Null)) if name == "old" => {
                let with_old = [EventKind::Updated, EventKind::Resync].map(Condition::event);
                Some(Condition::any(with_old).negated())
            }
            (_, Expr::Literal(LiteralValue::String(text))) => {
                Some(Condition::field_equals(self.field_of(value)?, text.inner()))
            }
            _ => None,
        }
    }

    /// Translates `value in container`.
    fn membership(&self, value: &IdedExpr, container: &IdedExpr) -> Option<Condition> {
        if let Expr::List(list) = &container.expr {
            // Without elements, a missing field would not be an error.
            if list.elements.is_empty() || !list.optional_indices.is_empty() {
                return None;
            }
            let each: Option<Vec<_>> =
                list.elements.iter().map(|element| self.equals(value, element)).collect();
            return each.map(Condition::any);
        }
        let key = string(value)?;
        let is_labels = path(container).is_some_and(|names| names == ["metadata", "labels"]);
        is_labels.then(|| FieldPath::label(key))?.map(Condition::field_exists)
    }

    /// Returns the path of a field of `object`: a chain of members, or an entry of the labels.
    fn field_of(&self, expression: &IdedExpr) -> Option<FieldPath> {
        if let Expr::Call(call) = &expression.expr {
            let (operators::INDEX, [container, key]) = (call.func_name.as_str(), call.args.as_slice()) else {
                return None;
            };
            let is_labels = path(container)? == ["metadata", "labels"];
            return is_labels.then(|| FieldPath::label(string(key)?)).flatten();
        }
        self.field(&path(expression)?)
    }

    /// Returns the path of these members. `None` if the expression also reads a value that contains the field: if the text repeats a
    /// member, it might be another one there.
    fn field(&self, names: &[&str]) -> Option<FieldPath> {
        let is_label = matches!(names, ["metadata", "labels", _]);
        let is_read_alone = self.object.is_some_and(|read_set| read_set.reads_alone(names));
        (is_label || is_read_alone).then(|| FieldPath::members(names)).flatten()
    }
}

/// Returns the names of the members if the expression is a chain of selections from `object`.
fn path(expression: &IdedExpr) -> Option<Vec<&str>> {
    match &expression.expr {
        Expr::Ident(name) if name == "object" => Some(Vec::new()),
        Expr::Select(select) if !select.test => {
            let mut names = path(&select.operand)?;
            names.push(&select.field);
            Some(names)
        }
        _ => None,
    }
}

fn is_event(name: &str) -> Condition {
    let kind = EventKind::ALL.into_iter().find(|kind| event_name(*kind) == name);
    // No other text is ever the event.
    kind.map_or_else(|| Condition::constant(false), Condition::event)
}

fn string(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}
