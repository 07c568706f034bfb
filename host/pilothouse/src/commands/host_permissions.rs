//! The permissions that a host itself needs, whatever its plugins do.

use pilothouse_controller::{Availability, RequiredPermission};

#[cfg(feature = "registry")]
use super::plugin_resource::PluginResourceConfig;

/// Returns the permissions of a host that asks the API server who may read its status port.
pub(super) fn of_status_port() -> Vec<RequiredPermission> {
    let reviews =
        [("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")];
    reviews
        .into_iter()
        .map(|(group, resource)| permission(group, resource, "create", "", "--auth kubernetes"))
        .collect()
}

/// Returns the permissions of a host in this namespace that runs the plugins of objects.
#[cfg(feature = "registry")]
pub(super) fn of_plugin_objects(
    config: &PluginResourceConfig,
    own_namespace: &str,
) -> Vec<RequiredPermission> {
    if !config.enabled {
        return Vec::new();
    }
    let mut namespaces = vec![own_namespace];
    // A list of all namespaces includes the host's own, but its objects are watched by themselves.
    namespaces.extend(config.namespaces.iter().map(|name| if name == "*" { "" } else { name.as_str() }));
    let in_namespace = |namespace: &str| {
        [("plugins", "list"), ("plugins", "watch"), ("plugins/status", "patch")].map(|(resource, verb)| {
            permission("pilothouse.dev", resource, verb, namespace, "objects of the kind Plugin")
        })
    };
    namespaces.into_iter().flat_map(in_namespace).collect()
}

fn permission(
    group: &str,
    resource: &str,
    verb: &str,
    namespace: &str,
    needed_for: &str,
) -> RequiredPermission {
    RequiredPermission {
        service_account: None,
        group: group.to_owned(),
        resource: resource.to_owned(),
        verb: verb.to_owned(),
        namespace: namespace.to_owned(),
        names: Vec::new(),
        needed_for: needed_for.to_owned(),
        is_guess: false,
        allowed: Availability::Unverified,
    }
}

#[cfg(all(test, feature = "registry"))]
mod tests {
    use super::*;

    #[test]
    fn objects_need_permissions_in_the_hosts_and_in_the_configured_namespaces() {
        let of = |enabled: bool, namespaces: &[&str]| {
            let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
            of_plugin_objects(&PluginResourceConfig { enabled, namespaces }, "host")
                .into_iter()
                .filter(|permission| permission.verb == "patch")
                .map(|permission| (permission.resource, permission.namespace))
                .collect::<Vec<_>>()
        };
        let status = |namespace: &str| ("plugins/status".to_owned(), namespace.to_owned());
        assert_eq!(of(false, &["a"]), []);
        assert_eq!(of(true, &[]), [status("host")]);
        assert_eq!(of(true, &["a", "b"]), [status("host"), status("a"), status("b")]);
        assert_eq!(of(true, &["*"]), [status("host"), status("")]);
    }
}
