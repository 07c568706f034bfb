package main

import (
	"errors"
	"fmt"
	"log/slog"

	"pilothouse.dev/sdk"
)

// script is a ConfigMap with an operation and its arguments.
type script struct {
	ctx    *sdk.Context
	req    sdk.Request
	object *sdk.Object
	data   map[string]string
}

// silence is the result of an operation without a value to log.
type silence struct {
	result sdk.Result
	err    error
}

func (s silence) Error() string { return "nothing to log" }

// An operation returns the value to log.
type operation func(*script) (value string, err error)

// runScript is the reconciler.
func runScript(ctx *sdk.Context, req sdk.Request) (sdk.Result, error) {
	object := ctx.Cache("scripts").Get(req.Key)
	if object == nil {
		return sdk.Result{}, nil
	}
	s := &script{ctx: ctx, req: req, object: object}
	if _, err := object.DecodeField("/data", &s.data); err != nil {
		return sdk.Result{}, err
	}
	op := s.data["op"]
	run, ok := operations[op]
	if !ok {
		return sdk.Result{}, sdk.Terminal(fmt.Errorf("no operation %s", op))
	}
	value, err := run(s)
	var silent silence
	if errors.As(err, &silent) {
		return silent.result, silent.err
	}
	if err != nil {
		if value = clientError(err); value == "" {
			return sdk.Result{}, err
		}
	}
	s.log(value)
	return sdk.Result{}, nil
}

func (s *script) log(value string) { slog.Info("result", "op", s.data["op"], "value", value) }

// namespace returns the script's namespace.
func (s *script) namespace() string { return s.req.Key.Namespace }

// key returns the key in two arguments.
func (s *script) key(namespace, name string) sdk.Key {
	return sdk.Key{Namespace: s.data[namespace], Name: s.data[name]}
}

// target returns the type in the first two arguments.
func (s *script) target() sdk.Type { return sdk.Type{APIVersion: s.data["a"], Kind: s.data["b"]} }

// clientError returns the value for an error of the client; empty for other errors.
func clientError(err error) string {
	var invalid *sdk.InvalidError
	var denied *sdk.DeniedError
	var throttled *sdk.TooManyRequestsError
	var status *sdk.StatusError
	switch {
	case errors.Is(err, sdk.ErrNotFound):
		return "not-found"
	case errors.Is(err, sdk.ErrAlreadyExists):
		return "already-exists"
	case errors.Is(err, sdk.ErrConflict):
		return "conflict"
	case errors.As(err, &invalid):
		return "invalid:" + invalid.Causes[0].Field
	case errors.Is(err, sdk.ErrForbidden):
		return "forbidden"
	case errors.As(err, &denied):
		return "denied:" + denied.Rule.Verbs[0] + " " + denied.Rule.Resources[0]
	case errors.As(err, &throttled):
		return fmt.Sprintf("too-many-requests:%d", throttled.RetryAfter.Milliseconds())
	case errors.Is(err, sdk.ErrUnavailable):
		return "unavailable"
	case errors.As(err, &status):
		return fmt.Sprintf("other:%d", status.Code)
	default:
		return ""
	}
}
