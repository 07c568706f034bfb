package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/sdktest"
)

var fooKey = sdk.Key{Namespace: "default", Name: "example"}
var webKey = sdk.Key{Namespace: "default", Name: "web"}
var deployment = sdk.Type{APIVersion: "apps/v1", Kind: "Deployment"}

func host(t *testing.T, replicas int) *sdktest.Host {
	h := sdktest.New(t, describe)
	h.Put(fmt.Sprintf(`{"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","metadata":{"name":"example","namespace":"default"},
		"spec":{"deploymentName":"web","replicas":%d}}`, replicas))
	return h
}

func reconcileFoo(t *testing.T, h *sdktest.Host) {
	t.Helper()
	if _, err := h.Reconcile(controller{}, foos, fooKey); err != nil {
		t.Fatal(err)
	}
}

func TestFooGetsADeploymentThatItControls(t *testing.T) {
	h := host(t, 2)
	reconcileFoo(t, h)
	var created Deployment
	if !h.Get(deployment, webKey, &created) || *created.Spec.Replicas != 2 || !*created.Metadata.OwnerReferences[0].Controller {
		t.Errorf("%+v", created)
	}
	if !slices.Equal(h.Events, []string{"Normal Synced default/example: Foo synced successfully"}) {
		t.Error(h.Events)
	}
	reconcileFoo(t, h)
	if len(h.Written) != 2 {
		t.Errorf("the second reconcile wrote again: %v", h.Written)
	}
}

func TestChangedReplicasAreRevertedAndOtherFieldsAreKept(t *testing.T) {
	h := host(t, 2)
	reconcileFoo(t, h)
	var drifted struct {
		Deployment
		Spec struct {
			DeploymentSpec
			Paused bool `json:"paused"`
		} `json:"spec"`
	}
	h.Get(deployment, webKey, &drifted)
	seven := int32(7)
	drifted.Spec.Replicas, drifted.Spec.Paused = &seven, true
	h.Put(drifted)
	reconcileFoo(t, h)
	repaired := drifted
	h.Get(deployment, webKey, &repaired)
	if *repaired.Spec.Replicas != 2 || !repaired.Spec.Paused {
		t.Errorf("%+v", repaired.Spec)
	}
}

func TestDeploymentOfAnotherOwnerIsNotChanged(t *testing.T) {
	h := host(t, 2)
	h.Put(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default"},"spec":{"replicas":5}}`)
	_, err := h.Reconcile(controller{}, foos, fooKey)
	if err == nil || len(h.Written) != 0 || len(h.Events) != 1 || !strings.HasPrefix(h.Events[0], "Warning ErrResourceExists") {
		t.Errorf("%v %v %v", err, h.Written, h.Events)
	}
}
