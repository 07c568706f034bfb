//! Templates: JSON values with CEL expressions in `${…}`.
//!
//! A template is written as YAML, or as a text that contains YAML. The second form exists because `${name}` would be a
//! mapping in YAML's flow style. A text that consists of one expression gets its value with its type; otherwise the
//! value is inserted as text. Expressions are replaced before the YAML is parsed, and their values are inserted
//! afterwards, so that no value can change the structure.

use std::sync::Arc;

use pilothouse_cel::Value as CelValue;
use serde_json::{Map, Value};

use super::document::parse_yaml;
use super::kinds::Kinds;
use super::program::{ObjectValues, Program, to_json};
use super::text::quoted;

/// The most expressions in one template.
const MAX_EXPRESSIONS: usize = 100;
/// What stands for an expression while the YAML is parsed: a character that no YAML text of a user may contain, and the
/// position of the expression as a letter.
const MARK: char = '\u{E000}';

/// A template.
#[derive(Debug)]
pub struct Template(Node);

#[derive(Debug)]
enum Node {
    Fixed(Value),
    /// One expression, whose value keeps its type.
    Value(Arc<Program>),
    Text(Vec<Segment>),
    List(Vec<Node>),
    Map(Vec<(Vec<Segment>, Node)>),
}

#[derive(Debug)]
enum Segment {
    Fixed(String),
    Expression(Arc<Program>),
}

impl Template {
    /// Parses a template whose expressions may use these variables.
    ///
    /// # Errors
    /// Errors with one line if the text is no YAML, or an expression is not valid.
    pub fn parse(value: &Value, variables: &[&str], kinds: &Arc<Kinds>) -> Result<Self, String> {
        let Value::String(text) = value else { return Self::of_value(value, variables, kinds) };
        let mut expressions = Expressions { found: Vec::new(), variables, kinds };
        let marked = expressions.mark(text)?;
        let parsed: Value = parse_yaml(&marked)?;
        Ok(Self(expressions.node(&parsed)))
    }

    /// Parses a template in which a text is a text, not YAML.
    ///
    /// # Errors
    /// Errors with one line if an expression is not valid.
    pub fn of_value(value: &Value, variables: &[&str], kinds: &Arc<Kinds>) -> Result<Self, String> {
        let mut expressions = Expressions { found: Vec::new(), variables, kinds };
        let marked = expressions.mark_leaves(value)?;
        Ok(Self(expressions.node(&marked)))
    }

    /// Whether an expression of the template uses a variable.
    #[must_use]
    pub fn uses(&self, variable: &str) -> bool {
        self.0.uses(variable)
    }

    /// Returns the value with all expressions evaluated.
    ///
    /// # Errors
    /// Errors with one line if an evaluation fails, or its value cannot be written as JSON.
    pub fn render(
        &self,
        variables: &[(&str, CelValue)],
        objects: &dyn ObjectValues,
    ) -> Result<Value, String> {
        self.0.render(&Scope { variables, objects })
    }
}

/// What expressions read while a template is rendered.
struct Scope<'a> {
    variables: &'a [(&'a str, CelValue)],
    objects: &'a dyn ObjectValues,
}

impl Scope<'_> {
    fn value(&self, program: &Program) -> Result<Value, String> {
        let value = program.evaluate(self.variables.to_vec(), self.objects)?;
        to_json(&value).ok_or_else(|| {
            format!(
                "{} is of the type {}, which JSON has not; convert it, for example by string()",
                program.text(),
                value.type_of()
            )
        })
    }

    fn text(&self, segments: &[Segment]) -> Result<String, String> {
        let mut text = String::new();
        for segment in segments {
            match segment {
                Segment::Fixed(fixed) => text.push_str(fixed),
                Segment::Expression(program) => match self.value(program)? {
                    Value::String(value) => text.push_str(&value),
                    value @ (Value::Number(_) | Value::Bool(_)) => text.push_str(&value.to_string()),
                    _ => {
                        return Err(format!(
                            "{} is no text, number or boolean inside a text",
                            program.text()
                        ));
                    }
                },
            }
        }
        Ok(text)
    }
}

impl Node {
    fn render(&self, scope: &Scope<'_>) -> Result<Value, String> {
        Ok(match self {
            Self::Fixed(value) => value.clone(),
            Self::Value(program) => scope.value(program)?,
            Self::Text(segments) => Value::String(scope.text(segments)?),
            Self::List(nodes) => {
                Value::Array(nodes.iter().map(|node| node.render(scope)).collect::<Result<_, _>>()?)
            }
            Self::Map(members) => {
                let mut map = Map::new();
                for (name, node) in members {
                    map.insert(scope.text(name)?, node.render(scope)?);
                }
                Value::Object(map)
            }
        })
    }

    fn uses(&self, variable: &str) -> bool {
        let in_text = |segments: &[Segment]| {
            segments
                .iter()
                .any(|segment| matches!(segment, Segment::Expression(program) if program.uses(variable)))
        };
        match self {
            Self::Fixed(_) => false,
            Self::Value(program) => program.uses(variable),
            Self::Text(segments) => in_text(segments),
            Self::List(nodes) => nodes.iter().any(|node| node.uses(variable)),
            Self::Map(members) => members.iter().any(|(name, node)| in_text(name) || node.uses(variable)),
        }
    }
}

/// The expressions of a template, while it is parsed.
struct Expressions<'a> {
    found: Vec<Arc<Program>>,
    variables: &'a [&'a str],
    kinds: &'a Arc<Kinds>,
}

impl Expressions<'_> {
    /// Replaces each `${…}` by a mark.
    fn mark(&mut self, text: &str) -> Result<String, String> {
        if text.contains(MARK) {
            return Err(format!("{} contains the character U+E000; leave it out", quoted(text)));
        }
        let mut marked = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, expression) = (&rest[..start], &rest[start + 2..]);
            let end = end_of_expression(expression).ok_or_else(|| {
                format!("{} has no closing brace; write ${{EXPRESSION}}", quoted(&rest[start..]))
            })?;
            if self.found.len() == MAX_EXPRESSIONS {
                return Err(format!("a template has more than {MAX_EXPRESSIONS} expressions; use fewer"));
            }
            let program = Program::compile(&expression[..end], self.variables, self.kinds)?;
            marked.push_str(before);
            marked.push(MARK);
            marked.push(mark_of(self.found.len()));
            self.found.push(Arc::new(program));
            rest = &expression[end + 1..];
        }
        marked.push_str(rest);
        Ok(marked)
    }

    /// Replaces the expressions in all texts of a value.
    fn mark_leaves(&mut self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => Value::String(self.mark(text)?),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.mark_leaves(item)).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let mut marked = Map::new();
                for (name, value) in members {
                    marked.insert(self.mark(name)?, self.mark_leaves(value)?);
                }
                Value::Object(marked)
            }
            other => other.clone(),
        })
    }

    fn node(&self, value: &Value) -> Node {
        match value {
            Value::String(text) if text.contains(MARK) => {
                let mut segments = self.segments(text);
                match (segments.pop(), segments.is_empty()) {
                    (Some(Segment::Expression(program)), true) => Node::Value(program),
                    (last, _) => {
                        segments.extend(last);
                        Node::Text(segments)
                    }
                }
            }
            Value::Array(items) => Node::List(items.iter().map(|item| self.node(item)).collect()),
            Value::Object(members) => Node::Map(
                members.iter().map(|(name, value)| (self.segments(name), self.node(value))).collect(),
            ),
            other => Node::Fixed(other.clone()),
        }
    }

    fn segments(&self, text: &str) -> Vec<Segment> {
        let mut parts = text.split(MARK);
        let fixed = |text: &str| (!text.is_empty()).then(|| Segment::Fixed(text.to_owned()));
        let mut segments: Vec<Segment> = parts.next().and_then(fixed).into_iter().collect();
        for part in parts {
            let mut characters = part.chars();
            if let Some(program) = characters.next().and_then(|mark| self.found.get(position_of(mark)?)) {
                segments.push(Segment::Expression(Arc::clone(program)));
            }
            segments.extend(fixed(characters.as_str()));
        }
        segments
    }
}

/// Returns the character of the private use area that stands for an expression.
fn mark_of(position: usize) -> char {
    u32::try_from(position).ok().and_then(|offset| char::from_u32(MARK as u32 + 1 + offset)).unwrap_or(MARK)
}

fn position_of(mark: char) -> Option<usize> {
    usize::try_from((mark as u32).checked_sub(MARK as u32 + 1)?).ok()
}

/// Returns the position of the brace that closes an expression, outside of texts and inner braces.
fn end_of_expression(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut is_escaped = false;
    for (position, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), b'\\') => is_escaped = true,
            (Some(open), _) if byte == open => quote = None,
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'{') => depth += 1,
            (None, b'}') if depth == 0 => return Some(position),
            (None, b'}') => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use pilothouse_cel::from_json;
    use serde_json::json;

    use super::super::program::{ValueCache, ViewValues};
    use super::super::test_view::TestView;
    use super::*;

    fn render(template: &Value) -> Result<Value, String> {
        let kinds = Arc::new(Kinds::built_in());
        let template = Template::parse(template, &["object", "name"], &kinds)?;
        let object = json!({"metadata": {"labels": {"app": "x, y: {z}"}}, "spec": {"replicas": 3}});
        let variables = [("object", from_json(object)), ("name", CelValue::from("a"))];
        let values = ViewValues { view: &TestView::new(Vec::new()), cache: &ValueCache::default() };
        template.render(&variables, &values)
    }

    #[test]
    fn expressions_are_evaluated_inside_flow_style() {
        let text = "{kind: Pod, metadata: {name: data-${name}, labels: {app: ${object.metadata.labels.app}}}, \
                    spec: {n: ${object.spec.replicas}, text: \"n=${object.spec.replicas + 1}\"}}";
        assert_eq!(
            render(&json!(text)),
            Ok(json!({
                "kind": "Pod", "metadata": {"name": "data-a", "labels": {"app": "x, y: {z}"}},
                "spec": {"n": 3, "text": "n=4"},
            })),
            "values keep their types and cannot change the structure"
        );
    }

    #[test]
    fn expressions_are_evaluated_in_the_texts_of_a_mapping() {
        let value =
            json!({"${name}-key": ["${object.spec.replicas}", "x${name}y", 5, "${{'a': 1}}", "${'}'}"]});
        assert_eq!(render(&value), Ok(json!({"a-key": [3, "xay", 5, {"a": 1}, "}"]})));
    }

    #[test]
    fn errors_are_one_line_with_a_remedy() {
        for (value, expected) in [
            (json!({"a": "${name"}), "no closing brace"),
            (json!({"a": "${nam}"}), "did you mean name?"),
            (json!({"a": "x${object}"}), "is no text, number or boolean"),
            (json!({"a": "${object.spec.absent}"}), "absent"),
            (json!({"a": "${timestamp('2026-01-01T00:00:00Z')}"}), "which JSON has not"),
            (json!("{a: [}"), ""),
            (json!("\u{E000}"), "U+E000"),
            (json!("${name} ".repeat(101)), "more than 100 expressions"),
        ] {
            let error = render(&value).expect_err(expected);
            assert!(error.contains(expected) && !error.contains('\n'), "{value}: {error}");
        }
    }
}
