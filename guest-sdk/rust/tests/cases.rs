//! Runs the specification of the fake cluster, `guest-sdk/testing/cases.json`. `guest-sdk/testing/README.md` describes its format.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use pilothouse_sdk::client::untyped::ListOptions;
use pilothouse_sdk::client::{Apply, Delete, Patch, Propagation};
use pilothouse_sdk::serde_json::{self, Value, json};
use pilothouse_sdk::testing::{Failure, Host};
use pilothouse_sdk::{
    ApiError, Cause, Config, Context, Describe, Error, Index, Indexer, Object, ObjectKey, ObjectType,
    Outcome, Page, Plugin, Query, Reason, Reconciler, Request, Rule, Verb, Watch, WriteRule,
};

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testing/cases.json");
const VERBS: [Verb; 6] = [Verb::Get, Verb::List, Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];

thread_local! {
    /// The request that the plugin received, and what it returns.
    static RECEIVED: RefCell<Option<Request>> = const { RefCell::new(None) };
    static ANSWER: RefCell<Value> = const { RefCell::new(Value::Null) };
}

fn table() -> Value {
    let text = std::fs::read_to_string(CASES).unwrap_or_else(|error| panic!("{CASES}: {error}"));
    serde_json::from_str(&text).expect("JSON")
}

/// The plugin of the table.
#[derive(Default)]
struct Cases;

impl Describe for Cases {
    fn describe(_: &Config) -> Result<Plugin, Error> {
        let kind = |api_version: &str, kind: &str| ObjectType::new(api_version, kind);
        let mut plugin = Plugin::new("cases", "0.1.0")
            .watch(Watch::untyped("foos", kind("example.com/v1", "Foo")).triggers_itself())
            .watch(
                Watch::untyped("maps", kind("v1", "ConfigMap"))
                    .index(Index::by_label("byApp", "app"))
                    .index(Index::by_annotation("byTeam", "example.com/team"))
                    .index(Index::by_field("byMode", "{.data.mode}"))
                    .index(Index::by_owner("byOwner"))
                    .index(Index::computed("byWord")),
            )
            .watch(
                Watch::untyped("blue", kind("v1", "ConfigMap"))
                    .namespaces(&["a", "b"])
                    .label_selector("team=blue"),
            )
            .watch(
                Watch::untyped("named", kind("v1", "ConfigMap"))
                    .field_selector("metadata.name=settings")
                    .metadata_only(),
            )
            .watch(
                Watch::untyped("pods", kind("v1", "Pod"))
                    .index(Index::by_field("byImage", "{.spec.containers[*].image}"))
                    .index(Index::by_field("byZone", "{.metadata.labels['example.com/zone']}"))
                    .index(Index::by_field("byFirst", "{.spec.containers[0].name}")),
            );
        let table = table();
        for rule in list(&table["plugin"]["writes"]) {
            let (group, verbs) = (text(&rule["apiGroups"][0]), texts(&rule["verbs"]));
            let namespaces = texts(&rule["namespaces"]);
            let namespaces: Vec<_> = namespaces.iter().map(String::as_str).collect();
            for resource in texts(&rule["resources"]) {
                plugin =
                    plugin.writes(WriteRule::untyped(&group, &resource, &verbs).in_namespaces(&namespaces));
            }
        }
        Ok(list(&table["plugin"]["crds"]).iter().fold(plugin, |plugin, crd| plugin.crd(crd)))
    }
}

impl Reconciler for Cases {
    fn reconcile(&self, _: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        RECEIVED.set(Some(request.clone()));
        let answer = ANSWER.take();
        match (&answer["requeueAfter"], &answer["retry"], &answer["terminal"]) {
            (Value::Number(after), ..) => {
                Ok(Outcome::RequeueAfter(Duration::from_millis(after.as_u64().expect("milliseconds"))))
            }
            (_, Value::String(message), _) => Err(Error::retry(message)),
            (.., Value::String(message)) => Err(Error::terminal(message)),
            _ => Ok(Outcome::Done),
        }
    }
}

impl Indexer for Cases {
    fn values(&self, _: &str, object: &Object) -> Vec<String> {
        let words = object.text("/data/words").unwrap_or_default();
        words.split_whitespace().map(str::to_owned).collect()
    }
}

#[test]
fn the_watches_are_those_of_the_table() {
    let host = Host::<Cases>::new();
    let table = table();
    let plugin = &table["plugin"];
    assert_eq!(host.descriptor()["watches"], plugin["watches"]);
    assert_eq!(host.descriptor()["crds"], plugin["crds"]);
}

#[test]
fn every_case_holds() {
    let table = table();
    let cases = list(&table["cases"]);
    assert!(!cases.is_empty());
    for case in cases {
        let mut run = Run { host: Host::<Cases>::new().with_indexer(), variables: BTreeMap::new() };
        for (position, step) in list(&case["steps"]).iter().enumerate() {
            let operation = operation_of(step);
            let place = format!("{}, step {}, {operation}", text(&case["name"]), position + 1);
            run.step(operation, step, &place);
        }
    }
}

/// The names of the operations. A step has one of them.
const OPERATIONS: [&str; 23] = [
    "put",
    "remove",
    "stored",
    "fail",
    "events",
    "queued",
    "writes",
    "reconcile",
    "create",
    "update",
    "patch",
    "apply",
    "delete",
    "get",
    "list",
    "cacheGet",
    "cacheList",
    "cacheFields",
    "byIndex",
    "indexKeys",
    "indexValues",
    "queueAdd",
    "publish",
];

fn operation_of(step: &Value) -> &'static str {
    let found = OPERATIONS.into_iter().find(|name| step.get(name).is_some());
    found.unwrap_or_else(|| panic!("the runner does not know the operation of {step}"))
}

/// The result of an operation of the plugin.
type Answer = Result<Value, ApiError>;

/// One case: a host with the plugin of the table, and the variables.
struct Run {
    host: Host<Cases>,
    variables: BTreeMap<String, String>,
}

impl Run {
    fn step(&mut self, operation: &'static str, step: &Value, place: &str) {
        let argument = self.filled(&step[operation]);
        if let Some(result) = self.perform_as_test(operation, &argument, step, place) {
            if let Some(pattern) = step.get("returns") {
                self.expect(pattern, &result, place);
            }
            return;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.host.with_context(|ctx| perform_as_plugin(ctx, operation, &argument, step))
        }));
        match (outcome, step.get("traps"), step.get("error")) {
            (Err(panic), Some(expected), _) => {
                let message = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                assert!(message.contains(&text(expected)), "{place}: {message}");
            }
            (Err(panic), None, _) => panic!("{place}: it trapped: {:?}", panic.downcast_ref::<String>()),
            (Ok(answer), Some(_), _) => panic!("{place}: it did not trap, but returned {answer:?}"),
            (Ok(Err(error)), None, Some(pattern)) => self.expect(pattern, &from_error(&error), place),
            (Ok(Err(error)), None, None) => panic!("{place}: {error}"),
            (Ok(Ok(result)), None, Some(_)) => panic!("{place}: it returned {result}"),
            (Ok(Ok(result)), None, None) => {
                if let Some(pattern) = step.get("returns") {
                    self.expect(pattern, &result, place);
                }
            }
        }
    }

    /// Replaces variables by their values.
    fn filled(&self, value: &Value) -> Value {
        match value {
            Value::String(name) => self.variables.get(name).unwrap_or(name).clone().into(),
            Value::Array(items) => items.iter().map(|item| self.filled(item)).collect(),
            Value::Object(members) => {
                members.iter().map(|(name, inner)| (name.clone(), self.filled(inner))).collect()
            }
            other => other.clone(),
        }
    }

    fn expect(&mut self, pattern: &Value, found: &Value, place: &str) {
        let mismatch = || format!("{place}: {found} is not {pattern}; {:?}", self.variables);
        match pattern {
            Value::Object(members) => {
                assert!(found.is_object(), "{}", mismatch());
                for (name, inner) in members {
                    self.expect(inner, &found[name], &format!("{place}.{name}"));
                }
            }
            Value::Array(patterns) => {
                let count = found.as_array().map(Vec::len);
                assert!(count == Some(patterns.len()), "{}", mismatch());
                for (position, inner) in patterns.iter().enumerate() {
                    self.expect(inner, &found[position], &format!("{place}[{position}]"));
                }
            }
            Value::String(expected) if expected.starts_with('!') => {
                let other = self.variables.get(&expected[1..]).map_or(&expected[1..], String::as_str);
                let fits = found.as_str().is_some_and(|found| !found.is_empty() && found != other);
                assert!(fits, "{}", mismatch());
            }
            Value::String(name) if name.starts_with('$') => {
                let value = text(found);
                assert!(found.is_string(), "{}", mismatch());
                let known = self.variables.entry(name.clone()).or_insert_with(|| value.clone());
                assert_eq!(*known, value, "{place}: {name}");
            }
            _ => assert!(found == pattern, "{}", mismatch()),
        }
    }

    /// Performs an operation of the test. Returns `None` for one of the plugin.
    fn perform_as_test(
        &mut self,
        operation: &str,
        argument: &Value,
        step: &Value,
        place: &str,
    ) -> Option<Value> {
        let (object_type, key) = (type_of(argument), key_of(argument));
        Some(match operation {
            "put" => self.host.put_json(argument.clone()),
            "remove" => {
                self.host.delete_json(&object_type, &key);
                Value::Null
            }
            "stored" => self.host.get_json(&object_type, &key).unwrap_or(Value::Null),
            "fail" => {
                self.host.fail(to_failure(argument));
                Value::Null
            }
            "events" => {
                let events = self.host.events();
                let event = |event: &pilothouse_sdk::testing::Event| {
                    let event_type = if event.is_warning { "warning" } else { "normal" };
                    let (reason, note) = (&event.reason, &event.note);
                    json!({"type": event_type, "reason": reason, "key": event.regarding.to_string(), "note": note})
                };
                self.expect(argument, &events.iter().map(event).collect(), place);
                Value::Null
            }
            "queued" => {
                let queued = self.host.queued();
                let one = |queued: &pilothouse_sdk::testing::Queued| {
                    let after = queued.after.map_or(0, |after| after.as_millis());
                    let after = u64::try_from(after).expect("few milliseconds");
                    json!({"watch": queued.watch, "key": queued.key.to_string(), "after": after})
                };
                self.expect(argument, &queued.iter().map(one).collect(), place);
                Value::Null
            }
            "writes" => {
                self.expect(argument, &json!(self.host.writes()), place);
                Value::Null
            }
            "reconcile" => self.reconcile(argument, step, place),
            _ => return None,
        })
    }

    fn reconcile(&mut self, argument: &Value, step: &Value, place: &str) -> Value {
        ANSWER.set(step["answer"].clone());
        let (watch, key) = (text(&argument["watch"]), key_of(argument));
        let outcome = if argument.get("reasons").is_some() {
            let reasons = texts(&argument["reasons"]).iter().map(|name| reason(name)).collect();
            let attempt = argument["attempt"].as_u64().and_then(|attempt| u32::try_from(attempt).ok());
            let request = Request { watch, key, reasons, attempt: attempt.unwrap_or(0), extra: Vec::new() };
            self.host.reconcile_request(&request)
        } else {
            self.host.reconcile(watch.as_str(), &key)
        };
        if let Some(pattern) = step.get("sees") {
            let Request { watch, key, reasons, attempt, .. } =
                RECEIVED.take().expect("the plugin was called");
            let reasons: Vec<_> = reasons.iter().map(ToString::to_string).collect();
            let seen =
                json!({"watch": watch, "key": key.to_string(), "reasons": reasons, "attempt": attempt});
            self.expect(pattern, &seen, place);
        }
        match outcome {
            Ok(Outcome::Done) => json!({"done": true}),
            Ok(Outcome::RequeueAfter(after)) => {
                json!({"requeueAfter": u64::try_from(after.as_millis()).expect("few milliseconds")})
            }
            Err(error) if error.is_terminal() => json!({"terminal": error.to_string()}),
            Err(error) => json!({"retry": error.to_string()}),
        }
    }
}

/// Performs an operation of the plugin.
fn perform_as_plugin(ctx: &Context<'_>, operation: &str, argument: &Value, step: &Value) -> Answer {
    match operation {
        "create" | "update" | "patch" | "apply" | "delete" | "get" | "list" => {
            request(ctx, operation, argument, step)
        }
        _ => Ok(read_or_record(ctx, operation, argument)),
    }
}

fn request(ctx: &Context<'_>, operation: &str, argument: &Value, step: &Value) -> Answer {
    let client = ctx.client().untyped();
    let (object_type, key) = (type_of(argument), key_of(argument));
    let subresource = text(&step["subresource"]);
    let object = match operation {
        "create" => client.create(argument, &subresource)?,
        "update" => client.update(argument, &subresource)?,
        "patch" => {
            let body = &argument["body"];
            let patch = if argument["type"] == "json" { Patch::Json(body) } else { Patch::Merge(body) };
            client.patch(&object_type, &key, &patch, &subresource)?
        }
        "apply" => {
            let options = if step["force"] == true { Apply::forced() } else { Apply::cautious() };
            let options = options.as_manager(text(&step["fieldManager"]));
            let metadata = &argument["metadata"];
            let key = ObjectKey::new(text(&metadata["namespace"]), text(&metadata["name"]));
            client.patch(&object_type, &key, &Patch::Apply(argument, options), &subresource)?
        }
        "delete" => {
            let propagation = match argument["propagation"].as_str() {
                Some("foreground") => Propagation::Foreground,
                Some("orphan") => Propagation::Orphan,
                _ => Propagation::Background,
            };
            let options = Delete::propagating(propagation)
                .only_uid(text(&argument["uid"]))
                .only_resource_version(text(&argument["resourceVersion"]));
            client.delete(&object_type, &key, &options)?;
            return Ok(Value::Null);
        }
        "get" => client.get(&object_type, &key, &subresource)?,
        _ => {
            let options = ListOptions {
                namespace: text(&argument["namespace"]),
                label_selector: text(&argument["labels"]),
                field_selector: text(&argument["fields"]),
                limit: limit_of(argument),
                cursor: text(&argument["cursor"]),
            };
            return Ok(from_page(&client.list(&object_type, &options)?));
        }
    };
    Ok(object.value()?)
}

fn read_or_record(ctx: &Context<'_>, operation: &str, argument: &Value) -> Value {
    let (watch, key) = (text(&argument["watch"]), key_of(argument));
    let (index, value) = (text(&argument["index"]), text(&argument["value"]));
    let cache = ctx.cache::<Object>(&watch);
    match operation {
        "cacheGet" => {
            let found = cache.get(&key).expect("a handle");
            found.map_or(Value::Null, |object| object.value().expect("JSON"))
        }
        "cacheList" => from_page(&cache.page(&query_of(argument)).expect("handles")),
        "cacheFields" => {
            let pointers = texts(&argument["pointers"]);
            let pointers: Vec<_> = pointers.iter().map(String::as_str).collect();
            let rows = cache.fields(&query_of(argument), &pointers);
            let row = |row: &pilothouse_sdk::Row| {
                let value = |position| row.value::<Value>(position).expect("JSON").unwrap_or(Value::Null);
                let values: Vec<_> = (0..pointers.len()).map(value).collect();
                json!({"key": row.key.to_string(), "values": values})
            };
            rows.iter().map(row).collect()
        }
        "byIndex" => keys(cache.by_index(&index, &value).expect("handles").iter().map(Object::key)),
        "indexKeys" => keys(cache.index_keys(&index, &value)),
        "indexValues" => json!(cache.index_values(&index)),
        "queueAdd" => {
            let queue = ctx.queue(watch.as_str());
            match argument["after"].as_u64() {
                Some(after) => queue.add_after(&key, Duration::from_millis(after)),
                None => queue.add(&key),
            }
            Value::Null
        }
        _ => {
            let about = cache.get(&key).expect("a handle").expect("an object");
            let [reason, action, note] = ["reason", "action", "note"].map(|name| text(&argument[name]));
            let events = ctx.events();
            if argument["type"] == "warning" {
                events.warning(&about, &reason, &action, &note);
            } else {
                events.normal(&about, &reason, &action, &note);
            }
            Value::Null
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns a string, "" for none.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    list(value).iter().map(text).collect()
}

fn type_of(reference: &Value) -> ObjectType {
    ObjectType::new(text(&reference["apiVersion"]), text(&reference["kind"]))
}

fn key_of(reference: &Value) -> ObjectKey {
    let key = text(&reference["key"]);
    match key.split_once('/') {
        Some((namespace, name)) => ObjectKey::new(namespace, name),
        None => ObjectKey::new("", key),
    }
}

fn limit_of(argument: &Value) -> u32 {
    argument["limit"].as_u64().and_then(|limit| u32::try_from(limit).ok()).unwrap_or(0)
}

fn query_of(argument: &Value) -> Query {
    Query::all()
        .namespace(text(&argument["namespace"]))
        .labels(text(&argument["labels"]))
        .page_size(limit_of(argument))
        .after(text(&argument["cursor"]))
}

fn keys(keys: impl IntoIterator<Item = ObjectKey>) -> Value {
    keys.into_iter().map(|key| key.to_string()).collect()
}

fn from_page(page: &Page<Object>) -> Value {
    let next = page.next.clone().unwrap_or_default();
    json!({"keys": keys(page.items.iter().map(Object::key)), "next": next})
}

fn reason(name: &str) -> Reason {
    let all = [
        Reason::Created,
        Reason::Updated,
        Reason::Deleted,
        Reason::Resync,
        Reason::Requeue,
        Reason::Retry,
        Reason::Startup,
        Reason::Other,
    ];
    all.into_iter().find(|reason| reason.to_string() == name).expect("a reason of the contract")
}

/// Returns an error as the table writes it.
fn from_error(error: &ApiError) -> Value {
    let message = error.to_string();
    match error {
        ApiError::NotFound(_) => json!({"code": "not-found", "message": message}),
        ApiError::AlreadyExists(_) => json!({"code": "already-exists", "message": message}),
        ApiError::Conflict { resource_version, .. } => {
            json!({"code": "conflict", "message": message, "resourceVersion": resource_version})
        }
        ApiError::Invalid(causes) => {
            let cause =
                |one: &Cause| json!({"field": one.field, "reason": one.reason, "message": one.message});
            json!({"code": "invalid", "causes": causes.iter().map(cause).collect::<Value>()})
        }
        ApiError::Forbidden(_) => json!({"code": "forbidden", "message": message}),
        ApiError::Denied(rule) => json!({"code": "denied", "rule": {
            "apiGroups": rule.api_groups,
            "resources": rule.resources,
            "verbs": rule.verbs,
            "namespaces": rule.namespaces,
        }}),
        ApiError::TooManyRequests { retry_after_ms } => {
            json!({"code": "too-many-requests", "retryAfter": retry_after_ms})
        }
        ApiError::Unavailable(_) => json!({"code": "unavailable", "message": message}),
        ApiError::Other { code, reason, .. } => {
            json!({"code": "other", "status": code, "reason": reason, "message": message})
        }
        other => panic!("an error of the SDK itself: {other}"),
    }
}

fn to_failure(argument: &Value) -> Failure {
    let error = &argument["error"];
    let message = text(&error["message"]);
    let number = |field: &str| error[field].as_u64().unwrap_or(0);
    let error = match text(&error["code"]).as_str() {
        "not-found" => ApiError::NotFound(message),
        "already-exists" => ApiError::AlreadyExists(message),
        "conflict" => {
            let version = error["resourceVersion"].as_str().map(str::to_owned);
            ApiError::Conflict { message, resource_version: version }
        }
        "invalid" => {
            let cause = |one: &Value| {
                let [field, reason, message] = ["field", "reason", "message"].map(|name| text(&one[name]));
                Cause { field, reason, message }
            };
            ApiError::Invalid(list(&error["causes"]).iter().map(cause).collect())
        }
        "forbidden" => ApiError::Forbidden(message),
        "denied" => {
            let rule = &error["rule"];
            ApiError::Denied(Rule {
                api_groups: texts(&rule["apiGroups"]),
                resources: texts(&rule["resources"]),
                verbs: texts(&rule["verbs"]),
                namespaces: texts(&rule["namespaces"]),
            })
        }
        "too-many-requests" => {
            let retry_after_ms = u32::try_from(number("retryAfter")).expect("few milliseconds");
            ApiError::TooManyRequests { retry_after_ms }
        }
        "unavailable" => ApiError::Unavailable(message),
        _ => {
            let code = u16::try_from(number("status")).expect("a status");
            ApiError::Other { code, reason: text(&error["reason"]), message }
        }
    };
    let mut failure = Failure::new(error);
    if let Some(name) = argument["verb"].as_str() {
        let verb = VERBS.into_iter().find(|verb| verb.as_ref() == name);
        failure = failure.verb(verb.expect("a verb"));
    }
    if let Some(kind) = argument["kind"].as_str() {
        failure = failure.kind(kind);
    }
    match argument["times"].as_u64() {
        Some(times) => failure.times(u32::try_from(times).expect("few times")),
        None => failure,
    }
}
