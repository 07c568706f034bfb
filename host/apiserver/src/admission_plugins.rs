//! The admission plugins of kube-apiserver that can be enabled and disabled.

use std::fmt;
use std::str::FromStr;

/// Defines the plugins, and lists them in the order in which they act.
macro_rules! admission_plugins {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// A built-in admission plugin, under its name in kube-apiserver.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum AdmissionPlugin {
            $($(#[$doc])+ $name,)+
        }

        impl AdmissionPlugin {
            /// All plugins, in the order in which they act.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];
        }
    };
}

admission_plugins! {
    /// Applies the defaults of LimitRanges to Pods, and refuses Pods and claims outside their limits.
    LimitRanger,
    /// Refuses Pods whose service account does not exist, and mounts the account's token.
    ServiceAccount,
    /// Taints new Nodes as not ready.
    TaintNodesByCondition,
    /// Applies the Pod Security Standards that the labels of a Namespace select.
    PodSecurity,
    /// Sets the priority of Pods from their PriorityClass.
    Priority,
    /// Lets Pods tolerate Nodes that are not ready or unreachable for 300 seconds.
    DefaultTolerationSeconds,
    /// Sets the default StorageClass of claims that name none.
    DefaultStorageClass,
    /// Sets the finalizers that keep claims and PersistentVolumes while they are used.
    StorageObjectInUseProtection,
    /// Refuses larger requests of claims whose StorageClass does not allow expansion.
    PersistentVolumeClaimResize,
    /// Sets the overhead and the scheduling of Pods from their RuntimeClass.
    RuntimeClass,
    /// Sets the default IngressClass of Ingresses that name none.
    DefaultIngressClass,
    /// Copies the topology labels of a Node to the Pods that are bound to it.
    PodTopologyLabels,
    /// Validates updates of the subresource `resize` of Pods.
    PodResizeValidator,
    /// Evaluates MutatingAdmissionPolicies.
    MutatingAdmissionPolicy,
    /// Calls mutating webhooks.
    MutatingAdmissionWebhook,
    /// Evaluates ValidatingAdmissionPolicies.
    ValidatingAdmissionPolicy,
    /// Calls validating webhooks.
    ValidatingAdmissionWebhook,
    /// Refuses requests that exceed a ResourceQuota.
    ResourceQuota,
}

impl AdmissionPlugin {
    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl fmt::Display for AdmissionPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The error for a name that is not that of an [`AdmissionPlugin`]. It lists the known names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAdmissionPlugin(String);

impl fmt::Display for UnknownAdmissionPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = AdmissionPlugin::ALL.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        write!(f, "no admission plugin {:?} can be enabled or disabled here; use one of {known}", self.0)
    }
}

impl std::error::Error for UnknownAdmissionPlugin {}

impl FromStr for AdmissionPlugin {
    type Err = UnknownAdmissionPlugin;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().copied().find(|plugin| plugin.to_string() == name);
        found.ok_or_else(|| UnknownAdmissionPlugin(name.to_owned()))
    }
}

/// Which plugins of a server are enabled and disabled explicitly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AdmissionPlugins {
    enabled: u32,
    disabled: u32,
}

impl AdmissionPlugins {
    /// Enables a plugin; the last call for it counts.
    pub(crate) fn enable(&mut self, plugin: AdmissionPlugin) {
        self.enabled |= plugin.bit();
        self.disabled &= !plugin.bit();
    }

    /// Disables a plugin; the last call for it counts.
    pub(crate) fn disable(&mut self, plugin: AdmissionPlugin) {
        self.disabled |= plugin.bit();
        self.enabled &= !plugin.bit();
    }

    /// Whether a plugin acts. All do by default, except `ServiceAccount`.
    pub(crate) fn acts(self, plugin: AdmissionPlugin) -> bool {
        let is_default = plugin != AdmissionPlugin::ServiceAccount;
        self.disabled & plugin.bit() == 0 && (is_default || self.enabled & plugin.bit() != 0)
    }

    /// Whether a Pod without a service account gets the name `default`, whether or not that account exists.
    pub(crate) fn names_service_account(self) -> bool {
        self.disabled & AdmissionPlugin::ServiceAccount.bit() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::AdmissionPlugin::{PodSecurity, Priority, ServiceAccount};
    use super::*;

    #[test]
    fn names_are_those_of_kube_apiserver() {
        for &plugin in AdmissionPlugin::ALL {
            assert_eq!(plugin.to_string().parse(), Ok(plugin));
        }
        assert_eq!("ServiceAccount".parse(), Ok(ServiceAccount));
        let error = "serviceaccount".parse::<AdmissionPlugin>().expect_err("no such name").to_string();
        assert!(error.contains("\"serviceaccount\"") && error.contains("PodSecurity, Priority"), "{error}");
    }

    #[test]
    fn all_plugins_act_by_default_except_service_account() {
        let mut plugins = AdmissionPlugins::default();
        for &plugin in AdmissionPlugin::ALL {
            assert_eq!(plugins.acts(plugin), plugin != ServiceAccount, "{plugin}");
        }
        assert!(plugins.names_service_account());
        plugins.enable(ServiceAccount);
        assert!(plugins.acts(ServiceAccount) && plugins.names_service_account());
        plugins.disable(ServiceAccount);
        plugins.disable(PodSecurity);
        assert!(!plugins.acts(ServiceAccount) && !plugins.names_service_account());
        assert!(!plugins.acts(PodSecurity) && plugins.acts(Priority));
    }
}
