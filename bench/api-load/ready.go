package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"
)

const (
	// fastPolling is how long the server is asked every millisecond; afterwards, a start takes so long that less precision suffices.
	fastPolling  = 250 * time.Millisecond
	fastInterval = time.Millisecond
	slowInterval = 20 * time.Millisecond
	// startLimit is how long a server may take to start.
	startLimit = 2 * time.Minute
)

// readiness is when a server was ready.
type readiness struct {
	UnixNanos int64 `json:"unixNanos"`
}

// waitUntilReady prints a line when it begins, and polls /readyz until it answers with 200. kube-apiserver writes the token that it requires
// into a file when it starts.
func waitUntilReady(address, tokenFile string) (readiness, error) {
	if address == "" {
		return readiness{}, errors.New("--address must be given")
	}
	// The certificate cannot be verified, because the server writes its authority while it starts.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	// From here on, the caller may start the server.
	fmt.Println(`{"at":"polling"}`)
	start := time.Now()
	for time.Since(start) < startLimit {
		response, err := client.Do(request(address, tokenFile))
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return readiness{UnixNanos: time.Now().UnixNano()}, nil
			}
		}
		if time.Since(start) < fastPolling {
			time.Sleep(fastInterval)
		} else {
			time.Sleep(slowInterval)
		}
	}
	return readiness{}, errors.New("the server was not ready in time")
}

func request(address, tokenFile string) *http.Request {
	request := &http.Request{
		Method: http.MethodGet,
		URL:    &url.URL{Scheme: "https", Host: address, Path: "/readyz"},
		Header: http.Header{},
	}
	if token, err := os.ReadFile(tokenFile); err == nil && len(token) > 0 {
		request.Header.Set("Authorization", "Bearer "+string(token))
	}
	return request
}
