// The controller-runtime peer of the end-to-end benchmark: the same controller as examples/sample-controller.
//
//	controller-runtime --kubeconfig FILE [--workers N]
//
// It creates the same Deployments, repairs, status and Events. The CustomResourceDefinition must be installed.
package main

import (
	"flag"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	// controller-runtime defines --kubeconfig.
	workers := flag.Int("workers", 1, "the number of Foos that are reconciled at a time; controller-runtime's default is 1")
	noEvents := flag.Bool("no-events", false, "write no Events, to measure what they cost")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(*workers, !*noEvents); err != nil {
		fmt.Fprintln(os.Stderr, "controller-runtime:", err)
		os.Exit(1)
	}
}

func run(workers int, events bool) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := fooScheme.AddToScheme(scheme); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS = -1 // No client-side rate limit.
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"}, // No listener, so that several processes can run at the same time.
	})
	if err != nil {
		return err
	}
	reconciler := &fooReconciler{Client: manager.GetClient()}
	if events {
		reconciler.events = manager.GetEventRecorder("sample-controller")
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Foo{}).
		Owns(&appsv1.Deployment{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconciler)
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
