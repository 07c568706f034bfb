// Reconciles a Foo.
package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const image = "nginx:1.29"

type fooReconciler struct {
	client.Client
	// events is nil if no Events are written.
	events events.EventRecorder
}

// Reconcile creates or repairs a Foo's Deployment and writes the Foo's status. It reads from caches. A stale cache causes a conflict, which is
// an error that controller-runtime retries.
func (r *fooReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	foo := &Foo{}
	if err := r.Get(ctx, request.NamespacedName, foo); err != nil {
		// The garbage collector deletes the Deployment of a deleted Foo, because of its owner reference.
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !foo.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: foo.Namespace, Name: foo.Spec.DeploymentName}}
	change, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		if deployment.UID == "" {
			setSpec(deployment, foo)
			return controllerutil.SetControllerReference(foo, deployment, r.Scheme())
		}
		if !metav1.IsControlledBy(deployment, foo) {
			note := fmt.Sprintf("Deployment %s/%s already exists and is not managed by Foo %s", foo.Namespace, deployment.Name, request)
			r.event(foo, corev1.EventTypeWarning, "ErrResourceExists", note)
			return fmt.Errorf("%s", note)
		}
		setDesiredState(deployment, foo)
		return nil
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	statusChanged, err := r.updateStatus(ctx, foo, deployment)
	if err != nil {
		return ctrl.Result{}, err
	}
	if change != controllerutil.OperationResultNone || statusChanged {
		log.FromContext(ctx).Info("synced", "deployment", deployment.Name, "change", change)
		r.event(foo, corev1.EventTypeNormal, "Synced", "Foo synced successfully")
	}
	return ctrl.Result{}, nil
}

// updateStatus writes the status if it has changed, and returns whether it has.
func (r *fooReconciler) updateStatus(ctx context.Context, foo *Foo, deployment *appsv1.Deployment) (bool, error) {
	available := deployment.Status.AvailableReplicas
	if foo.Status != nil && foo.Status.AvailableReplicas == available {
		return false, nil
	}
	foo.Status = &FooStatus{AvailableReplicas: available}
	return true, r.Status().Update(ctx, foo)
}

func (r *fooReconciler) event(foo *Foo, kind, reason, note string) {
	if r.events != nil {
		r.events.Eventf(foo, nil, kind, reason, "Sync", "%s", note)
	}
}

// setDesiredState sets the fields of the Deployment that the Foo determines, and leaves the others unchanged.
func setDesiredState(deployment *appsv1.Deployment, foo *Foo) {
	if foo.Spec.Replicas != nil {
		deployment.Spec.Replicas = foo.Spec.Replicas
	}
	containers := deployment.Spec.Template.Spec.Containers
	for i := range containers {
		if containers[i].Name == "nginx" {
			containers[i].Image = image
		}
	}
}

// setSpec sets the spec of a new Deployment.
func setSpec(deployment *appsv1.Deployment, foo *Foo) {
	replicas := int32(1)
	if foo.Spec.Replicas != nil {
		replicas = *foo.Spec.Replicas
	}
	labels := map[string]string{"app": "nginx", "controller": foo.Name}
	deployment.Spec = appsv1.DeploymentSpec{
		Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: image}}},
		},
	}
}
