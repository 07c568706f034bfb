//! The fields that a CEL expression reads of an object, so that only those are converted to CEL values.

use pilothouse_cel::ast::{Expr, IdedExpr};
use pilothouse_cel::syntax::subexpressions;
use pilothouse_model::Object;
use serde_json::Value;

/// What is read of a value.
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
    /// Returns what the expression reads of the variable; `None` if it does not use the variable.
    pub(super) fn of(expression: &IdedExpr, variable: &str) -> Option<Self> {
        let mut read_set = Self { pointer: String::new(), extent: Extent::Members(Vec::new()) };
        read_set.collect(expression, variable).then_some(read_set)
    }

    /// Adds what the expression reads, and returns whether that is anything. A macro's variable of the same name is mistaken for this one,
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

    /// Returns the part of the object that is read.
    pub(super) fn extract(&self, object: &Object) -> Value {
        self.value(object).unwrap_or_default()
    }

    fn value(&self, object: &Object) -> Option<Value> {
        // The text is valid JSON: the object was parsed before.
        let whole = || object.field(&self.pointer).map(|text| serde_json::from_str(text).unwrap_or_default());
        let Extent::Members(members) = &self.extent else { return whole() };
        let found: serde_json::Map<_, _> = members
            .iter()
            .filter_map(|(name, read_set)| Some((name.clone(), read_set.value(object)?)))
            .collect();
        // Without any of the members, the value may not be an object at all.
        if found.is_empty() && !object.field(&self.pointer)?.starts_with('{') {
            return whole();
        }
        Some(Value::Object(found))
    }
}

/// Returns the path of member names if the expression is a chain of selections that starts at the variable.
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
            ("object.kind == 'Pod' && object == object", whole.clone()),
        ] {
            assert_eq!(read_set(expression).expect(expression).extract(&object), read, "{expression}");
        }
        assert_eq!(read_set("event == 'added' && [1].all(i, i > 0)"), None);
    }
}
