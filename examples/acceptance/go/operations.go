package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"pilothouse.dev/sdk"
)

var operations map[string]operation

func init() {
	operations = map[string]operation{
		"info": info, "requeue": requeue, "retry": retry, "terminal": terminal,
		"trap": trap, "loop": loop, "allocate": allocate, "unknown-watch": unknownWatch, "finalizer": finalizer,
		"get": get, "json-length": jsonLength, "object": object, "list": list, "list-fields": listFields,
		"by-index": byIndex, "index-keys": indexKeys, "index-values": indexValues, "has-synced": hasSynced, "own-write": ownWrite,
		"client-get": clientGet, "client-list": clientList, "create": create, "update": update, "patch": patch, "delete": remove,
		"denied": denied,
		"add":    add, "add-after": addAfter, "event": event, "log": logLine,
		"counter": metric(sdk.Counter), "gauge": metric(sdk.Gauge), "histogram": metric(sdk.Histogram),
	}
}

func info(s *script) (string, error) {
	reasons := make([]string, len(s.req.Reasons))
	for i, reason := range s.req.Reasons {
		reasons[i] = reason.String()
	}
	slices.Sort(reasons)
	return fmt.Sprintf("%s %s attempt=%d reasons=%s", s.req.Watch, s.req.Key, s.req.Attempt, strings.Join(reasons, ",")), nil
}

func requeue(s *script) (string, error) {
	if s.req.Has(sdk.Requeue) {
		return "requeued", nil
	}
	return "", silence{result: sdk.Result{RequeueAfter: time.Duration(s.number("a")) * time.Millisecond}}
}

func retry(s *script) (string, error) {
	if s.req.Attempt < s.number("a") {
		return "", silence{err: fmt.Errorf("attempt %d of %d", s.req.Attempt, s.number("a"))}
	}
	return fmt.Sprintf("attempt=%d", s.req.Attempt), nil
}

func terminal(s *script) (string, error) {
	return "", silence{err: sdk.Terminal(errors.New(s.data["a"]))}
}

func trap(s *script) (string, error) {
	if s.req.Attempt == 0 {
		panic(s.data["a"])
	}
	return "recovered", nil
}

func loop(s *script) (string, error) {
	for s.req.Attempt == 0 {
	}
	return "recovered", nil
}

func allocate(s *script) (string, error) {
	var all [][]byte
	for s.req.Attempt == 0 {
		all = append(all, make([]byte, 1<<20))
	}
	return "recovered", nil
}

func unknownWatch(s *script) (string, error) {
	if s.req.Attempt == 0 {
		s.ctx.Cache("nonesuch").Get(s.req.Key)
	}
	return "recovered", nil
}

func finalizer(s *script) (string, error) {
	logged := func(value string) func(*sdk.Object) (sdk.Result, error) {
		return func(*sdk.Object) (sdk.Result, error) {
			s.log(value)
			return sdk.Result{}, nil
		}
	}
	result, err := sdk.WithFinalizer(s.ctx, s.object, "acceptance.pilothouse.dev/cleanup", logged("held"), logged("cleaned"))
	return "", silence{result, err}
}

func add(s *script) (string, error) {
	s.ctx.Queue(s.data["a"]).Add(s.key("b", "c"))
	return "added", nil
}

func addAfter(s *script) (string, error) {
	s.ctx.Queue(s.data["a"]).AddAfter(s.key("b", "c"), time.Duration(s.number("d"))*time.Millisecond)
	return "added", nil
}

func event(s *script) (string, error) {
	publish := s.ctx.Events().Normal
	if s.data["a"] == "warning" {
		publish = s.ctx.Events().Warning
	}
	publish(s.object, s.data["b"], s.data["c"], s.data["d"])
	return "published", nil
}

func metric(record func(string, sdk.Labels, float64)) operation {
	return func(s *script) (string, error) {
		number, err := strconv.ParseFloat(s.data["d"], 64)
		if err != nil {
			return "", sdk.Terminal(err)
		}
		record(s.data["a"], sdk.Labels{s.data["b"]: s.data["c"]}, number)
		return "recorded", nil
	}
}

func logLine(s *script) (string, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.data["a"])); err != nil {
		return "", sdk.Terminal(err)
	}
	slog.Log(s.ctx, level, s.data["b"], s.data["c"], s.data["d"])
	return "logged", nil
}

// number parses a decimal argument; 0 when it is missing.
func (s *script) number(argument string) int {
	number, _ := strconv.Atoi(s.data[argument])
	return number
}
