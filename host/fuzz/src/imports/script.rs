//! Converts any bytes to a script for the plugin `hostile`: a list of imports to call, with their arguments.

use arbitrary::{Result, Unstructured};
use serde_json::{Value, json};

/// The most steps of a script.
const MAX_STEPS: usize = 8;
/// The most times that a step is repeated.
const MAX_REPETITIONS: u32 = 50;
/// The longest text that is made by repetition, in bytes. A longer one would only take more time.
const MAX_REPEATED_BYTES: usize = 64 << 10;

/// Texts that some import treats specially.
const SPECIAL_TEXTS: &[&str] = &[
    "",
    "maps",
    "default",
    "fuzzed",
    "own",
    "v1",
    "apps/v1",
    "ConfigMap",
    "Secret",
    "Namespace",
    "Node",
    "status",
    "scale",
    "token",
    "eviction",
    "a=b,c in (d,e),!f",
    "metadata.name=fuzzed",
    "/metadata/labels",
    "/data/script",
    "/",
    "..",
    "a/b?c#d%2f",
    "\u{0}",
    "\u{1b}[2J",
    "\u{202e}",
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"made\",\"namespace\":\"default\"}}",
    "{\"data\":{\"a\":\"b\"}}",
    "[{\"op\":\"add\",\"path\":\"/data\",\"value\":{}}]",
    "__name__",
    "le",
    "plugin",
    "default/fuzzed",
    "{turn}",
];

/// Returns the script for these bytes, a list of steps.
pub(super) fn script(input: &[u8]) -> Value {
    let mut bytes = Unstructured::new(input);
    let mut steps = Vec::new();
    while !bytes.is_empty() && steps.len() < MAX_STEPS {
        // The script ends if the bytes end in the middle of a step.
        let Ok(step) = step(&mut bytes) else { break };
        steps.push(step);
    }
    steps.into()
}

fn text(bytes: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match bytes.int_in_range(0..=5)? {
        0..=3 => json!(bytes.choose(SPECIAL_TEXTS)?),
        4 => json!(String::from_utf8_lossy(bytes.bytes(bytes.len().min(12))?)),
        _ => {
            let repeated = *bytes.choose(SPECIAL_TEXTS)?;
            let times = bytes.int_in_range(0..=MAX_REPEATED_BYTES / repeated.len().max(1))?;
            json!({"repeat": repeated, "times": times, "after": bytes.choose(SPECIAL_TEXTS)?})
        }
    })
}

fn labels(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let count = bytes.int_in_range(0..=3)?;
    (0..count).map(|_| Ok(json!([text(bytes)?, text(bytes)?]))).collect::<Result<Vec<_>>>().map(Value::from)
}

fn target(bytes: &mut Unstructured<'_>, mut step: Value) -> Result<Value> {
    for member in ["apiVersion", "kind", "namespace", "name", "subresource"] {
        step[member] = text(bytes)?;
    }
    Ok(step)
}

fn filter(bytes: &mut Unstructured<'_>, mut step: Value) -> Result<Value> {
    for member in ["watch", "namespace", "selector", "cursor"] {
        step[member] = text(bytes)?;
    }
    step["limit"] = bytes.arbitrary::<u32>()?.into();
    Ok(step)
}

fn step(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut step = match bytes.int_in_range(0..=24)? {
        0 => {
            json!({"do": "cache.get", "watch": text(bytes)?, "namespace": text(bytes)?, "name": text(bytes)?,
            "keep": bytes.arbitrary::<bool>()?, "pointer": text(bytes)?})
        }
        1 => filter(bytes, json!({"do": "cache.list"}))?,
        2 => {
            let step = json!({"do": "cache.list-fields", "pointer": text(bytes)?, "pointers": bytes.arbitrary::<u8>()?});
            filter(bytes, step)?
        }
        3 => {
            json!({"do": "cache.by-index", "watch": text(bytes)?, "index": text(bytes)?, "value": text(bytes)?})
        }
        4 => {
            json!({"do": "cache.index-keys", "watch": text(bytes)?, "index": text(bytes)?, "value": text(bytes)?})
        }
        5 => json!({"do": "cache.index-values", "watch": text(bytes)?, "index": text(bytes)?}),
        6 => target(bytes, json!({"do": "client.get", "keep": true}))?,
        7 => {
            let step = json!({"do": "client.list", "label_selector": text(bytes)?, "field_selector": text(bytes)?,
                "cursor": text(bytes)?});
            target(bytes, step)?
        }
        8 => json!({"do": "client.create", "manifest": text(bytes)?, "subresource": text(bytes)?}),
        9 => json!({"do": "client.update", "manifest": text(bytes)?, "subresource": text(bytes)?}),
        10 => {
            let form = bytes.choose(&["json", "merge", "strategic", "apply"])?;
            let step = json!({"do": "client.patch", "form": form, "body": text(bytes)?, "manager": text(bytes)?,
                "force": bytes.arbitrary::<bool>()?});
            target(bytes, step)?
        }
        11 => {
            let step = json!({"do": "client.delete", "uid": text(bytes)?, "resource_version": text(bytes)?});
            target(bytes, step)?
        }
        12 => {
            json!({"do": "queue.add", "watch": text(bytes)?, "namespace": text(bytes)?, "name": text(bytes)?})
        }
        // So late that the item stays in the queue for the whole run.
        13 => {
            json!({"do": "queue.add-after", "watch": text(bytes)?, "namespace": text(bytes)?, "name": text(bytes)?,
            "milliseconds": bytes.int_in_range(1_000_000..=u32::MAX)?})
        }
        14 => {
            json!({"do": "events.publish", "reason": text(bytes)?, "action": text(bytes)?, "note": text(bytes)?})
        }
        15 => json!({"do": "log", "message": text(bytes)?, "fields": labels(bytes)?}),
        16 => json!({"do": "stdout", "text": text(bytes)?}),
        17 => json!({"do": "stderr", "text": text(bytes)?}),
        18 => json!({"do": "field", "pointer": text(bytes)?}),
        19 => json!({"do": "fields", "pointer": text(bytes)?, "pointers": bytes.arbitrary::<u8>()?}),
        20 => json!({"do": "keep"}),
        21 => json!({"do": "fail", "message": text(bytes)?}),
        kind => {
            let kind = ["counter", "gauge", "histogram"][(kind - 22).min(2)];
            // JSON has no NaN and no infinity; 1e308 overflows when it is added to itself.
            let value = *bytes.choose(&[0.0, 1.0, -1.0, 0.5, 1e308])?;
            json!({"do": format!("metrics.{kind}"), "name": text(bytes)?, "labels": labels(bytes)?, "value": value})
        }
    };
    step["times"] = bytes.int_in_range(1..=MAX_REPETITIONS)?.into();
    Ok(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_make_a_script_and_equal_bytes_make_equal_scripts() {
        assert_eq!(script(&[]), json!([]));
        let input: Vec<u8> =
            (0..4000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let made = script(&input);
        assert_eq!(made.as_array().map(Vec::len), Some(MAX_STEPS), "{made:#}");
        assert_eq!(script(&input), made);
    }
}
