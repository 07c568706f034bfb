package sdktest

import (
	"errors"
	"strings"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_types"
	"pilothouse.dev/sdk/internal/host"
)

// Failure makes requests fail: see [Host.Fail].
type Failure struct {
	// The requests that fail: their verb (get, list, create, update, patch or delete) and their kind; empty for all. A server-side apply has the
	// verb patch.
	Verb, Kind string
	// How many requests fail; 1 by default.
	Times int
	// An error of package sdk, such as sdk.ErrUnavailable or &sdk.ConflictError{Message: "changed"}, or one that wraps it.
	Err error
}

// wireError returns the error of the contract that the SDK converts to this one.
func wireError(err error) *host.APIError {
	made := apiErrorOf(err)
	return &made
}

func apiErrorOf(err error) host.APIError {
	var (
		conflict  *sdk.ConflictError
		invalid   *sdk.InvalidError
		denied    *sdk.DeniedError
		throttled *sdk.TooManyRequestsError
		status    *sdk.StatusError
	)
	switch {
	case errors.As(err, &conflict):
		return pilothouse_controller_types.MakeApiErrorConflict(
			pilothouse_controller_types.ConflictInfo{Message: conflict.Message, ResourceVersion: conflict.ResourceVersion})
	case errors.As(err, &invalid):
		var causes []pilothouse_controller_types.Cause
		for _, cause := range invalid.Causes {
			causes = append(causes, pilothouse_controller_types.Cause(cause))
		}
		return pilothouse_controller_types.MakeApiErrorInvalid(causes)
	case errors.As(err, &denied):
		return pilothouse_controller_types.MakeApiErrorDenied(pilothouse_controller_types.Rule{ApiGroups: denied.Rule.APIGroups,
			Resources: denied.Rule.Resources, Verbs: denied.Rule.Verbs, Namespaces: denied.Rule.Namespaces})
	case errors.As(err, &throttled):
		return pilothouse_controller_types.MakeApiErrorTooManyRequests(host.Milliseconds(throttled.RetryAfter))
	case errors.As(err, &status):
		return pilothouse_controller_types.MakeApiErrorOther(
			pilothouse_controller_types.HttpStatus{Code: uint16(status.Code), Reason: status.Reason, Message: status.Message})
	}
	makers := map[error]func(string) host.APIError{
		sdk.ErrNotFound:      pilothouse_controller_types.MakeApiErrorNotFound,
		sdk.ErrAlreadyExists: pilothouse_controller_types.MakeApiErrorAlreadyExists,
		sdk.ErrForbidden:     pilothouse_controller_types.MakeApiErrorForbidden,
		sdk.ErrUnavailable:   pilothouse_controller_types.MakeApiErrorUnavailable,
	}
	for known, make := range makers {
		if errors.Is(err, known) {
			return make(strings.TrimPrefix(err.Error(), known.Error()+": "))
		}
	}
	return pilothouse_controller_types.MakeApiErrorOther(pilothouse_controller_types.HttpStatus{Code: 500, Message: err.Error()})
}
