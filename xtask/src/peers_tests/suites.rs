//! The suites, with the versions of the projects.

use super::go::Package;
use crate::tools;

/// The controller-runtime whose tests are run. Its module has the tests.
const CONTROLLER_RUNTIME: tools::Module = tools::Module::new("sigs.k8s.io/controller-runtime", "v0.25.2");

/// The Gateway API whose tests are run. In later versions, the tests are in a module that is not published.
const GATEWAY_API: tools::Module = tools::Module::new("sigs.k8s.io/gateway-api", "v1.4.1");

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
