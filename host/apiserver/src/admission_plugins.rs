//! The admission plugins of kube-apiserver that can be enabled and disabled.

use std::fmt;
use std::str::FromStr;

/// A built-in admission plugin, under its name in kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are those of kube-apiserver, whose documentation describes them")]
pub enum AdmissionPlugin {
    LimitRanger,
    ServiceAccount,
    TaintNodesByCondition,
    PodSecurity,
    Priority,
    DefaultTolerationSeconds,
    DefaultStorageClass,
    StorageObjectInUseProtection,
    PersistentVolumeClaimResize,
    RuntimeClass,
    DefaultIngressClass,
    PodTopologyLabels,
    PodResizeValidator,
    MutatingAdmissionPolicy,
    MutatingAdmissionWebhook,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionWebhook,
    ResourceQuota,
}

use AdmissionPlugin::{
    DefaultIngressClass, DefaultStorageClass, DefaultTolerationSeconds, LimitRanger, MutatingAdmissionPolicy,
    MutatingAdmissionWebhook, PersistentVolumeClaimResize, PodResizeValidator, PodSecurity,
    PodTopologyLabels, Priority, ResourceQuota, RuntimeClass, ServiceAccount, StorageObjectInUseProtection,
    TaintNodesByCondition, ValidatingAdmissionPolicy, ValidatingAdmissionWebhook,
};

impl AdmissionPlugin {
    /// All plugins, in the order in which they act.
    pub const ALL: [Self; 18] = [
        LimitRanger,
        ServiceAccount,
        TaintNodesByCondition,
        PodSecurity,
        Priority,
        DefaultTolerationSeconds,
        DefaultStorageClass,
        StorageObjectInUseProtection,
        PersistentVolumeClaimResize,
        RuntimeClass,
        DefaultIngressClass,
        PodTopologyLabels,
        PodResizeValidator,
        MutatingAdmissionPolicy,
        MutatingAdmissionWebhook,
        ValidatingAdmissionPolicy,
        ValidatingAdmissionWebhook,
        ResourceQuota,
    ];

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
        let known = AdmissionPlugin::ALL.map(|plugin| plugin.to_string()).join(", ");
        write!(f, "no admission plugin {:?} can be enabled or disabled here; use one of {known}", self.0)
    }
}

impl std::error::Error for UnknownAdmissionPlugin {}

impl FromStr for AdmissionPlugin {
    type Err = UnknownAdmissionPlugin;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|plugin| plugin.to_string() == name);
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
        let is_default = plugin != ServiceAccount;
        self.disabled & plugin.bit() == 0 && (is_default || self.enabled & plugin.bit() != 0)
    }

    /// Whether a Pod without a service account gets the name `default`, whether or not that account exists.
    pub(crate) fn names_service_account(self) -> bool {
        self.disabled & ServiceAccount.bit() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kube_apiserver() {
        for plugin in AdmissionPlugin::ALL {
            assert_eq!(plugin.to_string().parse(), Ok(plugin));
        }
        assert_eq!("ServiceAccount".parse(), Ok(ServiceAccount));
        let error = "serviceaccount".parse::<AdmissionPlugin>().expect_err("no such name").to_string();
        assert!(error.contains("\"serviceaccount\"") && error.contains("PodSecurity, Priority"), "{error}");
    }

    #[test]
    fn all_plugins_act_by_default_except_service_account() {
        let mut plugins = AdmissionPlugins::default();
        for plugin in AdmissionPlugin::ALL {
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
