//! The fields of an object that a CEL expression reads, so that only those are converted to CEL values.

use pilothouse_cel::ast::{Expr, IdedExpr, LiteralValue, operators};
use pilothouse_cel::syntax::subexpressions;
use pilothouse_cel::{Budget, EvaluationError};
use pilothouse_model::Object;
use serde_json::Value;

/// The fields of a value that an expression reads.
#[derive(Debug, PartialEq)]
pub(super) struct ReadSet {
    /// The JSON pointer to the value in the object.
    pointer: String,
    extent: Extent,
}

#[derive(Debug, PartialEq)]
enum Extent {
    Whole,
    /// These members if the value is an object; otherwise the whole value.
    Members(Vec<(String, ReadSet)>),
}

impl ReadSet {
    /// Returns the fields of the variable that the expression reads; `None` if it does not use the variable.
    pub(super) fn of(expression: &IdedExpr, variable: &str) -> Option<Self> {
        let mut read_set = Self { pointer: String::new(), extent: Extent::Members(Vec::new()) };
        read_set.collect(expression, variable).then_some(read_set)
    }

    /// Adds the fields that the expression reads. Returns whether it uses the variable. A macro's variable of the same name is mistaken for this one,
    /// which can only make the set larger than necessary.
    fn collect(&mut self, expression: &IdedExpr, variable: &str) -> bool {
        if let Some(path) = path(expression, variable) {
            self.add(&path);
            return true;
        }
        subexpressions(&expression.expr)
            .into_iter()
            .fold(false, |found, subexpression| self.collect(subexpression, variable) | found)
    }

    fn add(&mut self, path: &[&str]) {
        let Some((name, rest)) = path.split_first() else {
            self.extent = Extent::Whole;
            return;
        };
        // In a JSON pointer, a number would also match an element of an array.
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            self.extent = Extent::Whole;
        }
        let Extent::Members(members) = &mut self.extent else { return };
        let position = members.iter().position(|(member, _)| member == name).unwrap_or_else(|| {
            let pointer = format!("{}/{}", self.pointer, name.replace('~', "~0").replace('/', "~1"));
            members.push(((*name).to_owned(), Self { pointer, extent: Extent::Members(Vec::new()) }));
            members.len() - 1
        });
        members[position].1.add(rest);
    }

    /// Whether the expression reads the value at this path, and no value that contains it as a whole.
    pub(super) fn reads_alone(&self, names: &[&str]) -> bool {
        match (names.split_first(), &self.extent) {
            (None, Extent::Whole) => true,
            (Some((name, rest)), Extent::Members(members)) => {
                let member = members.iter().find(|(member, _)| member == name);
                member.is_some_and(|(_, read_set)| read_set.reads_alone(rest))
            }
            _ => false,
        }
    }

    /// Returns the part of the object that is read.
    ///
    /// # Errors
    /// Its conversion exceeds the budget, or it nests more deeply than `serde_json` reads (128 levels).
    pub(super) fn extract(&self, object: &Object, budget: &mut Budget) -> Result<Value, EvaluationError> {
        Ok(self.value(object, budget)?.unwrap_or_default())
    }

    fn value(&self, object: &Object, budget: &mut Budget) -> Result<Option<Value>, EvaluationError> {
        let Extent::Members(members) = &self.extent else { return self.whole(object, budget) };
        let mut found = serde_json::Map::new();
        for (name, read_set) in members {
            if let Some(value) = read_set.value(object, budget)? {
                found.insert(name.clone(), value);
            }
        }
        // Without any of the members, the value may not be an object at all.
        if found.is_empty() {
            match lookup(object, &self.pointer, budget)? {
                None => return Ok(None),
                Some(text) if !text.starts_with('{') => return self.whole(object, budget),
                Some(_) => {}
            }
        }
        Ok(Some(Value::Object(found)))
    }

    fn whole(&self, object: &Object, budget: &mut Budget) -> Result<Option<Value>, EvaluationError> {
        let Some(text) = lookup(object, &self.pointer, budget)? else { return Ok(None) };
        budget.charge_json(text)?;
        // The text is valid JSON, because the object was parsed before. Only its depth can be refused.
        serde_json::from_str(text).map(Some).map_err(|_| EvaluationError::Depth)
    }
}

/// Looks up a value. Charges the text up to its end; the whole text if it is absent.
fn lookup<'o>(
    object: &'o Object,
    pointer: &str,
    budget: &mut Budget,
) -> Result<Option<&'o str>, EvaluationError> {
    let (json, found) = (object.json(), object.field(pointer));
    let scanned = found.map_or(json.len(), |value| {
        // The value is a slice of the text.
        value.as_ptr().addr().wrapping_sub(json.as_ptr().addr()).wrapping_add(value.len())
    });
    budget.charge_lookup(scanned)?;
    Ok(found)
}

/// Returns the path of member names if the expression is a chain of selections, which may be optional, that starts at the variable.
fn path<'e>(mut expression: &'e IdedExpr, variable: &str) -> Option<Vec<&'e str>> {
    let mut names = Vec::new();
    loop {
        match &expression.expr {
            Expr::Ident(name) if name == variable => {
                names.reverse();
                return Some(names);
            }
            Expr::Select(select) => {
                names.push(select.field.as_str());
                expression = &select.operand;
            }
            Expr::Call(call) => {
                let (operators::OPT_SELECT, [operand, field]) =
                    (call.func_name.as_str(), call.args.as_slice())
                else {
                    return None;
                };
                let Expr::Literal(LiteralValue::String(name)) = &field.expr else { return None };
                names.push(name.inner());
                expression = operand;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_cel::Expression;
    use serde_json::json;

    use super::*;

    fn read_set(text: &str) -> Option<ReadSet> {
        ReadSet::of(Expression::compile(text).expect(text).root(), "object")
    }

    #[test]
    fn only_the_fields_that_an_expression_names_are_read() {
        let whole = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "generation": 3, "labels": {"app/x": "web", "tier": "b"}},
            "spec": {"containers": [{"name": "c"}], "nodeName": null, "list": [1, 2]},
            "status": "odd",
        });
        let object = Object::from_json(whole.to_string()).expect("an object");
        for (expression, read) in [
            (
                "has(object.metadata.generation) && object.metadata.generation > 0",
                json!({"metadata": {"generation": 3}}),
            ),
            (
                "object.metadata.labels['app/x'] == 'web'",
                json!({"metadata": {"labels": whole["metadata"]["labels"]}}),
            ),
            (
                "object.metadata.labels.tier == 'b' || object.metadata.name == 'a'",
                json!({"metadata": {"labels": {"tier": "b"}, "name": "a"}}),
            ),
            ("object.metadata.nothing == object.metadata.at.all", json!({"metadata": {}})),
            ("object.nothing.at.all == 1 || has(object.kind)", json!({"kind": "Pod"})),
            ("object.nothing == 1", json!({})),
            ("has(object.status.phase)", json!({"status": "odd"})),
            (
                "object.spec.nodeName == null && object.spec.list.x == 1",
                json!({"spec": {"nodeName": null, "list": [1, 2]}}),
            ),
            (
                "object.spec.containers.all(c, c.name != object.kind)",
                json!({"spec": {"containers": [{"name": "c"}]}, "kind": "Pod"}),
            ),
            (
                "{'a': object.kind}.a == [object.metadata.name][0]",
                json!({"kind": "Pod", "metadata": {"name": "a"}}),
            ),
            (
                "object.metadata.labels == object.metadata.labels.tier",
                json!({"metadata": {"labels": whole["metadata"]["labels"]}}),
            ),
            ("object['kind'] == 'Pod'", whole.clone()),
            (
                "object.?metadata.labels.tier.orValue('') == 'b' || object.metadata.?generation.hasValue()",
                json!({"metadata": {"labels": {"tier": "b"}, "generation": 3}}),
            ),
            (
                "object.spec[?'list'].optMap(list, list.all(i, n, i < n && object.kind != ''))",
                json!({"spec": whole["spec"], "kind": "Pod"}),
            ),
            ("object.kind == 'Pod' && object == object", whole.clone()),
        ] {
            let extracted = read_set(expression).expect(expression).extract(&object, &mut Budget::full());
            assert_eq!(extracted, Ok(read), "{expression}");
        }
        assert_eq!(read_set("event == 'added' && [1].all(i, i > 0)"), None);
    }
}
