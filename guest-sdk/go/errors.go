package sdk

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_types"
	"pilothouse.dev/sdk/internal/host"
)

// The reasons why a request to the API server failed, for errors.Is. The types with the same names have the details, for errors.As.
var (
	// ErrNotFound: 404, the object, or its kind, does not exist.
	ErrNotFound = errors.New("not found")
	// ErrAlreadyExists: 409, the object to create already exists.
	ErrAlreadyExists = errors.New("already exists")
	// ErrConflict: 409, the object changed since it was read, or another field manager owns a field of a server-side apply. See [ConflictError].
	ErrConflict = errors.New("conflict")
	// ErrInvalid: 422, the server rejected fields. See [InvalidError].
	ErrInvalid = errors.New("invalid")
	// ErrForbidden: 403, rejected by RBAC or by admission on the server.
	ErrForbidden = errors.New("forbidden")
	// ErrDenied: rejected by the host; nothing was sent. See [DeniedError].
	ErrDenied = errors.New("denied by the host")
	// ErrTooManyRequests: 429. The host's own rate limit is no error: the request waits. See [TooManyRequestsError].
	ErrTooManyRequests = errors.New("too many requests")
	// ErrUnavailable: there was no usable answer (connection refused, timeout, 502, 503 or 504). A write may have been applied nevertheless.
	ErrUnavailable = errors.New("unavailable")
)

// IgnoreNotFound returns nil for an ErrNotFound, and any other error unchanged.
func IgnoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// ConflictError is an ErrConflict.
type ConflictError struct {
	// The server's explanation.
	Message string
	// The object's current resource version; empty when neither the server's answer nor the cache has it.
	ResourceVersion string
}

func (e *ConflictError) Error() string        { return "conflict: " + e.Message }
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Cause is one field that the API server rejected.
type Cause struct {
	// The field's path as the server reports it: "spec.replicas".
	Field string
	// The server's reason: "FieldValueInvalid".
	Reason  string
	Message string
}

// InvalidError is an ErrInvalid.
type InvalidError struct {
	Causes []Cause
}

func (e *InvalidError) Error() string {
	texts := make([]string, len(e.Causes))
	for i, cause := range e.Causes {
		texts[i] = cause.Message
		if cause.Field != "" {
			texts[i] = cause.Field + ": " + cause.Message
		}
	}
	return "invalid: " + strings.Join(texts, "; ")
}

func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// DeniedError is an ErrDenied: the descriptor or the operator's grant lacks this rule.
type DeniedError struct {
	Rule WriteRule
}

func (e *DeniedError) Error() string {
	groups := make([]string, len(e.Rule.APIGroups))
	for i, group := range e.Rule.APIGroups {
		groups[i] = group
		if group == "" {
			groups[i] = "the core group"
		}
	}
	suffix := ""
	if len(e.Rule.Namespaces) > 0 {
		suffix = " in " + strings.Join(e.Rule.Namespaces, ", ")
	}
	return fmt.Sprintf("denied by the host: the descriptor's writes and the grant need %s on %s of %s%s",
		strings.Join(e.Rule.Verbs, ", "), strings.Join(e.Rule.Resources, ", "), strings.Join(groups, ", "), suffix)
}

func (e *DeniedError) Is(target error) bool { return target == ErrDenied }

// TooManyRequestsError is an ErrTooManyRequests.
type TooManyRequestsError struct {
	RetryAfter time.Duration
}

func (e *TooManyRequestsError) Error() string {
	return fmt.Sprintf("too many requests: try again in %v", e.RetryAfter)
}

func (e *TooManyRequestsError) Is(target error) bool { return target == ErrTooManyRequests }

// StatusError is any other answer of the API server.
type StatusError struct {
	// The HTTP status.
	Code int
	// The reason of the server's Status object; empty when it has none.
	Reason  string
	Message string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d %s: %s", e.Code, e.Reason, e.Message) }

// DecodeError means that an object, or a value in it, cannot be read into the Go type. It is terminal, because the object stays unreadable until
// it changes.
type DecodeError struct {
	// The object or value that was read.
	What string
	// The Go type.
	Into string
	// Where in the JSON the mismatch is, and what was expected there.
	Err error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("%s cannot be read as %s: %v", e.What, e.Into, e.Err)
}
func (e *DecodeError) Unwrap() error { return e.Err }

func apiError(err *host.APIError) error {
	if err == nil {
		return nil
	}
	switch err.Tag() {
	case pilothouse_controller_types.ApiError_NotFound:
		return fmt.Errorf("%w: %s", ErrNotFound, err.NotFound())
	case pilothouse_controller_types.ApiError_AlreadyExists:
		return fmt.Errorf("%w: %s", ErrAlreadyExists, err.AlreadyExists())
	case pilothouse_controller_types.ApiError_Conflict:
		info := err.Conflict()
		return &ConflictError{Message: info.Message, ResourceVersion: info.ResourceVersion}
	case pilothouse_controller_types.ApiError_Invalid:
		invalid := &InvalidError{}
		for _, cause := range err.Invalid() {
			invalid.Causes = append(invalid.Causes, Cause(cause))
		}
		return invalid
	case pilothouse_controller_types.ApiError_Forbidden:
		return fmt.Errorf("%w: %s", ErrForbidden, err.Forbidden())
	case pilothouse_controller_types.ApiError_Denied:
		rule := err.Denied()
		return &DeniedError{WriteRule{rule.ApiGroups, rule.Resources, rule.Verbs, rule.Namespaces}}
	case pilothouse_controller_types.ApiError_TooManyRequests:
		return &TooManyRequestsError{time.Duration(err.TooManyRequests()) * time.Millisecond}
	case pilothouse_controller_types.ApiError_Unavailable:
		return fmt.Errorf("%w: %s", ErrUnavailable, err.Unavailable())
	default:
		status := err.Other()
		return &StatusError{Code: int(status.Code), Reason: status.Reason, Message: status.Message}
	}
}
