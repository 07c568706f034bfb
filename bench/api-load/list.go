package main

import (
	"bytes"
	"fmt"
	"net/url"
	"time"
)

// lists is the result of listing all objects several times.
type lists struct {
	Objects int       `json:"objects"`
	MiB     float64   `json:"mib"`
	Seconds []float64 `json:"seconds"`
}

// list lists the objects that `create` created, at once or by pages. An answer with another number of objects is an error.
func list(o options) (lists, error) {
	s, err := readKubeconfig(o.kubeconfig)
	if err != nil {
		return lists{}, err
	}
	c, err := s.dial()
	if err != nil {
		return lists{}, err
	}
	defer c.close()
	result := lists{Objects: o.objects}
	var buffer []byte
	for range o.rounds {
		start := time.Now()
		objects, size := 0, 0
		var counting time.Duration
		for token := ""; ; {
			query := []string{fmt.Sprintf("limit=%d", o.limit)}
			if token != "" {
				query = append(query, "continue="+url.QueryEscape(token))
			}
			if buffer, err = c.get(pathOf(listedNamespace, query...), buffer); err != nil {
				return lists{}, err
			}
			read := time.Now()
			objects += bytes.Count(buffer, []byte(`"uid":"`))
			size += len(buffer)
			token = member(buffer, `"continue":"`)
			counting += time.Since(read)
			if token == "" {
				break
			}
		}
		result.Seconds = append(result.Seconds, (time.Since(start) - counting).Seconds())
		result.MiB = float64(size) / (1 << 20)
		if objects != o.objects {
			return lists{}, fmt.Errorf("listed %d objects instead of %d", objects, o.objects)
		}
	}
	return result, nil
}

// member returns the text after start, up to the next quote. The start of a list has its metadata, which contain no escaped quotes.
func member(body []byte, start string) string {
	head := body[:min(len(body), 4096)]
	_, rest, found := bytes.Cut(head, []byte(start))
	if !found {
		return ""
	}
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(text)
}
