//! What Kubernetes demands of a CustomResourceDefinition beyond its own schema:
//! `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`.

use serde_json::Value;

use super::{Schema, field, names};
use crate::status::Cause;

const APPROVAL: &str = "api-approved.kubernetes.io";

/// What is wrong with the definition `new`; `old` is the stored one on updates.
pub(super) fn check(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &new["spec"];
    let (group, plural) = (text(spec, "/group"), text(spec, "/names/plural"));
    if !group.is_empty() && !plural.is_empty() && text(new, "/metadata/name") != format!("{plural}.{group}") {
        let detail = r#"must be spec.names.plural+"."+spec.group"#;
        causes.push(field::invalid("metadata.name", &new["metadata"]["name"], detail));
    }
    self::group(new, group, &mut causes);
    self::names(&spec["names"], &mut causes);
    let scopes = ["Cluster", "Namespaced"];
    if let Some(scope) = spec.get("scope").filter(|scope| !scopes.iter().any(|known| scope == known)) {
        causes.push(field::not_supported("spec.scope", scope, &scopes));
    }
    if let Some(old) = old {
        for pointer in ["/spec/scope", "/spec/names/kind"] {
            if let (Some(before), Some(now)) = (old.pointer(pointer), new.pointer(pointer))
                && before != now
            {
                causes.push(field::invalid(&pointer[1..].replace('/', "."), now, "field is immutable"));
            }
        }
    }
    versions(&spec["versions"], &mut causes);
    causes
}

fn group(new: &Value, group: &str, causes: &mut Vec<Cause>) {
    if group.is_empty() {
        return;
    }
    for problem in names::subdomain(group) {
        causes.push(field::invalid("spec.group", &Value::from(group), &problem));
    }
    if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        causes.push(field::invalid("spec.group", &Value::from(group), detail));
    }
    let protected =
        ["k8s.io", "kubernetes.io"].iter().any(|own| group == *own || group.ends_with(&format!(".{own}")));
    if protected && new.pointer(&format!("/metadata/annotations/{APPROVAL}")).is_none() {
        let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
                      https://github.com/kubernetes/enhancements/pull/1111";
        causes.push(field::required(&field::key("metadata.annotations", APPROVAL), detail));
    }
}

fn names(given: &Value, causes: &mut Vec<Cause>) {
    let lists = ["shortNames", "categories"].into_iter().flat_map(|list| {
        let at = field::child("spec.names", list);
        let items = given[list].as_array().into_iter().flatten().enumerate();
        items.map(move |(index, name)| (field::index(&at, index), name))
    });
    let singles = ["plural", "singular"].map(|name| (field::child("spec.names", name), &given[name]));
    for (at, name) in singles.into_iter().chain(lists) {
        if let Some(name) = name.as_str().filter(|name| !name.is_empty()) {
            for problem in names::service(name) {
                causes.push(field::invalid(&at, &Value::from(name), &problem));
            }
        }
    }
    for name in ["kind", "listKind"] {
        if let Some(kind) = given[name].as_str().filter(|kind| !kind.is_empty())
            && !names::service(&kind.to_lowercase()).is_empty()
        {
            let detail =
                format!("may have mixed case, but should otherwise match: {}", names::service("-").concat());
            causes.push(field::invalid(&field::child("spec.names", name), &Value::from(kind), &detail));
        }
    }
    if given["kind"].is_string() && given["kind"] == given["listKind"] {
        let detail = "kind and listKind may not be the same";
        causes.push(field::invalid("spec.names.listKind", &given["listKind"], detail));
    }
}

fn versions(given: &Value, causes: &mut Vec<Cause>) {
    let Some(list) = given.as_array() else { return };
    for (index, version) in list.iter().enumerate() {
        let at = field::index("spec.versions", index);
        let name = text(version, "/name");
        for problem in names::service(name).into_iter().filter(|_| !name.is_empty()) {
            causes.push(field::invalid(&field::child(&at, "name"), &Value::from(name), &problem));
        }
        let schema_at = format!("{at}.schema.openAPIV3Schema");
        match version.pointer("/schema/openAPIV3Schema") {
            Some(schema) => {
                causes.extend(Schema::from_crd_at(schema, &schema_at).err().into_iter().flatten());
            }
            None => causes.push(field::required(&schema_at, "schemas are required")),
        }
        columns(&version["additionalPrinterColumns"], &field::child(&at, "additionalPrinterColumns"), causes);
        scale(&version["subresources"]["scale"], &format!("{at}.subresources.scale"), causes);
    }
    let names: Vec<_> = list.iter().map(|version| text(version, "/name")).collect();
    if (1..names.len()).any(|index| names[..index].contains(&names[index])) {
        causes.push(field::invalid("spec.versions", given, "must contain unique version names"));
    }
    if list.iter().filter(|version| version["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.push(field::invalid("spec.versions", given, detail));
    }
}

fn columns(given: &Value, path: &str, causes: &mut Vec<Cause>) {
    let types = ["boolean", "date", "integer", "number", "string"];
    for (index, column) in given.as_array().into_iter().flatten().enumerate() {
        let at = field::index(path, index);
        if let Some(ty) = column.get("type").filter(|ty| !types.iter().any(|known| ty == known)) {
            causes.push(field::not_supported(&field::child(&at, "type"), ty, &types));
        }
        if let Err(problem) = crate::table::Columns::custom(&Value::Array(vec![column.clone()])) {
            causes.push(field::invalid(&field::child(&at, "jsonPath"), &column["jsonPath"], &problem));
        }
    }
}

fn scale(given: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (name, roots, under) in [
        ("specReplicasPath", &[".spec."][..], ".spec"),
        ("statusReplicasPath", &[".status."], ".status"),
        ("labelSelectorPath", &[".spec.", ".status."], "either .spec or .status"),
    ] {
        let Some(value) = given.get(name).and_then(Value::as_str) else { continue };
        if !value.is_empty() && !roots.iter().any(|root| value.starts_with(root)) {
            let detail = format!("should be a json path under {under}");
            causes.push(field::invalid(&field::child(path, name), &Value::from(value), &detail));
        }
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition() -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "foos.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"kind": "Foo", "plural": "foos", "singular": "foo", "listKind": "FooList"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                              "schema": {"openAPIV3Schema": {"type": "object"}}}]
            }
        })
    }

    fn errors(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut new = definition();
        change(&mut new);
        let schema =
            Schema::builtin("apiextensions.k8s.io", "v1", "CustomResourceDefinition").expect("built in");
        let causes = schema.validate(&new, None);
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn a_sound_definition_is_accepted() {
        assert_eq!(errors(|_| {}), [""; 0]);
    }

    #[test]
    fn each_rule_has_its_message() {
        assert_eq!(
            errors(|crd| crd["metadata"]["name"] = json!("bars.example.com")),
            [r#"metadata.name: Invalid value: "bars.example.com": must be spec.names.plural+"."+spec.group"#]
        );
        assert_eq!(
            errors(|crd| crd["spec"]["scope"] = json!("World")),
            [r#"spec.scope: Unsupported value: "World": supported values: "Cluster", "Namespaced""#]
        );
        let storage = errors(|crd| crd["spec"]["versions"][0]["storage"] = json!(false));
        assert!(
            storage[0].ends_with("must have exactly one version marked as storage version"),
            "{storage:?}"
        );
        assert_eq!(
            errors(|crd| crd["spec"]["versions"][0]["schema"] = json!({})),
            ["spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"]
        );
        assert_eq!(
            errors(|crd| crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
                json!({"type": "object", "properties": {"a": {}}})),
            [
                "spec.versions[0].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for \
              specified object fields"
            ]
        );
        let column = json!([{"name": "X", "type": "string", "jsonPath": "spec"}]);
        let path = errors(|crd| crd["spec"]["versions"][0]["additionalPrinterColumns"] = column);
        assert!(path[0].starts_with("spec.versions[0].additionalPrinterColumns[0].jsonPath"), "{path:?}");
        let missing = errors(|crd| drop(crd["spec"].as_object_mut().expect("object").remove("group")));
        assert_eq!(missing, ["spec.group: Required value"]);
        let plural = errors(|crd| {
            crd["spec"]["names"]["plural"] = json!("Foos");
            crd["metadata"]["name"] = json!("Foos.example.com");
        });
        assert!(
            plural
                .iter()
                .any(|one| one.starts_with("spec.names.plural: Invalid value: \"Foos\": a DNS-1035"))
        );
        let protected = errors(|crd| {
            crd["spec"]["group"] = json!("x.k8s.io");
            crd["metadata"]["name"] = json!("foos.x.k8s.io");
        });
        assert!(protected[0].contains("api-approved.kubernetes.io"), "{protected:?}");
        let scale = json!({"specReplicasPath": ".replicas", "statusReplicasPath": ".status.replicas"});
        assert_eq!(
            errors(|crd| crd["spec"]["versions"][0]["subresources"] = json!({"scale": scale})),
            [
                r#"spec.versions[0].subresources.scale.specReplicasPath: Invalid value: ".replicas": should be a json path under .spec"#
            ]
        );
    }

    #[test]
    fn scope_and_kind_do_not_change() {
        let mut new = definition();
        new["spec"]["scope"] = json!("Cluster");
        let causes = check(&new, Some(&definition()));
        assert_eq!(causes.len(), 1);
        assert_eq!(
            (causes[0].field.as_str(), causes[0].reason.as_str()),
            ("spec.scope", "FieldValueInvalid")
        );
    }
}
