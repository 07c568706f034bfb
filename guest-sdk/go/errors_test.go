package sdk

import (
	"errors"
	"fmt"
	"testing"
	"time"

	wit "pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_types"
)

func TestAPIErrorsMatchTheirSentinels(t *testing.T) {
	for _, c := range []struct {
		err    wit.ApiError
		is     error
		wanted string
	}{
		{wit.MakeApiErrorNotFound("web"), ErrNotFound, "not found: web"},
		{wit.MakeApiErrorAlreadyExists("web"), ErrAlreadyExists, "already exists: web"},
		{wit.MakeApiErrorConflict(wit.ConflictInfo{Message: "changed"}), ErrConflict, "conflict: changed"},
		{wit.MakeApiErrorInvalid([]wit.Cause{{Field: "spec.replicas", Message: "bad"}, {Message: "worse"}}), ErrInvalid,
			"invalid: spec.replicas: bad; worse"},
		{wit.MakeApiErrorForbidden("no"), ErrForbidden, "forbidden: no"},
		{wit.MakeApiErrorDenied(wit.Rule{ApiGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"},
			Namespaces: []string{"default"}}), ErrDenied,
			"denied by the host: the descriptor's writes and the grant need create on secrets of the core group in default"},
		{wit.MakeApiErrorTooManyRequests(1500), ErrTooManyRequests, "too many requests: try again in 1.5s"},
		{wit.MakeApiErrorUnavailable("refused"), ErrUnavailable, "unavailable: refused"},
		{wit.MakeApiErrorOther(wit.HttpStatus{Code: 410, Reason: "Expired", Message: "too old"}), nil, "410 Expired: too old"},
	} {
		err := fmt.Errorf("list pods: %w", apiError(&c.err))
		expect(t, "text", err.Error(), "list pods: "+c.wanted)
		for _, known := range []error{ErrNotFound, ErrAlreadyExists, ErrConflict, ErrInvalid, ErrForbidden, ErrDenied, ErrTooManyRequests,
			ErrUnavailable} {
			if errors.Is(err, known) != (known == c.is) {
				t.Errorf("%v: is %v: %v", err, known, errors.Is(err, known))
			}
		}
	}
}

func TestDetailsOfAnErrorAreInItsType(t *testing.T) {
	other := wit.MakeApiErrorOther(wit.HttpStatus{Code: 410})
	var status *StatusError
	if !errors.As(apiError(&other), &status) || status.Code != 410 {
		t.Errorf("%v", status)
	}
	throttled := wit.MakeApiErrorTooManyRequests(20)
	var wait *TooManyRequestsError
	if !errors.As(apiError(&throttled), &wait) || wait.RetryAfter != 20*time.Millisecond {
		t.Errorf("%v", wait)
	}
	if apiError(nil) != nil {
		t.Error("no error became one")
	}
}

func TestWrappedTerminalErrorIsTerminal(t *testing.T) {
	err := fmt.Errorf("web: %w", Terminal(ErrInvalid))
	if !IsTerminal(err) || !errors.Is(err, ErrInvalid) || IsTerminal(ErrInvalid) || Terminal(nil) != nil {
		t.Errorf("%v", err)
	}
	expect(t, "text", err.Error(), "web: invalid")
}
