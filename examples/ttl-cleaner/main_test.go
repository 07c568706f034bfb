package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/sdktest"
)

var (
	key     = sdk.Key{Namespace: "default", Name: "a"}
	created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// run reconciles a ConfigMap with this time to live at this age.
func run(t *testing.T, ttl string, age time.Duration) (*sdktest.Host, sdk.Result, error) {
	h := sdktest.New(t, describe)
	h.Put(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","creationTimestamp":%q,
		"labels":{"cleanup":"ttl"},"annotations":{%q:%q}}}`, created.Format(time.RFC3339), annotation, ttl))
	result, err := h.Reconcile(cleaner{now: func() time.Time { return created.Add(age) }}, "configmaps", key)
	return h, result, err
}

func TestUnexpiredConfigMapIsRequeued(t *testing.T) {
	h, result, err := run(t, "90s", time.Minute)
	if err != nil || result.RequeueAfter != 30*time.Second || len(h.Written) != 0 {
		t.Errorf("%v %v %v", result, err, h.Written)
	}
}

func TestExpiredConfigMapIsDeletedWithAnEvent(t *testing.T) {
	h, result, err := run(t, "90s", 90*time.Second)
	if err != nil || result != (sdk.Result{}) || !slices.Equal(h.Written, []string{"delete v1 ConfigMap default/a"}) {
		t.Errorf("%v %v %v", result, err, h.Written)
	}
	if len(h.Events) != 1 || !strings.HasPrefix(h.Events[0], "Normal Expired default/a: deleted, because 1m30s") {
		t.Error(h.Events)
	}
}

func TestInvalidDurationIsReportedAndNothingIsDeleted(t *testing.T) {
	for _, ttl := range []string{"tomorrow", "-5s"} {
		h, _, err := run(t, ttl, 90*time.Hour)
		if !sdk.IsTerminal(err) || len(h.Written) != 0 || len(h.Events) != 1 {
			t.Errorf("%s: %v %v %v", ttl, err, h.Written, h.Events)
		}
	}
}
