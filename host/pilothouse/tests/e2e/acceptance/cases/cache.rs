//! Tests every query of the cache and every method of an object.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use super::super::driver::{Driver, expect};

pub(super) async fn get(driver: Driver) -> Result<(), String> {
    let names = driver.create_cached_items(&[("item", json!({"value": "seven"}))]).await;
    let at = async |name: &str, pointer: &str| {
        driver.run("get", &[("a", "items"), ("b", driver.namespace()), ("c", name), ("d", pointer)]).await
    };
    expect("a value", &at(&names[0], "/data/value").await, "seven")?;
    expect("no value", &at(&names[0], "/data/nothing").await, "absent")?;
    expect("no object", &at("there-is-no-such-item", "/data/value").await, "none")
}

pub(super) async fn list(driver: Driver) -> Result<(), String> {
    let items = ["a", "b", "c", "d", "e"].map(|suffix| (suffix, json!({})));
    let names = driver.create_cached_items(&items).await;
    let keys: Vec<_> = names.iter().map(|name| driver.key(name)).collect();
    let ask = async |namespace: &str, limit: &str| {
        let selector = "tier in (cache-list),test!=acceptance";
        driver.run("list", &[("a", "items"), ("b", namespace), ("c", selector), ("d", limit)]).await
    };
    let pages = format!("{} {} | {} {} | {}", keys[0], keys[1], keys[2], keys[3], keys[4]);
    expect("pages of two", &ask(driver.namespace(), "2").await, &pages)?;
    expect("one page of all namespaces", &ask("", "0").await, &keys.join(" "))?;
    expect("another namespace", &ask("default", "0").await, "")
}

pub(super) async fn list_fields(driver: Driver) -> Result<(), String> {
    let items = [("a", json!({"value": "1"})), ("b", json!({})), ("c", json!({"value": "x y"}))];
    let names = driver.create_cached_items(&items).await;
    let arguments =
        [("a", "items"), ("b", driver.namespace()), ("c", "tier=list-fields"), ("d", "/data/value")];
    let keys: Vec<_> = names.iter().map(|name| driver.key(name)).collect();
    let wanted = format!("{}=\"1\" {}=- {}=\"x y\"", keys[0], keys[1], keys[2]);
    expect("the rows", &driver.run("list-fields", &arguments).await, &wanted)
}

pub(super) async fn by_index(driver: Driver) -> Result<(), String> {
    let group = |name: &str| json!({"group": format!("by-index-{name}")});
    let items = [("a", group("red")), ("b", group("blue")), ("c", group("red"))];
    let names = driver.create_cached_items(&items).await;
    let red = format!("{} {}", driver.key(&names[0]), driver.key(&names[2]));
    let arguments = [("a", "items"), ("b", "byGroup"), ("c", "by-index-red")];
    expect("by-index", &driver.run("by-index", &arguments).await, &red)?;
    expect("index-keys", &driver.run("index-keys", &arguments).await, &red)?;
    let nobody = [("a", "items"), ("b", "byGroup"), ("c", "by-index-green")];
    expect("a value that nobody has", &driver.run("index-keys", &nobody).await, "")?;
    let values = driver.run("index-values", &[("a", "items"), ("b", "byGroup")]).await;
    let of_this_case: Vec<_> = values.split(' ').filter(|value| value.starts_with("by-index-")).collect();
    expect("index-values", &of_this_case.join(" "), "by-index-blue by-index-red")
}

pub(super) async fn computed_index(driver: Driver) -> Result<(), String> {
    let items = [
        ("a", json!({"words": "apple  pear apple"})),
        ("b", json!({"words": "pear"})),
        ("c", json!({"words": "pear trap"})),
        ("d", json!({})),
    ];
    let names = driver.create_cached_items(&items).await;
    let by_word =
        async |op: &str, word: &str| driver.run(op, &[("a", "items"), ("b", "byWord"), ("c", word)]).await;
    let keys: Vec<_> = names.iter().map(|name| driver.key(name)).collect();
    // Repeats the query, because the index may lag behind the cache: no reconcile of these items waits for it.
    let pears = [("a", "items"), ("b", "byWord"), ("c", "pear")];
    let without_the_one_that_traps = format!("{} {}", keys[0], keys[1]);
    driver.run_until("the pears", "index-keys", &pears, |found| found == without_the_one_that_traps).await;
    expect("apples", &by_word("by-index", "apple").await, &keys[0])?;
    expect("values", &driver.run("index-values", &[("a", "items"), ("b", "byWord")]).await, "apple pear")?;
    // A changed object is found under its new values, even if computing them trapped before.
    driver.host().server.set_data(&names[2], "words", "plum").await;
    driver.host().server.set_data(&names[0], "words", "cherry").await;
    for (word, wanted) in [("plum", keys[2].as_str()), ("apple", "")] {
        let arguments = [("a", "items"), ("b", "byWord"), ("c", word)];
        driver.run_until(word, "index-keys", &arguments, |found| found == wanted).await;
    }
    Ok(())
}

pub(super) async fn has_synced(driver: Driver) -> Result<(), String> {
    expect("has-synced", &driver.run("has-synced", &[("a", "namespaces")]).await, "true")
}

pub(super) async fn object(driver: Driver) -> Result<(), String> {
    let name = driver.create_cached_items(&[("item", json!({"value": "a \"b\""}))]).await.remove(0);
    let change = json!({"metadata": {
        "annotations": {"note": "read me"},
        "finalizers": ["acceptance.pilothouse.dev/test"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u-1", "controller": true}],
    }});
    let maps = driver.host().server.config_maps();
    let patched = maps.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await;
    patched.map_err(|error| error.to_string())?;
    maps.delete(&name, &kube::api::DeleteParams::default()).await.map_err(|error| error.to_string())?;
    let key = driver.key(&name);
    let wanted = format!(
        "key={key}\napi-version=v1\nkind=ConfigMap\nuid=set\nresource-version=set\ngeneration=0\n\
         labels=test=acceptance-item,tier=object\nlabel=object\nannotation=read me\ndeletion-timestamp=set\n\
         controller=ConfigMap/owner\nfield=\"a \\\"b\\\"\"\ntext=a \"b\"\n\
         fields=\"a \\\"b\\\"\",-,\"ConfigMap\"\ntexts=a \"b\",-,ConfigMap"
    );
    let arguments = [("a", "items"), ("b", driver.namespace()), ("c", name.as_str())];
    let is_deleted = |found: &str| found.contains("\ndeletion-timestamp=set\n");
    let value = driver.run_until("its deletion", "object", &arguments, is_deleted).await;
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let released = maps.patch(&name, &PatchParams::default(), &release).await;
    released.map_err(|error| error.to_string())?;
    expect("every method", value.trim_end(), &wanted)
}

/// Tests the empty namespace, which means a cluster-scoped object in `get` and all namespaces in `list`.
pub(super) async fn cluster_scoped(driver: Driver) -> Result<(), String> {
    let arguments = [("a", "namespaces"), ("b", ""), ("c", driver.namespace()), ("d", "/metadata/name")];
    expect("the namespace", &driver.run("get", &arguments).await, driver.namespace())?;
    expect("no such namespace", &driver.run("get", &[("a", "namespaces"), ("c", "nowhere")]).await, "none")?;
    let all = driver.run("list", &[("a", "namespaces"), ("b", ""), ("c", ""), ("d", "0")]).await;
    if all.split(' ').any(|key| key == driver.namespace()) {
        Ok(())
    } else {
        Err(format!("{} is not among {all:?}", driver.namespace()))
    }
}

pub(super) async fn unicode(driver: Driver) -> Result<(), String> {
    let text = "Grüße, 世界 🚢 \u{10348} e\u{301}";
    let name = driver.create_cached_items(&[("item", json!({"value": text}))]).await.remove(0);
    let arguments = [("a", "items"), ("b", driver.namespace()), ("c", name.as_str()), ("d", "/data/value")];
    expect("through the cache", &driver.run("get", &arguments).await, text)?;
    let arguments = [("a", name.as_str()), ("b", "Ω≈ç√ 🛳")];
    expect("through a write", &driver.run("own-write", &arguments).await, "Ω≈ç√ 🛳")
}

/// Tests an object of 1.4 MiB, nearly the largest that etcd stores. It is a Deployment, because ConfigMaps are limited to 1 MiB.
pub(super) async fn big_object(driver: Driver) -> Result<(), String> {
    let value = "x".repeat(1_400 << 10);
    let name = driver.name("big");
    let deployments = Api::<Deployment>::namespaced(driver.host().server.client.clone(), driver.namespace());
    let manifest = json!({
        "metadata": {"name": name, "labels": {"test": "acceptance-item"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "nginx", "env": [{"name": "A", "value": value}]}]},
            },
        },
    });
    let deployment = serde_json::from_value(manifest).expect("a deployment");
    deployments.create(&PostParams::default(), &deployment).await.map_err(|error| error.to_string())?;
    // Repeats the query, because object and script arrive through different watches.
    let arguments = [("a", "deployments"), ("b", driver.namespace()), ("c", name.as_str())];
    let length = |found: &str| found.parse::<usize>().unwrap_or(0);
    let is_whole = |found: &str| length(found) > value.len();
    let length = length(&driver.run_until("the whole object", "json-length", &arguments, is_whole).await);
    // The rest of the object has a few hundred bytes.
    if length < value.len() + 4000 { Ok(()) } else { Err(format!("{length} bytes of JSON")) }
}

pub(super) async fn own_write(driver: Driver) -> Result<(), String> {
    let name = driver.create_cached_items(&[("item", json!({"value": "old"}))]).await.remove(0);
    for round in 0..5 {
        let value = format!("round {round}");
        let read = driver.run("own-write", &[("a", &name), ("b", &value)]).await;
        expect("read right after the write", &read, &value)?;
    }
    Ok(())
}
