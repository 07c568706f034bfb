//! Checks what the schema of a descriptor cannot express: references, names, selectors.

use pilothouse_model::hash::HashSet;
use pilothouse_model::names::{is_dns_1035_label, is_dns_label, is_dns_subdomain};
use pilothouse_model::{FieldSelector, GroupVersionKind, JsonPath, LabelSelector, TypeNameError};

use super::{API_VERSION, Descriptor, DescriptorError, Index, Trigger, Watch};
use crate::config::limits;
use crate::outgoing::{PatternError, parse_patterns};
use crate::runtime::predicate::Predicate;

pub(super) fn validate(descriptor: &Descriptor) -> Result<(), DescriptorError> {
    if descriptor.api_version != API_VERSION {
        return Err(DescriptorError::invalid(
            "apiVersion",
            format!("{:?} is not served by this host", descriptor.api_version),
            format!("use {API_VERSION:?}, or a host that serves it"),
        ));
    }
    if descriptor.kind != "Plugin" {
        let problem = format!("{:?} is not a kind of descriptor", descriptor.kind);
        return Err(DescriptorError::invalid("kind", problem, "use \"Plugin\""));
    }
    if descriptor.watches.is_empty() {
        return Err(DescriptorError::invalid("watches", "nothing is watched", "declare at least one watch"));
    }
    let mut names = HashSet::default();
    let mut patterns_size = 0;
    for (position, watch) in descriptor.watches.iter().enumerate() {
        let path = format!("watches[{position}]");
        if !names.insert(watch.name.as_str()) {
            let problem = format!("there are two watches called {:?}", watch.name);
            return Err(DescriptorError::invalid(path + ".name", problem, "give each a name of its own"));
        }
        check_watch(descriptor, watch, &path)?;
        check_predicate(watch, &path, &mut patterns_size)?;
    }
    for (position, crd) in descriptor.crds.iter().enumerate() {
        let kind = crd.get("kind").and_then(|kind| kind.as_str()).unwrap_or_default();
        if kind != "CustomResourceDefinition" {
            return Err(DescriptorError::invalid(
                format!("crds[{position}].kind"),
                format!("{kind:?} is not CustomResourceDefinition"),
                "put whole apiextensions.k8s.io/v1 CustomResourceDefinition manifests there",
            ));
        }
    }
    for (position, crd) in descriptor.crds.iter().enumerate() {
        // The name becomes part of the path of a request that the host sends with its own permissions.
        let name = crd.pointer("/metadata/name").and_then(|name| name.as_str()).unwrap_or_default();
        if !is_dns_subdomain(name) {
            return Err(DescriptorError::invalid(
                format!("crds[{position}].metadata.name"),
                format!("{name:?} is not a DNS name"),
                "name the CustomResourceDefinition PLURAL.GROUP",
            ));
        }
    }
    if let Err(error) = parse_patterns(&descriptor.http) {
        let problem = format!("{:?}: {}", error.text, error.problem);
        return Err(DescriptorError::invalid("http", problem, PatternError::REMEDY));
    }
    limits::check_requested(&descriptor.limits).map_err(|error| {
        DescriptorError::invalid(format!("limits.{}", error.field), error.problem, error.remedy)
    })
}

/// The bytes that the compiled patterns of all predicates may take. They are compiled each time the descriptor is read.
const MAX_PATTERNS_SIZE: usize = 4 << 20;

/// Checks a predicate, and that its patterns are not too large together with those of the watches before it.
fn check_predicate(watch: &Watch, path: &str, patterns_size: &mut usize) -> Result<(), DescriptorError> {
    let invalid = |problem: String, remedy: &str| {
        Err(DescriptorError::invalid(format!("{path}.predicate"), problem, remedy))
    };
    match Predicate::compile(&watch.predicate) {
        Ok(predicate) => *patterns_size += predicate.patterns_size(),
        Err(error) => {
            return invalid(error.to_string(), "write a CEL expression over object, old and event");
        }
    }
    if *patterns_size > MAX_PATTERNS_SIZE {
        let problem = "the patterns of all predicates are too large together".to_owned();
        return invalid(problem, "use fewer or simpler regular expressions");
    }
    Ok(())
}

fn check_watch(descriptor: &Descriptor, watch: &Watch, path: &str) -> Result<(), DescriptorError> {
    let invalid = |field: &str, problem: String, remedy: &str| {
        Err(DescriptorError::invalid(format!("{path}.{field}"), problem, remedy))
    };
    if watch.name.is_empty() {
        return invalid("name", "it is empty".into(), "give the watch a name");
    }
    // These become parts of the URLs of the host's own watches.
    match GroupVersionKind::parse(&watch.api_version, &watch.kind) {
        Ok(_) => {}
        Err(TypeNameError::ApiVersion) => {
            let problem = format!("{:?} is not an API version", watch.api_version);
            return invalid("apiVersion", problem, "write it as in a manifest: \"v1\" or \"apps/v1\"");
        }
        Err(TypeNameError::Kind) => {
            let problem = format!("{:?} is not a kind", watch.kind);
            return invalid("kind", problem, "write the kind as in a manifest, such as \"ConfigMap\"");
        }
    }
    if let Some(resource) = watch.resource.as_deref().filter(|name| !is_dns_1035_label(name)) {
        let problem = format!("{resource:?} is not the plural name of a resource");
        return invalid("resource", problem, "write it as in URLs, such as \"configmaps\", or leave it out");
    }
    if let Some(namespace) = watch.namespaces.iter().find(|name| !is_dns_label(name)) {
        let problem = format!("{namespace:?} is not the name of a namespace");
        return invalid(
            "namespaces",
            problem,
            "write lower-case letters, digits and '-'; leave the list out for all",
        );
    }
    if let Err(error) = LabelSelector::parse(&watch.label_selector) {
        return invalid("labelSelector", error.problem, error.remedy);
    }
    if let Err(error) = FieldSelector::parse(&watch.field_selector) {
        return invalid("fieldSelector", error.problem, error.remedy);
    }
    let mut indexes = HashSet::default();
    for (position, index) in watch.indexes.iter().enumerate() {
        if !indexes.insert(index.name.as_str()) {
            let problem = format!("there are two indexes called {:?}", index.name);
            return invalid(&format!("indexes[{position}].name"), problem, "give each a name of its own");
        }
        check_index(index, &format!("{path}.indexes[{position}]"))?;
    }
    match &watch.trigger {
        Some(trigger) => check_trigger(descriptor, trigger, &format!("{path}.trigger")),
        None => Ok(()),
    }
}

fn check_index(index: &Index, path: &str) -> Result<(), DescriptorError> {
    let ways = [
        index.label.is_some(),
        index.annotation.is_some(),
        index.field.is_some(),
        index.owner,
        index.computed,
    ];
    let given = ways.iter().filter(|way| **way).count();
    if index.name.is_empty() {
        return Err(DescriptorError::invalid(format!("{path}.name"), "it is empty", "give the index a name"));
    }
    if given != 1 {
        return Err(DescriptorError::invalid(
            path,
            format!("{given} ways to index are given"),
            "give exactly one of label, annotation, field, owner: true, computed: true",
        ));
    }
    match &index.field {
        Some(field) => check_json_path(field, &format!("{path}.field")),
        None => Ok(()),
    }
}

fn check_trigger(descriptor: &Descriptor, trigger: &Trigger, path: &str) -> Result<(), DescriptorError> {
    if let Trigger::Field { path: field, namespace_path, .. } = trigger {
        check_json_path(field, &format!("{path}.field.path"))?;
        if let Some(namespace_path) = namespace_path {
            check_json_path(namespace_path, &format!("{path}.field.namespacePath"))?;
        }
    }
    let Some(target) = trigger.target() else { return Ok(()) };
    let targets = || {
        let names: Vec<_> = descriptor
            .watches
            .iter()
            .filter(|watch| watch.trigger == Some(Trigger::Itself))
            .map(|watch| format!("{:?}", watch.name))
            .collect();
        if names.is_empty() {
            "give one watch the trigger \"self\"".to_owned()
        } else {
            format!("there is {}", names.join(", "))
        }
    };
    let Some(watch) = descriptor.watch(target) else {
        let problem = format!("no watch is called {target:?}");
        return Err(DescriptorError::invalid(
            path,
            problem,
            format!("name a watch whose trigger is \"self\": {}", targets()),
        ));
    };
    if watch.trigger != Some(Trigger::Itself) {
        let problem =
            format!("the watch {target:?} is not a target, because its own trigger is not \"self\"");
        return Err(DescriptorError::invalid(
            path,
            problem,
            format!("name one whose trigger is: {}", targets()),
        ));
    }
    if let Trigger::Index { index, .. } = trigger
        && !watch.indexes.iter().any(|known| known.name == *index)
    {
        let known: Vec<_> = watch.indexes.iter().map(|known| known.name.as_str()).collect();
        let problem = format!("the watch {target:?} has no index {index:?}");
        return Err(DescriptorError::invalid(path, problem, format!("declare it there; it has {known:?}")));
    }
    Ok(())
}

fn check_json_path(text: &str, path: &str) -> Result<(), DescriptorError> {
    JsonPath::parse(text).map(drop).map_err(|error| {
        DescriptorError::invalid(
            path,
            error.to_string(),
            "write a JSONPath as kubectl takes it, such as {.spec.name}",
        )
    })
}
