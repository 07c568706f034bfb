//! What a CEL expression reads of a variable that is an object, so that a tree is made of that, and not of all the object.

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};
use pilothouse_model::Object;
use serde_json::Value;

/// What is read of a value.
#[derive(Debug, PartialEq)]
pub(super) struct Reads {
    /// Where the value is in the object.
    pointer: String,
    part: Part,
}

#[derive(Debug, PartialEq)]
enum Part {
    All,
    /// These, if it is an object; else it is read as it is.
    Members(Vec<(String, Reads)>),
}

impl Reads {
    /// What the expression reads of the variable; `None` if it does not have it.
    pub(super) fn of(expression: &IdedExpr, variable: &str) -> Option<Self> {
        let mut reads = Self { pointer: String::new(), part: Part::Members(Vec::new()) };
        reads.collect(expression, variable).then_some(reads)
    }

    /// Takes in what the expression reads; whether it reads anything. A variable of a macro that has the same name is taken for this one:
    /// that is more than is read, and never less.
    fn collect(&mut self, expression: &IdedExpr, variable: &str) -> bool {
        if let Some(path) = path(expression, variable) {
            self.add(&path);
            return true;
        }
        inner(&expression.expr).into_iter().fold(false, |found, part| self.collect(part, variable) | found)
    }

    fn add(&mut self, path: &[&str]) {
        let Some((name, further)) = path.split_first() else {
            self.part = Part::All;
            return;
        };
        // In a pointer that would be an element of an array, too.
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            self.part = Part::All;
        }
        let Part::Members(members) = &mut self.part else { return };
        let known = members.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            let pointer = format!("{}/{}", self.pointer, name.replace('~', "~0").replace('/', "~1"));
            members.push(((*name).to_owned(), Self { pointer, part: Part::Members(Vec::new()) }));
            members.len() - 1
        });
        members[known].1.add(further);
    }

    /// The object as far as it is read.
    pub(super) fn tree(&self, object: &Object) -> Value {
        self.value(object).unwrap_or_default()
    }

    fn value(&self, object: &Object) -> Option<Value> {
        // The text was validated when the object was made.
        let whole = || object.field(&self.pointer).map(|text| serde_json::from_str(text).unwrap_or_default());
        let Part::Members(members) = &self.part else { return whole() };
        let found: serde_json::Map<_, _> =
            members.iter().filter_map(|(name, reads)| Some((name.clone(), reads.value(object)?))).collect();
        // Without one of them it may be no object at all.
        if found.is_empty() && !object.field(&self.pointer)?.starts_with('{') {
            return whole();
        }
        Some(Value::Object(found))
    }
}

/// The names by which an expression goes from the variable to what it reads.
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

/// The expressions that one is made of.
pub(super) fn inner(expression: &Expr) -> Vec<&IdedExpr> {
    match expression {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Map(map) => map.entries.iter().flat_map(|entry| parts(&entry.expr)).collect(),
        Expr::Struct(made) => made.entries.iter().flat_map(|entry| parts(&entry.expr)).collect(),
        Expr::Comprehension(made) => {
            vec![&made.iter_range, &made.accu_init, &made.loop_cond, &made.loop_step, &made.result]
        }
    }
}

/// The expressions that an entry of a map is made of.
pub(super) fn parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

#[cfg(test)]
mod tests {
    use kube_cel::cel::Program;
    use serde_json::json;

    use super::*;

    fn reads(text: &str) -> Option<Reads> {
        Reads::of(Program::compile(text).expect(text).expression(), "object")
    }

    #[test]
    fn no_more_is_read_than_the_expression_names() {
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
            assert_eq!(reads(expression).expect(expression).tree(&object), read, "{expression}");
        }
        assert_eq!(reads("event == 'added' && [1].all(i, i > 0)"), None);
    }
}
