//! Query parameters, and the write options in them.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::go;
use crate::schema::field;
use crate::status::{Cause, ResourceRef, Status};
use crate::user::User;

/// The query parameters of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// How unknown fields are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The options of create, update and patch.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    pub dry_run: bool,
    /// The field manager; derived from the user agent if the client gives none.
    pub manager: String,
    pub validation: FieldValidation,
    /// Whether apply takes ownership of fields that other managers own.
    pub force: bool,
    /// The subresource through which an object is created; empty for the resource itself.
    pub created_through: &'static str,
    /// The user whose rights limit what the write may grant. `None` for the server's own writes, and if every request is
    /// allowed.
    pub author: Option<Arc<User>>,
    /// The user who sends the request, for kinds that record it. `None` for other kinds and for the server's own writes.
    pub requester: Option<Arc<User>>,
    /// Whether the object was decoded before: it has no unknown fields.
    pub is_decoded: bool,
    /// Whether the write may wait for other objects. The server's own writes cannot.
    pub may_wait: bool,
}

impl Query {
    pub(crate) fn parse(query: &str) -> Result<Self, Status> {
        // `try_from_uri` needs a whole URI but uses only its query.
        let uri = http::Uri::builder().path_and_query(format!("/?{query}")).build();
        let uri = uri.map_err(|error| Status::bad_request(format!("malformed query {query:?}: {error}")))?;
        axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri)
            .map(|query| Self(query.0))
            .map_err(|error| Status::bad_request(format!("malformed query {query:?}: {error}")))
    }

    /// Returns the first value of a parameter, or `None` if it is absent or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        value.filter(|value| !value.is_empty())
    }

    /// Replaces the values of a parameter.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(key, _)| key != name);
        self.0.push((name.to_owned(), value.to_owned()));
    }

    /// Parses a boolean parameter; false if it is absent.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Status> {
        Ok(self.optional_flag(name)?.unwrap_or(false))
    }

    /// Parses a boolean parameter; `None` if it is absent.
    pub(crate) fn optional_flag(&self, name: &str) -> Result<Option<bool>, Status> {
        match self.get(name) {
            None => Ok(None),
            // As in Kubernetes, any other text is true.
            Some(text) => Ok(Some(!matches!(text.to_lowercase().as_str(), "" | "0" | "false"))),
        }
    }

    /// Parses a parameter that is an integer of at least 0; `None` if it is absent.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Status> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse();
        number.map(Some).map_err(|_| Status::bad_request(format!("{name}: {text:?} is not a whole number")))
    }

    /// Parses `limit`, the most items of a list. `None` if it is absent or not positive, which means no limit.
    pub(crate) fn limit(&self) -> Result<Option<u64>, Status> {
        let Some(text) = self.get("limit") else { return Ok(None) };
        let limit: i64 = text.parse().map_err(|_| {
            Status::bad_request(format!("strconv.ParseInt: parsing {}: invalid syntax", go::quoted(text)))
        })?;
        Ok(u64::try_from(limit).ok().filter(|limit| *limit > 0))
    }

    /// Returns the values of a parameter, empty ones included.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether `dryRun=All` was given.
    pub(crate) fn dry_run(&self, options_kind: &str) -> Result<bool, Status> {
        let values: Vec<&str> = self.values("dryRun").filter(|value| !value.is_empty()).collect();
        check_dry_run(&values, options_kind)
    }

    /// Returns the options of a write as an object without its type, as admission sees them.
    pub(crate) fn options_value(&self) -> Value {
        let mut options = Map::new();
        for name in ["fieldManager", "fieldValidation", "propagationPolicy"] {
            if let Some(text) = self.get(name) {
                options.insert(name.into(), text.into());
            }
        }
        let dry_run: Vec<&str> = self.values("dryRun").filter(|value| !value.is_empty()).collect();
        if !dry_run.is_empty() {
            options.insert("dryRun".into(), dry_run.into());
        }
        Value::Object(options)
    }

    /// Parses the options of a write; `kind` is their Kubernetes type, such as `PatchOptions`.
    pub(crate) fn write_options(&self, kind: &str, user_agent: &str) -> Result<WriteOptions, Status> {
        let manager = match self.get("fieldManager") {
            Some(manager) if manager.chars().count() > 128 => {
                return Err(invalid_options(kind, field::too_long("fieldManager", 128)));
            }
            Some(manager) => {
                if let Some((position, c)) = manager.char_indices().find(|(_, c)| c.is_control()) {
                    let detail = format!("invalid character U+{:04X} (at position {position})", u32::from(c));
                    return Err(invalid_options(
                        kind,
                        field::invalid("fieldManager", &manager.into(), &detail),
                    ));
                }
                manager.to_owned()
            }
            None => manager_from_user_agent(user_agent),
        };
        let validation = match self.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let known = ["", "Ignore", "Strict", "Warn"];
                let cause = field::not_supported("fieldValidation", &Value::from(other), &known);
                return Err(invalid_options(kind, cause));
            }
        };
        let (dry_run, force) = (self.dry_run(kind)?, self.flag("force")?);
        Ok(WriteOptions {
            dry_run,
            manager,
            validation,
            force,
            created_through: "",
            author: None,
            requester: None,
            is_decoded: false,
            may_wait: true,
        })
    }
}

impl WriteOptions {
    /// Returns the options for writes of the server itself.
    pub(crate) fn internal(manager: &str) -> Self {
        Self {
            dry_run: false,
            manager: manager.to_owned(),
            validation: FieldValidation::Ignore,
            force: false,
            created_through: "",
            author: None,
            requester: None,
            is_decoded: false,
            may_wait: false,
        }
    }
}

/// Whether `dryRun` values request a dry run; 422 for any value but `All`.
pub(crate) fn check_dry_run(values: &[&str], options_kind: &str) -> Result<bool, Status> {
    if let Some(other) = values.iter().find(|value| **value != "All") {
        let cause = field::not_supported("dryRun", &Value::from(vec![*other]), &["All"]);
        return Err(invalid_options(options_kind, cause));
    }
    Ok(!values.is_empty())
}

/// Returns the 422 for invalid request options.
pub(crate) fn invalid_options(kind: &str, cause: Cause) -> Status {
    Status::invalid(ResourceRef { group: "meta.k8s.io", plural: kind, kind }, "", vec![cause])
}

/// Parses a resourceVersion of this server.
///
/// # Errors
/// The message of `k8s.io/apiserver/pkg/storage` if it is not a number.
pub(crate) fn parse_resource_version(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        let shown = go::quoted(text);
        format!("resourceVersion: Invalid value: {shown}: strconv.ParseUint: parsing {shown}: invalid syntax")
    })
}

/// Returns the user agent up to the first slash, which is how Kubernetes derives the name of a field manager.
fn manager_from_user_agent(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    if name.is_empty() { "unknown".into() } else { name.chars().take(128).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_parameters_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&watch=1&limit=5&empty=").expect("a query");
        assert_eq!(query.get("labelSelector"), Some("a=b,c"));
        assert_eq!((query.flag("watch"), query.number("limit")), (Ok(true), Ok(Some(5))));
        assert_eq!(query.get("empty"), None);
        assert!(query.number("labelSelector").is_err() && query.flag("limit") == Ok(true));
    }

    #[test]
    fn default_field_manager_comes_from_the_user_agent() {
        let options =
            Query::default().write_options("CreateOptions", "kubectl/v1.32 (linux)").expect("options");
        assert_eq!((options.manager.as_str(), options.validation), ("kubectl", FieldValidation::Warn));
    }

    #[test]
    fn dry_run_values_other_than_all_are_rejected() {
        assert_eq!(Query::parse("dryRun=All").and_then(|query| query.dry_run("CreateOptions")), Ok(true));
        let status =
            Query::parse("dryRun=Some").and_then(|query| query.dry_run("CreateOptions")).expect_err("bad");
        assert_eq!(status.code, 422);
    }
}
