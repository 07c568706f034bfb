package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// listedNamespace has the objects that are written and listed.
const listedNamespace = "load"

// writes is the result of many writes.
type writes struct {
	Count     int     `json:"count"`
	Seconds   float64 `json:"seconds"`
	P50Millis float64 `json:"p50Millis"`
	P99Millis float64 `json:"p99Millis"`
}

// write creates or replaces ConfigMaps on several connections, each of which waits for the answer before it sends the next request.
func write(o options, method string) (writes, error) {
	s, err := readKubeconfig(o.kubeconfig)
	if err != nil {
		return writes{}, err
	}
	connections, err := dialMany(s, o.connections)
	if err != nil {
		return writes{}, err
	}
	defer closeAll(connections)
	if err := createNamespace(connections[0], listedNamespace); err != nil {
		return writes{}, err
	}
	expected := http.StatusCreated
	if method == "PUT" {
		expected = http.StatusOK
	}
	var next atomic.Int64
	latencies := make([][]time.Duration, len(connections))
	start := time.Now()
	err = inParallel(len(connections), func(worker int) error {
		var body []byte
		for {
			number := int(next.Add(1)) - 1
			if number >= o.objects {
				return nil
			}
			body = appendConfigMap(body[:0], listedNamespace, number, o.size, method)
			sent := time.Now()
			if err := connections[worker].send(method, configMapPath(method, number), body, expected); err != nil {
				return err
			}
			latencies[worker] = append(latencies[worker], time.Since(sent))
		}
	})
	seconds := time.Since(start).Seconds()
	if err != nil {
		return writes{}, err
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return writes{len(all), seconds, percentile(all, 50), percentile(all, 99)}, nil
}

func configMapPath(method string, number int) string {
	path := "/api/v1/namespaces/" + listedNamespace + "/configmaps"
	if method == "PUT" {
		return fmt.Sprintf("%s/%s", path, configMapName(number))
	}
	return path
}

func configMapName(number int) string { return fmt.Sprintf("object-%07d", number) }

// appendConfigMap appends a ConfigMap whose data has about the given size and depends on its number and on salt.
func appendConfigMap(body []byte, namespace string, number, size int, salt string) []byte {
	name := configMapName(number)
	body = fmt.Appendf(body,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s","namespace":"%s","labels":{"app":"app-%d"}},"data":{`,
		name, namespace, number%400)
	const lineSize = 50
	for line := range max(size/lineSize, 1) {
		separator := ","
		if line == 0 {
			separator = ""
		}
		body = fmt.Appendf(body, `%s"key-%02d":"%s-%s-%032x"`, separator, line, salt, name[7:], number*2654435761+line)
	}
	return append(body, "}}"...)
}

func createNamespace(c *connection, name string) error {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
	return c.send("POST", "/api/v1/namespaces", []byte(body), http.StatusCreated, http.StatusConflict)
}

// dialMany opens connections, 16 at the same time.
func dialMany(s *server, count int) ([]*connection, error) {
	if count < 1 {
		return nil, errors.New("at least one connection is needed")
	}
	connections := make([]*connection, count)
	var next atomic.Int64
	err := inParallel(min(count, 16), func(int) error {
		for {
			index := int(next.Add(1)) - 1
			if index >= count {
				return nil
			}
			c, err := s.dial()
			if err != nil {
				return err
			}
			connections[index] = c
		}
	})
	if err != nil {
		closeAll(connections)
		return nil, err
	}
	return connections, nil
}

func closeAll(connections []*connection) {
	for _, c := range connections {
		if c != nil {
			c.close()
		}
	}
}

// inParallel calls f for each number below count, and returns the first error.
func inParallel(count int, f func(int) error) error {
	errs := make([]error, count)
	var group sync.WaitGroup
	for index := range count {
		group.Go(func() { errs[index] = f(index) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// percentile returns a percentile of sorted durations in milliseconds.
func percentile(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	index := min(len(sorted)*percent/100, len(sorted)-1)
	return sorted[index].Seconds() * 1000
}

// pathOf returns the path of a namespace's ConfigMaps with a query.
func pathOf(namespace string, query ...string) string {
	return "/api/v1/namespaces/" + namespace + "/configmaps?" + strings.Join(query, "&")
}
