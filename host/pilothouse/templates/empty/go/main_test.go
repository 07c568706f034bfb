package main

import (
	"testing"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/sdktest"
)

func TestConfigMapIsLogged(t *testing.T) {
	h := sdktest.New(t, describe)
	h.Put(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"web"}}`)
	result, err := h.Reconcile(controller{}, configMaps, sdk.Key{Namespace: "default", Name: "web"})
	if err != nil || result != (sdk.Result{}) {
		t.Errorf("%v %v", result, err)
	}
	if len(h.Logged) != 1 || h.Logged[0].Message != "hello, default/web" {
		t.Error(h.Logged)
	}
}
