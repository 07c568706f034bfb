//! The checks of CEL rules when their CRD is written, after
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/{compilation,model/schemas}.go`.
//!
//! The cost of a rule is not estimated: it is limited when the rule is evaluated.

use std::cell::RefCell;
use std::sync::Arc;

use pilothouse_cel::check::{self, Objects, Type as CelType};
use pilothouse_model::hash::HashMap;

use super::rules::{Rule, RuleSource};
use super::values::{escape, is_keyword, unescape};
use crate::go;
use crate::schema::field;
use crate::schema::node::{AdditionalProperties, ListType, NodeId, SchemaRef, Type};
use crate::status::Cause;

/// The type that stands for the metadata of an object, which has only names for rules.
const METADATA: usize = usize::MAX;
/// The longest name of a type in bytes. Types below have the same name.
const MAX_TYPE_NAME: usize = 200;
/// The bytes of all errors of a CRD together, after which no further rule is checked.
const MAX_ERRORS_LENGTH: usize = 1 << 20;

/// Returns what is wrong with the rules of a schema and of all schemas below it. `root` is the root of `schema`, whose path is `path`.
pub(in crate::schema) fn check_rules(schema: SchemaRef<'_>, root: NodeId, path: &str) -> Vec<Cause> {
    let objects = SchemaObjects { schema, names: RefCell::default() };
    let mut checker = RuleChecker { objects, causes: Vec::new(), length: 0 };
    checker.node(root, path, None);
    checker.causes.sort_by(|a, b| (&a.field, &a.message).cmp(&(&b.field, &b.message)));
    checker.causes
}

struct RuleChecker<'s> {
    objects: SchemaObjects<'s>,
    causes: Vec<Cause>,
    /// The bytes of the causes.
    length: usize,
}

impl RuleChecker<'_> {
    /// Checks the rules of a node and of those below it. `uncorrelated` is the path of the node around it whose parts have no old value.
    fn node(&mut self, id: NodeId, path: &str, uncorrelated: Option<&str>) {
        let schema = self.objects.schema.resolve(id);
        let node = schema.node();
        if let Some(rules) = &node.rules {
            let this = self.objects.type_of(id).unwrap_or(CelType::Dyn);
            let this = self.objects.named(this, "selfType".into());
            for (index, rule) in rules.0.iter().enumerate() {
                let at = field::index(&field::child(path, "x-kubernetes-validations"), index);
                self.rule(rule, &this, &at, uncorrelated);
            }
        }
        let inside = uncorrelated.or(node.map_atomic.then_some(path));
        for (name, property) in &node.properties {
            if node.custom_root && name == "metadata" {
                continue;
            }
            self.node(property.node, &field::key(&field::child(path, "properties"), name), inside);
        }
        if let AdditionalProperties::Schema(values) = node.additional {
            self.node(values, &field::child(path, "additionalProperties"), uncorrelated);
        }
        if let Some(items) = node.items {
            let is_map = matches!(node.list_type, ListType::Map(_));
            let inside = uncorrelated.or((!is_map).then_some(path));
            self.node(items, &field::child(path, "items"), inside);
        }
    }

    fn report(&mut self, cause: Cause) {
        self.length += cause.field.len() + cause.message.len();
        self.causes.push(cause);
    }

    fn rule(&mut self, rule: &Rule, this: &CelType, at: &str, uncorrelated: Option<&str>) {
        if self.length > MAX_ERRORS_LENGTH {
            return;
        }
        let rule_at = field::child(at, "rule");
        let source = &rule.source;
        let Some(problem) = self.problem(rule, this) else {
            let is_transition = rule.compiled.as_ref().is_ok_and(|compiled| compiled.is_transition);
            match (uncorrelated, source.optional_old_self) {
                (Some(within), _) if is_transition => {
                    let detail = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                    );
                    self.report(field::invalid(&rule_at, &source.rule.clone().into(), &detail));
                }
                (_, Some(optional)) if !is_transition => {
                    let detail = "may not be set if oldSelf is not used in rule";
                    self.report(field::invalid(
                        &field::child(at, "optionalOldSelf"),
                        &optional.into(),
                        detail,
                    ));
                }
                _ => {}
            }
            return;
        };
        let (at, detail) = match problem {
            Problem::OfRule(detail) => (rule_at, detail),
            Problem::OfMessage(detail) => (field::child(at, "messageExpression"), detail),
        };
        self.report(field::invalid_shown(&at, &shown(source), &detail));
    }

    /// Returns what is wrong with a rule or, if nothing is, with its message expression.
    fn problem(&self, rule: &Rule, this: &CelType) -> Option<Problem> {
        let source = &rule.source;
        let compiled = match &rule.compiled {
            Ok(compiled) => compiled,
            Err(problem) => return Some(problem.clone()),
        };
        let old = if source.optional_old_self == Some(true) {
            CelType::optional(this.clone())
        } else {
            this.clone()
        };
        let variables = [("self", this.clone()), ("oldSelf", old)];
        match check::check(&compiled.rule, &source.rule, &variables, &self.objects) {
            Err(errors) => return Some(Problem::OfRule(format!("compilation failed: {errors}"))),
            Ok(None | Some(CelType::Bool)) => {}
            Ok(Some(_)) => return Some(Problem::OfRule("cel expression must evaluate to a bool".into())),
        }
        let message = compiled.message.as_ref()?;
        let text = source.message_expression.as_deref().unwrap_or_default();
        match check::check(message, text, &variables, &self.objects) {
            Err(errors) => {
                Some(Problem::OfMessage(format!("messageExpression compilation failed: {errors}")))
            }
            Ok(None | Some(CelType::String)) => None,
            Ok(Some(_)) => Some(Problem::OfMessage("messageExpression must evaluate to a string".into())),
        }
    }
}

/// What is wrong with a rule.
#[derive(Clone, Debug)]
pub(super) enum Problem {
    OfRule(String),
    OfMessage(String),
}

impl Problem {
    pub(super) fn detail(&self) -> &str {
        match self {
            Self::OfRule(detail) | Self::OfMessage(detail) => detail,
        }
    }
}

/// Formats a rule as Go prints Kubernetes' internal type.
fn shown(source: &RuleSource) -> String {
    let text = |text: Option<&str>| go::encoded_json(&text.unwrap_or_default().into()).trim_end().to_owned();
    let reason = source.reason.as_deref().map_or("null".to_owned(), |reason| text(Some(reason)));
    let optional = source.optional_old_self.map_or("null".to_owned(), |optional| optional.to_string());
    format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{reason},"FieldPath":{},"OptionalOldSelf":{optional}}}"#,
        text(Some(&source.rule)),
        text(source.message.as_deref()),
        text(source.message_expression.as_deref()),
        text(source.field_path.as_deref()),
    )
}

/// The types of the values that a schema describes.
struct SchemaObjects<'s> {
    schema: SchemaRef<'s>,
    /// The names of the object types that were seen.
    names: RefCell<HashMap<usize, Arc<str>>>,
}

impl SchemaObjects<'_> {
    /// Returns the type of the values that a node describes; `None` if rules cannot refer to them.
    fn type_of(&self, id: NodeId) -> Option<CelType> {
        let node = self.schema.resolve(id).node();
        if node.int_or_string {
            return Some(CelType::Dyn);
        }
        let format = node.validations.as_ref().and_then(|validations| validations.format.as_deref());
        match (node.ty, format) {
            (Type::Any, _) => None,
            (Type::Array, _) => Some(CelType::list(self.type_of(node.items?)?)),
            (Type::Object, _) => match node.additional {
                AdditionalProperties::Schema(values) => {
                    Some(CelType::map(CelType::String, self.type_of(values)?))
                }
                _ => Some(CelType::Object { id: id.0 as usize, name: "object".into() }),
            },
            (Type::String, Some("byte")) => Some(CelType::Bytes),
            (Type::String, Some("duration")) => Some(CelType::Duration),
            (Type::String, Some("date" | "date-time")) => Some(CelType::Timestamp),
            (Type::String, _) => Some(CelType::String),
            (Type::Integer, _) => Some(CelType::Int),
            (Type::Number, _) => Some(CelType::Double),
            (Type::Boolean, _) => Some(CelType::Bool),
        }
    }

    /// Names the object type that a type is, or that it has as elements. The first name of a type stays.
    fn named(&self, ty: CelType, name: String) -> CelType {
        match ty {
            CelType::Object { id, .. } => {
                let mut names = self.names.borrow_mut();
                let name = names.entry(id).or_insert_with(|| name.into());
                CelType::Object { id, name: Arc::clone(name) }
            }
            CelType::List(element) => CelType::list(self.named((*element).clone(), format!("{name}.@idx"))),
            CelType::Map(types) => {
                CelType::map(CelType::String, self.named(types.1.clone(), format!("{name}.@elem")))
            }
            other => other,
        }
    }
}

impl Objects for SchemaObjects<'_> {
    fn member(&self, id: usize, name: &str) -> Option<CelType> {
        if id == METADATA {
            return ["name", "generateName"].contains(&name).then_some(CelType::String);
        }
        let node = self.schema.resolve(NodeId(u32::try_from(id).ok()?)).node();
        let child_name = || {
            let parent = self.names.borrow().get(&id).cloned().unwrap_or_else(|| "object".into());
            if parent.len() + name.len() > MAX_TYPE_NAME {
                parent.to_string()
            } else {
                format!("{parent}.{name}")
            }
        };
        if node.custom_root || node.embedded {
            match name {
                "apiVersion" | "kind" => return Some(CelType::String),
                "metadata" => {
                    return Some(CelType::Object { id: METADATA, name: child_name().into() });
                }
                _ => {}
            }
        }
        let unescaped = unescape(name);
        let property = node.properties.get(&unescaped);
        let property = property.filter(|_| escape(&unescaped) == name || is_keyword(name))?;
        let ty = self.type_of(property.node)?;
        Some(self.named(ty, child_name()))
    }
}
