//! Which controllers run.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::volumes::provisioner;
use super::{
    Controller, ControllerOptions, aggregation, autoscaler, certificates, crds, cron_job, daemon_set,
    deployment, disruption, endpoints, events, garbage_collector, job, kubelet, namespaces, node,
    policy_status, quota, replica_set, root_ca, scheduler, service_accounts, stage, stateful_set, ttl,
    volume_protection, volumes, workload_status,
};

/// A controller: its name, the older name that kube-controller-manager also accepts, and how it is created.
struct Row {
    name: &'static str,
    alias: &'static str,
    create: fn(&ControllerOptions) -> Box<dyn Controller>,
}

const ROWS: [Row; 32] = [
    Row {
        name: "serviceaccount-controller",
        alias: "serviceaccount",
        create: |_| Box::<service_accounts::ServiceAccounts>::default(),
    },
    Row {
        name: "root-ca-certificate-publisher-controller",
        alias: "root-ca-cert-publisher",
        create: |options| Box::new(root_ca::RootCaPublisher::new(options.ca_certificate.clone())),
    },
    Row {
        name: "certificatesigningrequest-signing-controller",
        alias: "csrsigning",
        create: |options| Box::new(certificates::signing_controller(options.authority.clone())),
    },
    Row {
        name: "certificatesigningrequest-approving-controller",
        alias: "csrapproving",
        create: |_| Box::new(certificates::approving_controller()),
    },
    Row {
        name: "certificatesigningrequest-cleaner-controller",
        alias: "csrcleaner",
        create: |_| Box::new(certificates::cleaner_controller()),
    },
    Row {
        name: "clusterrole-aggregation-controller",
        alias: "clusterrole-aggregation",
        create: |_| Box::<aggregation::Aggregation>::default(),
    },
    Row {
        name: "deployment-controller",
        alias: "deployment",
        create: |_| Box::new(deployment::controller()),
    },
    Row {
        name: "replicaset-controller",
        alias: "replicaset",
        create: |_| Box::new(replica_set::controller()),
    },
    Row {
        name: "replicationcontroller-controller",
        alias: "replicationcontroller",
        create: |_| Box::new(replica_set::replication_controller()),
    },
    Row {
        name: "statefulset-controller",
        alias: "statefulset",
        create: |_| Box::new(stateful_set::controller()),
    },
    Row { name: "daemonset-controller", alias: "daemonset", create: |_| Box::new(daemon_set::controller()) },
    Row { name: "job-controller", alias: "job", create: |_| Box::new(job::controller()) },
    Row { name: "cronjob-controller", alias: "cronjob", create: |_| Box::new(cron_job::controller()) },
    Row {
        name: "ttl-after-finished-controller",
        alias: "ttl-after-finished",
        create: |_| Box::new(ttl::controller()),
    },
    Row { name: "endpoints-controller", alias: "endpoint", create: |_| Box::new(endpoints::controller()) },
    Row {
        name: "endpointslice-controller",
        alias: "endpointslice",
        create: |_| Box::new(endpoints::slice_controller()),
    },
    Row {
        name: "disruption-controller",
        alias: "disruption",
        create: |_| Box::new(disruption::controller()),
    },
    Row {
        name: "horizontal-pod-autoscaler-controller",
        alias: "horizontalpodautoscaling",
        create: |_| Box::new(autoscaler::controller()),
    },
    Row {
        name: "persistentvolume-binder-controller",
        alias: "persistentvolume-binder",
        create: |_| Box::new(volumes::controllers()),
    },
    Row {
        name: "persistentvolumeclaim-protection-controller",
        alias: "pvc-protection",
        create: |_| Box::new(volume_protection::claims()),
    },
    Row {
        name: "persistentvolume-protection-controller",
        alias: "pv-protection",
        create: |_| Box::new(volume_protection::volumes()),
    },
    Row {
        name: "volumeattributesclass-protection-controller",
        alias: "vac-protection",
        create: |_| Box::new(volume_protection::classes()),
    },
    Row {
        name: "validatingadmissionpolicy-status-controller",
        alias: "validatingadmissionpolicy-status",
        create: |_| Box::new(policy_status::controller()),
    },
    Row {
        name: "resourcequota-controller",
        alias: "resourcequota",
        create: |_| Box::<quota::ResourceQuotas>::default(),
    },
    Row { name: scheduler::NAME, alias: "kube-scheduler", create: |_| Box::new(scheduler::controller()) },
    Row { name: node::NAME, alias: "simulated-node", create: |_| Box::new(node::controller()) },
    Row {
        name: provisioner::NAME,
        alias: "simulated-storage",
        create: |_| Box::new(provisioner::controllers()),
    },
    Row {
        name: kubelet::NAME,
        alias: "simulated-kubelet",
        create: |options| Box::new(kubelet::controller(options.stages.clone())),
    },
    Row {
        name: stage::NAME,
        alias: "stages",
        create: |options| Box::new(stage::controller(&options.stages)),
    },
    Row {
        name: "namespace-controller",
        alias: "namespace",
        create: |_| Box::<namespaces::Namespaces>::default(),
    },
    Row {
        name: "garbage-collector-controller",
        alias: "garbagecollector",
        create: |_| Box::<garbage_collector::GarbageCollector>::default(),
    },
    Row {
        name: workload_status::NAME,
        alias: "simulated-workload-status",
        create: |_| Box::new(workload_status::controller()),
    },
];

/// Controllers that run only if they are named.
const OFF_BY_DEFAULT: [&str; 1] = [workload_status::NAME];

/// A set of built-in controllers. The default is all of them but `workload-status`.
///
/// Its text is that of the flag `--controllers` of kube-controller-manager: names separated by commas, `*` for those of the default, `-name`
/// to leave one out. `default` is another name of `*`, and `none` selects no controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers(BTreeSet<&'static str>);

/// A list of controllers cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UnknownController {
    /// A name is not known.
    #[error("there is no controller {name:?}; the controllers are default, none, {known}")]
    Name {
        /// The unknown name.
        name: String,
        /// The known names, separated by commas.
        known: String,
    },
    /// The list only leaves controllers out.
    #[error("the list only leaves controllers out; write *,{list}")]
    OnlyExclusions {
        /// The list.
        list: String,
    },
}

impl Controllers {
    /// Returns the empty set. The server then behaves like kube-apiserver without a controller manager.
    #[must_use]
    pub fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// Returns the names of all controllers.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ROWS.iter().map(|row| row.name)
    }

    /// Whether the controller with this name is in the set.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

impl Default for Controllers {
    fn default() -> Self {
        Self(default_names().collect())
    }
}

impl FromStr for Controllers {
    type Err = UnknownController;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mut included, mut excluded) = (BTreeSet::new(), BTreeSet::new());
        let mut all = false;
        let mut none = false;
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match item {
                "*" | "default" => all = true,
                "none" => none = true,
                _ => match item.strip_prefix('-') {
                    Some(name) => drop(excluded.insert(find(name)?)),
                    None => drop(included.insert(find(item)?)),
                },
            }
        }
        if !all && !none && included.is_empty() && !excluded.is_empty() {
            return Err(UnknownController::OnlyExclusions { list: text.to_owned() });
        }
        if all {
            included.extend(default_names().filter(|name| !excluded.contains(name)));
        }
        Ok(Self(included))
    }
}

impl fmt::Display for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("default");
        }
        if self.0.is_empty() {
            return f.write_str("none");
        }
        f.write_str(&self.0.iter().copied().collect::<Vec<_>>().join(","))
    }
}

fn default_names() -> impl Iterator<Item = &'static str> {
    Controllers::names().filter(|name| !OFF_BY_DEFAULT.contains(name))
}

fn find(name: &str) -> Result<&'static str, UnknownController> {
    let row = ROWS.iter().find(|row| row.name == name || row.alias == name);
    row.map(|row| row.name).ok_or_else(|| UnknownController::Name {
        name: name.to_owned(),
        known: Controllers::names().collect::<Vec<_>>().join(", "),
    })
}

/// Creates the selected controllers, and those that are part of the API server itself.
pub(super) fn instantiate(options: &ControllerOptions) -> Vec<Box<dyn Controller>> {
    let crds: Box<dyn Controller> = Box::<crds::CrdFinalizer>::default();
    let events: Box<dyn Controller> = Box::new(events::controller());
    let mut controllers = vec![crds, events];
    let selected = ROWS.iter().filter(|row| options.controllers.contains(row.name));
    controllers.extend(selected.map(|row| (row.create)(options)));
    controllers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Controllers {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn lists_select_controllers_as_in_the_controller_manager() {
        assert_eq!(parse("default"), Controllers::default());
        assert_eq!(parse("*"), Controllers::default());
        assert_eq!(parse("none"), Controllers::none());
        assert_eq!(parse(""), Controllers::none());
        assert_eq!(parse("deployment, job-controller").to_string(), "deployment-controller,job-controller");
        let without = parse("*,-kubelet,-namespace");
        assert!(!without.contains("kubelet") && !without.contains("namespace-controller"));
        assert_eq!(without.0.len(), default_names().count() - 2);
        assert!(!Controllers::default().contains(workload_status::NAME));
        assert!(parse("*,workload-status").contains(workload_status::NAME));
        assert_eq!(parse("-job,*,job"), Controllers::default());
    }

    #[test]
    fn unknown_names_and_lists_of_exclusions_are_refused() {
        let unknown = "deploymant".parse::<Controllers>().expect_err("unknown").to_string();
        assert!(
            unknown.starts_with("there is no controller \"deploymant\"; the controllers are default, none, ")
        );
        assert_eq!(
            "-job".parse::<Controllers>().expect_err("only exclusions").to_string(),
            "the list only leaves controllers out; write *,-job"
        );
    }

    #[test]
    fn names_and_aliases_are_unique() {
        let names: BTreeSet<&str> = ROWS.iter().flat_map(|row| [row.name, row.alias]).collect();
        assert_eq!(names.len(), 2 * ROWS.len());
    }
}
