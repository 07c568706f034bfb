// Writes the fixture as protobuf, to files that a server can send unchanged.
//
// There are three files:
//
//   - list.pb is the body of the response to `GET /api/v1/pods` with the type application/vnd.kubernetes.protobuf: the magic number
//     "k8s\0" and the PodList. It has all objects (no `continue`) and the resourceVersion N.
//   - initial.pb is the body of a watch with sendInitialEvents=true up to its bookmark: N ADDED frames and one BOOKMARK frame with the
//     annotation k8s.io/initial-events-end.
//   - watch.pb is the body of a watch after `POST /fixture/start`: M frames, one for each event.
//
// The type of a watch is application/vnd.kubernetes.protobuf;stream=watch. A frame is as in Kubernetes' protocol: the length in four bytes,
// big-endian, and a WatchEvent of that length. The length is part of the body: `packed` framing sends the file in pieces of any size, and
// `chunked` framing sends each frame, with its length, as one HTTP chunk.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
)

// writeProtobuf reads the objects and events from the server as JSON, so that their content is the same in both forms.
func writeProtobuf(ctx context.Context, config *rest.Config, o options) error {
	config.ContentType = runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(pods.Items) != o.objects || pods.Continue != "" {
		return fmt.Errorf("the server lists %d objects, not %d: was it started with the same --objects?", len(pods.Items), o.objects)
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		return fmt.Errorf("client-go has no serializer for %s", runtime.ContentTypeProtobuf)
	}
	if err := os.MkdirAll(o.protobufDir, 0o755); err != nil {
		return err
	}
	object := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	if err := file(o.protobufDir, "list.pb", func(w io.Writer) error { return object.Encode(pods, w) }); err != nil {
		return err
	}
	// Encodes frames, each with a watch event that contains an object.
	frames := func(w io.Writer) *restwatch.Encoder {
		event := scheme.Codecs.EncoderForVersion(info.StreamSerializer.Serializer, corev1.SchemeGroupVersion)
		framed := streaming.NewEncoder(info.StreamSerializer.Framer.NewFrameWriter(w), event)
		return restwatch.NewEncoder(framed, object)
	}
	err = file(o.protobufDir, "initial.pb", func(w io.Writer) error {
		encoder := frames(w)
		for i := range pods.Items {
			if err := encoder.Encode(&watch.Event{Type: watch.Added, Object: &pods.Items[i]}); err != nil {
				return err
			}
		}
		end := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: pods.ResourceVersion,
			Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}
		return encoder.Encode(&watch.Event{Type: watch.Bookmark, Object: end})
	})
	if err != nil {
		return err
	}
	events, err := startEvents(ctx, client, config.Host, pods.ResourceVersion)
	if err != nil {
		return err
	}
	defer events.Stop()
	return file(o.protobufDir, "watch.pb", func(w io.Writer) error {
		encoder := frames(w)
		for i := range o.events {
			event, ok := <-events.ResultChan()
			if !ok {
				return fmt.Errorf("the watch ended after %d events", i)
			}
			if event.Type == watch.Error {
				return fmt.Errorf("event %d is an error: %v", i, event.Object)
			}
			if err := encoder.Encode(&event); err != nil {
				return err
			}
		}
		return nil
	})
}

// startEvents opens a watch and lets the server send the events.
func startEvents(ctx context.Context, client kubernetes.Interface, server, version string) (watch.Interface, error) {
	events, err := client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return nil, err
	}
	response, err := http.Post(server+"/fixture/start", "", nil)
	if err != nil {
		events.Stop()
		return nil, err
	}
	return events, response.Body.Close()
}

func file(dir, name string, write func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	buffered := bufio.NewWriterSize(f, 1<<20)
	if err := write(buffered); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	return f.Close()
}
