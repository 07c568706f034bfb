package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// watchedNamespace has the objects that are watched.
	watchedNamespace = "watched"
	watchedObjects   = 10
	// writers is the number of connections that change the watched objects.
	writers = 4
)

// fanOut is the result of many watches of the same objects.
type fanOut struct {
	Watchers     int     `json:"watchers"`
	Changes      int     `json:"changes"`
	Delivered    int     `json:"delivered"`
	OpenSeconds  float64 `json:"openSeconds"`
	EventSeconds float64 `json:"eventSeconds"`
}

// watch opens the watches, changes the objects, and waits until each watcher has received each change.
func watch(o options) (fanOut, error) {
	s, err := readKubeconfig(o.kubeconfig)
	if err != nil {
		return fanOut{}, err
	}
	changing, err := dialMany(s, writers)
	if err != nil {
		return fanOut{}, err
	}
	defer closeAll(changing)
	version, err := createWatched(changing[0], o.size)
	if err != nil {
		return fanOut{}, err
	}
	start := time.Now()
	watching, err := dialMany(s, o.watchers)
	if err != nil {
		return fanOut{}, err
	}
	defer closeAll(watching)
	streams, err := openWatches(watching, version)
	if err != nil {
		return fanOut{}, err
	}
	opened := time.Since(start).Seconds()

	received := make(chan error, 1)
	go func() {
		received <- inParallel(len(streams), func(watcher int) error {
			return receiveEvents(streams[watcher], o.changes)
		})
	}()
	start = time.Now()
	err = inParallel(len(changing), func(worker int) error {
		for number := worker; number < o.changes; number += len(changing) {
			object := number % watchedObjects
			body := appendConfigMap(nil, watchedNamespace, object, o.size, fmt.Sprintf("change-%d", number))
			path := fmt.Sprintf("/api/v1/namespaces/%s/configmaps/%s", watchedNamespace, configMapName(object))
			if err := changing[worker].send("PUT", path, body, http.StatusOK); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fanOut{}, err
	}
	if err := <-received; err != nil {
		return fanOut{}, err
	}
	seconds := time.Since(start).Seconds()
	return fanOut{o.watchers, o.changes, o.watchers * o.changes, opened, seconds}, nil
}

// createWatched creates the watched objects and returns a resource version after them.
func createWatched(c *connection, size int) (string, error) {
	if err := createNamespace(c, watchedNamespace); err != nil {
		return "", err
	}
	for number := range watchedObjects {
		body := appendConfigMap(nil, watchedNamespace, number, size, "created")
		path := "/api/v1/namespaces/" + watchedNamespace + "/configmaps"
		if err := c.send("POST", path, body, http.StatusCreated, http.StatusConflict); err != nil {
			return "", err
		}
	}
	body, err := c.get(pathOf(watchedNamespace, "limit=1"), nil)
	if err != nil {
		return "", err
	}
	version := member(body, `"resourceVersion":"`)
	if version == "" {
		return "", fmt.Errorf("a list has no resource version: %s", body[:min(len(body), 200)])
	}
	return version, nil
}

// openWatches opens a watch on each connection and returns the bodies once every answer has begun.
func openWatches(connections []*connection, version string) ([]io.ReadCloser, error) {
	streams := make([]io.ReadCloser, len(connections))
	err := inParallel(len(connections), func(index int) error {
		path := pathOf(watchedNamespace, "watch=true", "resourceVersion="+version)
		response, err := connections[index].request("GET", path, nil)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return unexpected("GET", path, response)
		}
		streams[index] = response.Body
		return nil
	})
	return streams, err
}

// receiveEvents reads until the given number of events was received. Each ends with a line feed, and JSON contains no other.
func receiveEvents(stream io.Reader, events int) error {
	buffer := make([]byte, 16<<10)
	for received := 0; received < events; {
		n, err := stream.Read(buffer)
		received += bytes.Count(buffer[:n], []byte("\n"))
		if err != nil && received < events {
			return fmt.Errorf("a watch ended after %d of %d events: %w", received, events, err)
		}
	}
	return nil
}
