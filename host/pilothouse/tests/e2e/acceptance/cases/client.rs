//! Tests every verb of the client.

use serde_json::{Value, json};

use super::super::driver::{Driver, expect};

/// Returns a ConfigMap that matches no watch of the plugin.
fn config_map(driver: &Driver, name: &str, value: &str) -> Value {
    let metadata = json!({"name": name, "namespace": driver.namespace(), "labels": {"client": name}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}})
}

fn deployment(driver: &Driver, name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": driver.namespace()},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "nginx"}]},
            },
        },
    })
}

async fn made(driver: &Driver, suffix: &str, value: &str) -> Result<String, String> {
    let name = driver.name(suffix);
    let body = config_map(driver, &name, value).to_string();
    expect("create", &driver.run("create", &[("body", &body)]).await, &name)?;
    Ok(name)
}

async fn value_of(driver: &Driver, name: &str) -> String {
    driver.host().server.data(name).await.remove("value").unwrap_or_default()
}

async fn patched(driver: &Driver, name: &str, form: &str, body: &Value) -> String {
    let body = body.to_string();
    let arguments = [
        ("a", "v1"),
        ("b", "ConfigMap"),
        ("c", driver.namespace()),
        ("d", name),
        ("e", form),
        ("body", body.as_str()),
    ];
    driver.run("patch", &arguments).await
}

pub(super) async fn get(driver: Driver) -> Result<(), String> {
    let name = made(&driver, "map", "one").await?;
    let live = async |pointer: &str| {
        let arguments = [
            ("a", "v1"),
            ("b", "ConfigMap"),
            ("c", driver.namespace()),
            ("d", name.as_str()),
            ("f", pointer),
        ];
        driver.run("client-get", &arguments).await
    };
    expect("a value", &live("/data/value").await, "one")?;
    expect("no value", &live("/data/nothing").await, "absent")
}

pub(super) async fn list(driver: Driver) -> Result<(), String> {
    let mut keys = Vec::new();
    for suffix in ["a", "b", "c"] {
        let name = driver.name(suffix);
        let mut body = config_map(&driver, &name, suffix);
        body["metadata"]["labels"] = json!({"many": "yes"});
        expect("create", &driver.run("create", &[("body", &body.to_string())]).await, &name)?;
        keys.push(driver.key(&name));
    }
    let ask = async |labels: &str, fields: &str, limit: &str| {
        let arguments = [
            ("a", "v1"),
            ("b", "ConfigMap"),
            ("c", driver.namespace()),
            ("d", labels),
            ("e", fields),
            ("f", limit),
        ];
        driver.run("client-list", &arguments).await
    };
    let pages = format!("{} {} | {}", keys[0], keys[1], keys[2]);
    expect("pages of two", &ask("many=yes", "", "2").await, &pages)?;
    let field = format!("metadata.name={}", driver.name("b"));
    expect("a field selector", &ask("", &field, "0").await, &keys[1])
}

pub(super) async fn create(driver: Driver) -> Result<(), String> {
    let name = made(&driver, "map", "made").await?;
    expect("on the server", &value_of(&driver, &name).await, "made")
}

pub(super) async fn update(driver: Driver) -> Result<(), String> {
    let name = made(&driver, "map", "before").await?;
    let live = driver.host().server.get(&driver.host().server.path("/api/v1", "configmaps", &name)).await;
    let mut body = config_map(&driver, &name, "after");
    body["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    expect("update", &driver.run("update", &[("body", &body.to_string())]).await, &name)?;
    expect("on the server", &value_of(&driver, &name).await, "after")
}

pub(super) async fn patch(driver: Driver) -> Result<(), String> {
    let name = made(&driver, "map", "0").await?;
    let json_patch = json!([{"op": "replace", "path": "/data/value", "value": "json"}]);
    for (form, body) in [
        ("json", json_patch),
        ("merge", json!({"data": {"value": "merge"}})),
        ("strategic", json!({"data": {"value": "strategic"}})),
    ] {
        expect(form, &patched(&driver, &name, form, &body).await, &name)?;
        expect("on the server", &value_of(&driver, &name).await, form)?;
    }
    Ok(())
}

pub(super) async fn apply(driver: Driver) -> Result<(), String> {
    let name = driver.name("map");
    let body = |value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}});
    expect("apply creates", &patched(&driver, &name, "apply", &body("one")).await, &name)?;
    let live = driver.host().server.get(&driver.host().server.path("/api/v1", "configmaps", &name)).await;
    let managers = live["metadata"]["managedFields"].to_string();
    let manager = format!("\"manager\":\"{}\"", driver.plugin());
    if !managers.contains(&manager) || !managers.contains("\"operation\":\"Apply\"") {
        return Err(format!("{manager} has not applied: {managers}"));
    }
    // Another manager takes over the field. Apply then fails with a conflict unless it is forced.
    driver.host().server.set_data(&name, "value", "theirs").await;
    expect("apply without force", &patched(&driver, &name, "apply", &body("two")).await, "conflict")?;
    expect("apply with force", &patched(&driver, &name, "apply-force", &body("two")).await, &name)?;
    expect("on the server", &value_of(&driver, &name).await, "two")
}

pub(super) async fn subresource(driver: Driver) -> Result<(), String> {
    let name = driver.name("web");
    let body = deployment(&driver, &name).to_string();
    expect("create", &driver.run("create", &[("body", &body)]).await, &name)?;
    let target = |further: &[(&'static str, &'static str)]| {
        let mut arguments =
            vec![("a", "apps/v1"), ("b", "Deployment"), ("c", driver.namespace()), ("d", name.as_str())];
        arguments.extend_from_slice(further);
        arguments.into_iter().map(|(key, value)| (key, value.to_owned())).collect::<Vec<_>>()
    };
    let run = async |op: &str, arguments: Vec<(&'static str, String)>| {
        let arguments: Vec<_> = arguments.iter().map(|(key, value)| (*key, value.as_str())).collect();
        driver.run(op, &arguments).await
    };
    let scale = target(&[("e", "merge"), ("f", "scale"), ("body", r#"{"spec":{"replicas":3}}"#)]);
    expect("patch of scale", &run("patch", scale).await, &name)?;
    expect("replicas", &run("client-get", target(&[("e", "scale"), ("f", "/spec/replicas")])).await, "3")?;
    let condition = r#"{"status":{"conditions":[{"type":"Accepted","status":"True"}]}}"#;
    let status = target(&[("e", "merge"), ("f", "status"), ("body", condition)]);
    expect("patch of status", &run("patch", status).await, &name)?;
    let kind = target(&[("e", "status"), ("f", "/status/conditions/0/type")]);
    let kind = run("client-get", kind).await;
    if kind == "Accepted" || kind == "Progressing" || kind == "Available" {
        Ok(())
    } else {
        Err(format!("condition {kind:?}"))
    }
}

pub(super) async fn delete(driver: Driver) -> Result<(), String> {
    let name = made(&driver, "map", "doomed").await?;
    let live = driver.host().server.get(&driver.host().server.path("/api/v1", "configmaps", &name)).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (uid, version) = (text(&live["metadata"]["uid"]), text(&live["metadata"]["resourceVersion"]));
    let ask = async |propagation: &str, uid: &str, version: &str| {
        let arguments = [
            ("a", "v1"),
            ("b", "ConfigMap"),
            ("c", driver.namespace()),
            ("d", name.as_str()),
            ("e", propagation),
            ("f", uid),
            ("g", version),
        ];
        driver.run("delete", &arguments).await
    };
    expect("another UID", &ask("background", "not-this-one", "").await, "conflict")?;
    expect("another version", &ask("orphan", "", "1").await, "conflict")?;
    expect("delete", &ask("background", &uid, &version).await, "deleted")?;
    expect("again", &ask("foreground", "", "").await, "not-found")
}
