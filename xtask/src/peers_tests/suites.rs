//! The suites, with the versions of the projects.

use super::go::Package;
use super::manifests::Project;
use crate::tools;

/// The controller-runtime whose tests are run. Its module has the tests.
const CONTROLLER_RUNTIME: tools::Module = tools::Module::new("sigs.k8s.io/controller-runtime", "v0.25.2");

/// The Gateway API whose tests are run. In later versions, the tests are in a module that is not published.
const GATEWAY_API: tools::Module = tools::Module::new("sigs.k8s.io/gateway-api", "v1.4.1");

/// Projects whose modules have their CRDs and examples.
const ARGO_ROLLOUTS: tools::Module = tools::Module::new("github.com/argoproj/argo-rollouts", "v1.8.3");
const CERT_MANAGER: tools::Module = tools::Module::new("github.com/cert-manager/cert-manager", "v1.19.1");
const CLUSTER_API: tools::Module = tools::Module::new("sigs.k8s.io/cluster-api", "v1.11.2");
const FLUX_SOURCE_CONTROLLER: tools::Module =
    tools::Module::new("github.com/fluxcd/source-controller", "v1.7.2");
const KARPENTER: tools::Module = tools::Module::new("sigs.k8s.io/karpenter", "v1.8.0");
const KEDA: tools::Module = tools::Module::new("github.com/kedacore/keda/v2", "v2.18.0");
const KYVERNO: tools::Module = tools::Module::new("github.com/kyverno/kyverno", "v1.15.2");

/// A suite of tests, or a part of one, that runs on a server of its own.
pub(super) struct Suite {
    pub(super) name: &'static str,
    pub(super) tests: Tests,
    /// The value of `--controllers` of the embedded server.
    pub(super) controllers: &'static str,
}

/// What runs the tests of a suite.
pub(super) enum Tests {
    /// A package of a Go module.
    Go(Package),
    /// A package of a Go module whose tests need CRDs, which a folder of the module has.
    GoWithCrds(Package, &'static str),
    /// Commands of helm, which need the controllers of a cluster.
    Helm,
    /// The tests of kube-rs that need a cluster.
    KubeRs,
    /// The CRDs and examples of a project.
    Manifests(Project),
}

/// All suites.
pub(super) const SUITES: &[Suite] = &[
    controller_runtime("controller-runtime/builder", "pkg/builder"),
    controller_runtime("controller-runtime/cache", "pkg/cache"),
    controller_runtime("controller-runtime/client", "pkg/client"),
    controller_runtime("controller-runtime/client/apiutil", "pkg/client/apiutil"),
    controller_runtime("controller-runtime/cluster", "pkg/cluster"),
    controller_runtime("controller-runtime/controller", "pkg/controller"),
    controller_runtime("controller-runtime/controller/controllerutil", "pkg/controller/controllerutil"),
    controller_runtime("controller-runtime/envtest", "pkg/envtest"),
    controller_runtime("controller-runtime/handler", "pkg/handler"),
    controller_runtime("controller-runtime/internal/controller", "pkg/internal/controller"),
    controller_runtime("controller-runtime/internal/recorder", "pkg/internal/recorder"),
    controller_runtime("controller-runtime/manager", "pkg/manager"),
    controller_runtime("controller-runtime/manager/integration", "pkg/manager/internal/integration"),
    controller_runtime("controller-runtime/metrics/filters", "pkg/metrics/filters"),
    controller_runtime("controller-runtime/source", "pkg/source"),
    controller_runtime("controller-runtime/webhook", "pkg/webhook"),
    gateway_api("gateway-api/standard", "standard", "config/crd/standard"),
    gateway_api("gateway-api/experimental", "experimental", "config/crd/experimental"),
    Suite { name: "helm", tests: Tests::Helm, controllers: "default" },
    Suite { name: "kube-rs", tests: Tests::KubeRs, controllers: "default" },
    manifests(
        "manifests/argo-rollouts",
        "argo-rollouts",
        &ARGO_ROLLOUTS,
        &["manifests/crds"],
        &["examples", "test/e2e/functional"],
    ),
    manifests(
        "manifests/cert-manager",
        "cert-manager",
        &CERT_MANAGER,
        &["deploy/crds"],
        &["make/config", "test/fixtures"],
    ),
    manifests(
        "manifests/cluster-api",
        "cluster-api",
        &CLUSTER_API,
        &["bootstrap/kubeadm/config/crd/bases", "cmd/clusterctl/config/crd/bases", "config/crd/bases"],
        &["cmd/clusterctl", "config"],
    ),
    manifests(
        "manifests/flux-source-controller",
        "flux-source-controller",
        &FLUX_SOURCE_CONTROLLER,
        &["config/crd/bases"],
        &["config/samples", "config/testdata"],
    ),
    manifests(
        "manifests/gateway-api",
        "gateway-api",
        &GATEWAY_API,
        &["config/crd/experimental"],
        &["conformance/tests", "examples", "hack/invalid-examples"],
    ),
    manifests("manifests/karpenter", "karpenter", &KARPENTER, &["pkg/apis/crds"], &["kwok"]),
    manifests("manifests/keda", "keda", &KEDA, &["config/crd/bases"], &["config"]),
    manifests(
        "manifests/kyverno",
        "kyverno",
        &KYVERNO,
        &["config/crds"],
        &["test/best_practices", "test/policy", "test/resources"],
    ),
    manifests(
        "manifests/prometheus-operator",
        "prometheus-operator",
        &tools::PROMETHEUS_OPERATOR,
        &["example/prometheus-operator-crd"],
        &["example", "test/framework/resources"],
    ),
];

/// envtest has no controllers, so the tests of controller-runtime expect none.
const fn controller_runtime(name: &'static str, folder: &'static str) -> Suite {
    Suite {
        name,
        tests: Tests::Go(Package { module: &CONTROLLER_RUNTIME, folder, tags: "" }),
        controllers: "none",
    }
}

const fn gateway_api(name: &'static str, tags: &'static str, crds: &'static str) -> Suite {
    let package = Package { module: &GATEWAY_API, folder: "pkg/test/cel", tags };
    Suite { name, tests: Tests::GoWithCrds(package, crds), controllers: "default" }
}

/// The recorded answers are those of a kube-apiserver without controllers.
const fn manifests(
    name: &'static str,
    project: &'static str,
    module: &'static tools::Module,
    crds: &'static [&'static str],
    examples: &'static [&'static str],
) -> Suite {
    let tests = Tests::Manifests(Project { name: project, module, crds, examples });
    Suite { name, tests, controllers: "none" }
}
