//! Secrets are planted in everything that a bundle is made of, and none may be in the bundle.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use planted_secrets::{CANARIES, COLOUR, LOGIN, canary, logged, unpack};

#[path = "../../tests/e2e/planted_secrets.rs"]
mod planted_secrets;

fn options() -> BundleOptions {
    BundleOptions { unredacted: false, anonymise: None, created: 1, max_bytes: MAX_BUNDLE }
}

fn text_of<'a>(files: &'a BTreeMap<String, String>, path: &str) -> &'a str {
    files.get(path).unwrap_or_else(|| panic!("{path} is missing"))
}

/// Plants the canaries 0 to 39 in a host's files, documents and logs.
fn planted() -> Material {
    let c = canary;
    let mut material = Material::default();
    plant_configuration(&mut material);
    let status = json!({"plugins": [{
        "name": "greeter", "digest": "00", "state": "failed",
        "error": format!("sidecar: invalid type: string {:?}, expected u16", c(12)),
        "lastError": {
            "key": "shop/web",
            "message": logged()[0],
        },
        "token": c(16),
    }]});
    material.add("status.json", Form::Json, status.to_string());
    let message = |text: String| json!({"plugin": "greeter", "level": "info", "message": text}).to_string();
    let mut log = logged().into_iter().map(message).collect::<Vec<_>>().join("\n");
    let fields = json!({"plugin": "greeter", "message": "sent", "fields": [["url", format!("https://a.example/?sig={}", c(33))]]});
    log += &format!("\n{fields}\nnot JSON, token={}\n", c(34));
    material.add("logs.ndjson", Form::JsonLines, log);
    let keys = json!({"pending": 1, "keys": [{"key": "shop/web", "attempts": 2,
        "lastError": format!("spec: Invalid value: {{\"a\":\"{}\"}}: no", c(35))}]});
    material.add("keys/greeter.json", Form::Json, keys.to_string());
    let metrics = format!("calls_total{{url=\"https://x:{}@a.example\"}} 1\n", c(36));
    material.add("metrics/1.txt", Form::Text, metrics);
    let check = json!({"problems": [format!("unknown variant `{}`, expected one of a, b", c(37))], "log": [format!("config has {}", c(1))]});
    material.add("check/greeter.json", Form::Json, check.to_string());
    material.leave_out("rights", format!("https://:{}@10.0.0.1: Bearer {} was refused", c(38), c(39)));
    material
}

/// Plants the canaries 0 to 11 in configuration files, the kubeconfig and the environment.
fn plant_configuration(material: &mut Material) {
    let c = canary;
    material.add_kubeconfig(&format!(
        "users:\n- name: me\n  user:\n    token: {}\n    password: {}\n    exec: {{env: [{{name: KEY, value: {}}}]}}\n",
        c(LOGIN),
        c(9),
        c(10)
    ));
    let environment = environment_facts([
        ("PILOTHOUSE_SERVER".to_owned(), format!("http://u:{}@127.0.0.1:9464", c(7))),
        ("DB_PASSWORD".to_owned(), c(11)),
    ]);
    material.secrets.extend(environment.secrets);
    let text =
        [environment.own.join("\n"), format!("refused {}", c(11)), format!("refused {}", c(9))].join("\n");
    material.add("environment.txt", Form::Text, text);
    let sidecar = format!(
        "# {}\nworkers: 2\nconfig:\n  colour: {}\n  deep: [{{a: {}}}]\n  text: |\n    first\n    {}\ntypo: {}\n",
        c(4),
        c(COLOUR),
        c(1),
        c(2),
        c(3)
    );
    material.add("sidecars/greeter.yaml", Form::Sidecar, sidecar);
    material.add("sidecars/torn.yaml", Form::Sidecar, format!("config: {{a: {}\n - b", c(5)));
    material.add(
        "config.yaml",
        Form::HostConfig,
        format!("grants: explicit\nregistry: {{password: {}}}\n", c(6)),
    );
}

#[test]
fn no_planted_secret_is_in_the_bundle() {
    let material = planted();
    let raw: String =
        material.files.iter().map(|file| file.text.clone()).chain(material.secrets.clone()).collect();
    let raw = raw + &material.left_out.iter().map(|left_out| left_out.reason.clone()).collect::<String>();
    for number in 0..CANARIES {
        assert!(raw.contains(&canary(number)), "{number} is not planted");
    }
    let files = unpack(&assemble(material, &options()).expect("a bundle"));
    for (path, text) in &files {
        for number in 0..CANARIES {
            assert!(!text.contains(&canary(number)), "{number} is in {path}:\n{text}");
        }
        assert!(!text.contains("canary"), "{path}:\n{text}");
    }
}

#[test]
fn the_bundle_says_what_it_lacks_and_keeps_what_explains_a_failure() {
    let files = unpack(&assemble(planted(), &options()).expect("a bundle"));
    let left_out = text_of(&files, "left-out.txt");
    assert!(left_out.contains("sidecars/torn.yaml: it is not valid YAML"), "{left_out}");
    assert!(left_out.contains("rights: "), "{left_out}");
    assert!(text_of(&files, "sidecars/greeter.yaml").contains("workers: 2"));
    assert!(text_of(&files, "config.yaml").contains("explicit"));
    let status: Value = serde_json::from_str(text_of(&files, "status.json")).expect("JSON");
    assert_eq!(status["plugins"][0]["state"], "failed");
    assert_eq!(status["plugins"][0]["lastError"]["key"], "shop/web");
    assert!(text_of(&files, "logs.ndjson").contains("tries=1"));
    assert!(text_of(&files, "README.txt").contains("read them before you publish"));
}

#[test]
fn an_unredacted_bundle_has_everything_and_says_so() {
    let files =
        unpack(&assemble(planted(), &BundleOptions { unredacted: true, ..options() }).expect("a bundle"));
    assert!(text_of(&files, "sidecars/greeter.yaml").contains(&canary(0)));
    assert!(text_of(&files, "README.txt").contains("may contain secrets"));
}

#[test]
fn an_anonymised_bundle_has_the_same_hash_for_a_name_in_all_files() {
    let options = BundleOptions { anonymise: Some([3; 32]), ..options() };
    let files = unpack(&assemble(planted(), &options).expect("a bundle"));
    for (path, text) in &files {
        assert!(!path.contains("greeter") && !text.contains("greeter"), "{path}: {text}");
        assert!(!text.contains("shop/web"), "{path}: {text}");
    }
    let status: Value = serde_json::from_str(text_of(&files, "status.json")).expect("JSON");
    let name = status["plugins"][0]["name"].as_str().expect("a name");
    let keys: Value = serde_json::from_str(text_of(&files, &format!("keys/{name}.json"))).expect("JSON");
    assert_eq!(keys["keys"][0]["key"], status["plugins"][0]["lastError"]["key"]);
}

#[test]
fn a_file_that_does_not_fit_is_left_out_by_name() {
    let mut material = Material::default();
    // Numbers that hardly compress, and are no secrets.
    let noise =
        (0_u64..40_000).map(|number| format!("{:x} ", number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20));
    material.add("big.txt", Form::Text, noise.collect::<String>());
    material.add("small.txt", Form::Text, "text");
    let max_bytes = (1 << 20) + (64 << 10);
    let bundle = assemble(material, &BundleOptions { max_bytes, ..options() }).expect("a bundle");
    assert!(bundle.len() <= max_bytes, "{}", bundle.len());
    let files = unpack(&bundle);
    assert!(text_of(&files, "left-out.txt").contains("big.txt: the bundle would exceed 1 MiB"));
    assert_eq!(text_of(&files, "small.txt"), "text");
}

#[test]
fn stuck_keys_have_failed_or_take_long() {
    let key = |state: &str, milliseconds: u64, attempts: u64| json!({"state": state, "milliseconds": milliseconds, "attempts": attempts});
    let keys = json!({"keys": [key("ready", 90_000, 0), key("delayed", 10, 1), key("processing", 60_000, 0), key("processing", 59_999, 0)]});
    assert_eq!(stuck_keys(&keys), [key("delayed", 10, 1), key("processing", 60_000, 0)]);
    assert_eq!(stuck_keys(&json!({})), Vec::<Value>::new());
}
