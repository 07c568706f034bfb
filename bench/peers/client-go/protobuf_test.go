package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
)

const podJSON = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-%d","namespace":"team-0","uid":"u%[1]d","resourceVersion":"%[2]d",
"labels":{"app":"web"},"managedFields":[{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z",
"fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:phase":{}}}}]},"spec":{"containers":[{"name":"web","image":"web:1",
"resources":{"limits":{"cpu":"500m"}}}]},"status":{"phase":"Running"}}`

func newPod(t *testing.T, number, version int) *corev1.Pod {
	pod := &corev1.Pod{}
	text := fmt.Sprintf(podJSON, number, version)
	if err := runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), []byte(text), pod); err != nil {
		t.Fatal(err)
	}
	pod.TypeMeta = metav1.TypeMeta{}
	return pod
}

func assertEqual(t *testing.T, what string, got runtime.Object, want *corev1.Pod) {
	pod := got.(*corev1.Pod).DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{}
	if !equality.Semantic.DeepEqual(pod, want) {
		t.Errorf("%s is\n%v, not\n%v", what, pod, want)
	}
}

func readEvents(t *testing.T, file string) (events []watch.Event) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	object := scheme.Codecs.UniversalDeserializer()
	framed := streaming.NewDecoder(info.StreamSerializer.Framer.NewFrameReader(f), info.StreamSerializer.Serializer)
	decoder := restwatch.NewDecoder(framed, object)
	for {
		kind, object, err := decoder.Decode()
		if err == io.EOF {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, watch.Event{Type: kind, Object: object})
	}
}

func TestProtobufFilesEqualTheJSON(t *testing.T) {
	const objects, sent = 3, 5
	var items []string
	for i := range objects {
		items = append(items, fmt.Sprintf(podJSON, i, i+1))
	}
	started := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		switch {
		case r.URL.Path == "/fixture/start":
			close(started)
		case r.URL.Query().Get("watch") == "true":
			w.(http.Flusher).Flush()
			<-started
			for i := range sent {
				fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`, fmt.Sprintf(podJSON, i%objects, objects+1+i))
			}
		default:
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"3"},"items":[%s]}`, strings.Join(items, ","))
		}
	}))
	defer server.Close()
	o := options{objects: objects, events: sent, protobufDir: t.TempDir()}
	if err := writeProtobuf(t.Context(), &rest.Config{Host: server.URL}, o); err != nil {
		t.Fatal(err)
	}

	body, err := os.ReadFile(filepath.Join(o.protobufDir, "list.pb"))
	if err != nil {
		t.Fatal(err)
	}
	list := &corev1.PodList{}
	if err := runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), body, list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != objects || list.ResourceVersion != "3" {
		t.Errorf("the list has %d items at %s", len(list.Items), list.ResourceVersion)
	}
	for i := range list.Items {
		assertEqual(t, "an item", &list.Items[i], newPod(t, i, i+1))
	}

	initial := readEvents(t, filepath.Join(o.protobufDir, "initial.pb"))
	if len(initial) != objects+1 || initial[objects].Type != watch.Bookmark {
		t.Fatalf("the initial events are %v", initial)
	}
	for i, event := range initial[:objects] {
		assertEqual(t, string(event.Type), event.Object, newPod(t, i, i+1))
	}
	end := initial[objects].Object.(*corev1.Pod)
	if end.ResourceVersion != "3" || end.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
		t.Errorf("the bookmark is %v", end)
	}

	events := readEvents(t, filepath.Join(o.protobufDir, "watch.pb"))
	if len(events) != sent {
		t.Fatalf("%d events", len(events))
	}
	for i, event := range events {
		if event.Type != watch.Modified {
			t.Errorf("event %d is %s", i, event.Type)
		}
		assertEqual(t, "an event", event.Object, newPod(t, i%objects, objects+1+i))
	}
}
