//! Query parameters, and the options of writes that are in them.

use std::sync::Arc;

use serde_json::Value;

use crate::access::User;
use crate::schema::field;
use crate::status::{About, Cause, Status};

/// The query parameters of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// What is done about fields that the schema does not know.
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
    /// The field manager; from the user agent where the client names none.
    pub manager: String,
    pub validation: FieldValidation,
    /// Whether apply takes over fields that others own.
    pub force: bool,
    /// Whose rights the write is limited to; none for the server itself, and where everything is allowed.
    pub author: Option<Arc<User>>,
}

impl Query {
    pub(crate) fn parse(query: &str) -> Result<Self, Status> {
        // `try_from_uri` wants a whole URI; only its query matters.
        let uri = http::Uri::builder().path_and_query(format!("/?{query}")).build();
        let uri = uri.map_err(|error| Status::bad_request(format!("malformed query {query:?}: {error}")))?;
        axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri)
            .map(|query| Self(query.0))
            .map_err(|error| Status::bad_request(format!("malformed query {query:?}: {error}")))
    }

    /// The first value of a parameter; none if it is absent or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        value.filter(|value| !value.is_empty())
    }

    /// A parameter that is true or false; false if it is absent.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Status> {
        Ok(self.optional_flag(name)?.unwrap_or(false))
    }

    /// A parameter that is true or false.
    pub(crate) fn optional_flag(&self, name: &str) -> Result<Option<bool>, Status> {
        match self.get(name) {
            None => Ok(None),
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(Some(true)),
            Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(Some(false)),
            Some(other) => Err(Status::bad_request(format!("{name}: {other:?} is neither true nor false"))),
        }
    }

    /// A parameter that is a whole number, 0 or more.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Status> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse();
        number.map(Some).map_err(|_| Status::bad_request(format!("{name}: {text:?} is not a whole number")))
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether `dryRun=All` was given.
    pub(crate) fn dry_run(&self, options_kind: &str) -> Result<bool, Status> {
        let values: Vec<&str> = self.values("dryRun").filter(|value| !value.is_empty()).collect();
        check_dry_run(&values, options_kind)
    }

    /// The options of a write; `kind` is what Kubernetes calls them, such as `PatchOptions`.
    pub(crate) fn write_options(&self, kind: &str, user_agent: &str) -> Result<WriteOptions, Status> {
        let manager = match self.get("fieldManager") {
            Some(manager) if manager.chars().count() > 128 => {
                return Err(invalid_options(kind, field::too_long("fieldManager", 128)));
            }
            Some(manager) => manager.to_owned(),
            None => manager_of(user_agent),
        };
        let validation = match self.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let known = ["Ignore", "Strict", "Warn"];
                let cause = field::not_supported("fieldValidation", &Value::from(other), &known);
                return Err(invalid_options(kind, cause));
            }
        };
        let (dry_run, force) = (self.dry_run(kind)?, self.flag("force")?);
        Ok(WriteOptions { dry_run, manager, validation, force, author: None })
    }
}

impl WriteOptions {
    /// The options of the server's own controllers.
    pub(crate) fn internal(manager: &str) -> Self {
        Self {
            dry_run: false,
            manager: manager.to_owned(),
            validation: FieldValidation::Ignore,
            force: false,
            author: None,
        }
    }
}

/// Whether a dry run is asked for.
pub(crate) fn check_dry_run(values: &[&str], options_kind: &str) -> Result<bool, Status> {
    if let Some(other) = values.iter().find(|value| **value != "All") {
        let cause = field::not_supported("dryRun", &Value::from(vec![*other]), &["All"]);
        return Err(invalid_options(options_kind, cause));
    }
    Ok(!values.is_empty())
}

/// 422 for request options.
pub(crate) fn invalid_options(kind: &str, cause: Cause) -> Status {
    Status::invalid(About { group: "meta.k8s.io", plural: kind, kind }, "", vec![cause])
}

/// The user agent up to the first slash, as Kubernetes derives a manager's name.
fn manager_of(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    if name.is_empty() { "unknown".into() } else { name.chars().take(128).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&watch=1&limit=5&empty=").expect("a query");
        assert_eq!(query.get("labelSelector"), Some("a=b,c"));
        assert_eq!((query.flag("watch"), query.number("limit")), (Ok(true), Ok(Some(5))));
        assert_eq!(query.get("empty"), None);
        assert!(query.number("labelSelector").is_err() && query.flag("limit").is_err());
    }

    #[test]
    fn the_manager_comes_from_the_user_agent() {
        let options =
            Query::default().write_options("CreateOptions", "kubectl/v1.32 (linux)").expect("options");
        assert_eq!((options.manager.as_str(), options.validation), ("kubectl", FieldValidation::Warn));
    }

    #[test]
    fn only_all_is_a_dry_run() {
        assert_eq!(Query::parse("dryRun=All").and_then(|query| query.dry_run("CreateOptions")), Ok(true));
        let status =
            Query::parse("dryRun=Some").and_then(|query| query.dry_run("CreateOptions")).expect_err("bad");
        assert_eq!(status.code, 422);
    }
}
