//! Services: cluster IPs and node ports, with the messages of `k8s.io/kubernetes/pkg/registry/core/service`.
//!
//! - `allocation` chooses the addresses and ports of a Service. `kept_fields`: those that an update keeps. `validation`: which are refused.
//! - `type_fields`: the fields that a Service does not need any longer. `warnings`: the warnings about Services.

mod allocation;
mod kept_fields;
#[cfg(test)]
mod tests;
mod type_fields;
mod validation;
pub(super) mod warnings;

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::identifiers::Identifiers;
use crate::meta;
use crate::registry::{Addresses, Endpoint};
use crate::status::Cause;
use allocation::{Allocation, set_absent};

/// The range of cluster IPs, kubeadm's default.
const IP_RANGE: &str = "10.96.0.0/12";
/// The network address of [`IP_RANGE`].
const FIRST_IP: u32 = u32::from_be_bytes([10, 96, 0, 0]);
/// The number of addresses in [`IP_RANGE`].
const IP_COUNT: u32 = 1 << 20;
/// The range of node ports, Kubernetes' default.
const NODE_PORTS: RangeInclusive<u64> = 30000..=32767;

/// The addresses and ports of all Services but one.
struct OtherServices<'a> {
    addresses: &'a Addresses,
    /// The namespace and name of that one.
    except: (&'a str, &'a str),
}

impl OtherServices<'_> {
    fn has_ip(&self, ip: &str) -> bool {
        self.addresses.has_ip(ip, self.except)
    }

    fn has_port(&self, port: u64, protocol: &str) -> bool {
        self.addresses.has_port(port, protocol, self.except)
    }
}

/// Calls `query` with the addresses of all Services but the one in `namespace` with `name`.
fn with_other_services<T: Default>(
    endpoint: &Endpoint,
    except: (&str, &str),
    query: impl FnOnce(&OtherServices<'_>) -> T,
) -> T {
    let Some(index) = &endpoint.resource.addresses else { return T::default() };
    index.read(&endpoint.resource.table, |addresses| query(&OtherServices { addresses, except }))
}

/// Sets the cluster IP, its families and the node ports of a Service unless the client did.
pub(in crate::rest) fn allocate(endpoint: &Endpoint, service: &mut Value, identifiers: &Identifiers) {
    set_absent(endpoint, service, identifiers, Allocation::WithAddress);
}

/// Sets the allocated fields of the stored Service that an update leaves out. Returns what is invalid.
pub(super) fn prepare_update(endpoint: &Endpoint, old: &Value, service: &mut Value) -> Vec<Cause> {
    kept_fields::keep_addresses(&old["spec"], &mut service["spec"]);
    kept_fields::keep_node_ports(&old["spec"], &mut service["spec"]);
    kept_fields::keep_health_check_port(&old["spec"], &mut service["spec"]);
    type_fields::drop_fields(old, service);
    validate(endpoint, service, Some(old))
}

/// Allocates what an updated Service does not have yet.
pub(super) fn finish_update(
    endpoint: &Endpoint,
    old: &Value,
    service: &mut Value,
    identifiers: &Identifiers,
) {
    let (had_address, was_external) =
        (old["spec"]["clusterIP"].is_string(), old["spec"]["type"] == "ExternalName");
    // As in Kubernetes, one that was created through its status stays without addresses, and gets everything else.
    let allocation =
        if had_address || was_external { Allocation::WithAddress } else { Allocation::WithoutAddress };
    set_absent(endpoint, service, identifiers, allocation);
}

/// Returns what is wrong with the cluster IP and the node ports of a Service. `old` is the stored one on updates.
pub(super) fn validate(endpoint: &Endpoint, service: &Value, old: Option<&Value>) -> Vec<Cause> {
    let key = (meta::text(service, "namespace"), meta::text(service, "name"));
    with_other_services(endpoint, key, |others| {
        validation::check(others, &service["spec"], old.map(|old| &old["spec"]))
    })
}

/// Whether somebody else manages the endpoints of a Service, and their families.
fn is_open(spec: &Value) -> bool {
    spec["clusterIP"] == "None" && spec["selector"].as_object().is_none_or(Map::is_empty)
}
