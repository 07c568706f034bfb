//! IPAddresses and ServiceCIDRs.

use serde_json::Value;

use super::ip::CIDR;
use super::network::parse_cidr;
use super::{has, items, names, push_invalid, text};
use crate::schema::field;
use crate::status::Causes;

/// The field of the ranges of a ServiceCIDR.
const PATH: &str = "spec.cidrs";

pub(super) fn validate_address(spec: &Value, causes: &mut Causes) {
    const PATH: &str = "spec.parentRef";
    let parent = &spec["parentRef"];
    if !has(spec, "parentRef") {
        causes.push(field::required(PATH, ""));
        return;
    }
    let group = text(parent, "group");
    if !group.is_empty() {
        push_invalid(causes, &field::child(PATH, "group"), group, names::subdomain_errors(group));
    }
    for (name, is_required) in [("resource", true), ("name", true), ("namespace", false)] {
        let (value, path) = (text(parent, name), field::child(PATH, name));
        if !value.is_empty() {
            push_invalid(causes, &path, value, names::path_segment_errors(value));
        } else if is_required {
            causes.push(field::required(&path, ""));
        }
    }
}

pub(super) fn validate_range(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    const IMMUTABLE: &str = "field is immutable";
    let ranges = items(&spec["cidrs"]);
    if let Some(old) = old {
        let before = items(&old["spec"]["cidrs"]);
        if before.len() != ranges.len() && (before.len(), ranges.len()) != (1, 2) {
            causes.push(field::invalid(PATH, &spec["cidrs"], IMMUTABLE));
            return;
        }
        for (index, (_, after)) in
            before.iter().zip(ranges).enumerate().filter(|(_, (before, after))| before != after)
        {
            causes.push(field::invalid(&field::index(PATH, index), after, IMMUTABLE));
        }
        if before.len() == ranges.len() {
            return;
        }
    }
    if ranges.is_empty() {
        causes.push(field::required(PATH, "at least one CIDR required"));
        return;
    }
    if ranges.len() > 2 {
        let shown = format!(r#"{{"CIDRs":{}}}"#, spec["cidrs"]);
        causes.push(field::invalid_shown(PATH, &shown, "may only hold up to 2 values"));
        return;
    }
    let parsed: Vec<_> = ranges.iter().map(|range| range.as_str().and_then(parse_cidr)).collect();
    for (index, range) in ranges.iter().enumerate().filter(|(index, _)| parsed[*index].is_none()) {
        causes.push(field::invalid(&field::index(PATH, index), range, CIDR));
    }
    if let [Some((first, _)), Some((second, _))] = parsed[..]
        && first.is_ipv4() == second.is_ipv4()
    {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        causes.push(field::invalid(PATH, &spec["cidrs"], detail));
    }
}
