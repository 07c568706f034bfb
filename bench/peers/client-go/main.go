// The client-go peer of the ingest benchmarks: informers and a controller that read from the fixture server.
//
//	client-go --server URL --objects N --events M --mode typed|dynamic|protobuf|controller [--latency]
//	client-go --server URL --objects N --events M --write-protobuf DIR
//
// The first form prints `{"at":"listed"}` when the cache is synced and `{"at":"done",…}` when it has received the last event, and then keeps
// its cache until its standard input is closed. The second form writes the same objects and events as protobuf (protobuf.go).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// options are the command line.
type options struct {
	server, mode, protobufDir string
	objects, events, workers  int
	latency, strip            bool
}

func main() {
	var o options
	flag.StringVar(&o.server, "server", "", "the fixture server's URL")
	flag.StringVar(&o.mode, "mode", "typed", "typed, dynamic, protobuf or controller")
	flag.IntVar(&o.objects, "objects", 0, "the number of objects that the server lists")
	flag.IntVar(&o.events, "events", 0, "the number of events that the server sends")
	flag.BoolVar(&o.latency, "latency", false, "measure the latency of every event from the time in it at which it was sent")
	flag.BoolVar(&o.strip, "strip-managed-fields", false, "drop managedFields by a transform; client-go keeps them by default")
	flag.IntVar(&o.workers, "workers", 2, "the number of workers of --mode controller; 2 as in Kubernetes' sample controller")
	flag.StringVar(&o.protobufDir, "write-protobuf", "", "write the fixture as protobuf to this folder, and exit")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.server == "" || o.objects < 1 {
		return errors.New("--server and --objects must be given")
	}
	// A negative QPS disables the client's rate limit.
	config := &rest.Config{Host: o.server, QPS: -1}
	if o.protobufDir != "" {
		return writeProtobuf(ctx, config, o)
	}
	switch o.mode {
	case "typed", "dynamic", "controller":
		config.ContentType = runtime.ContentTypeJSON
	case "protobuf":
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	default:
		return fmt.Errorf("unknown --mode %s; use typed, dynamic, protobuf or controller", o.mode)
	}
	progress := newProgress(o)
	var informer cache.SharedIndexInformer
	var err error
	if o.mode == "controller" {
		informer, err = startController(ctx, config, o, progress)
	} else {
		informer, err = startInformer(ctx, config, o, progress)
	}
	if err != nil {
		return err
	}
	if cached := len(informer.GetIndexer().ListKeys()); cached != o.objects {
		return fmt.Errorf("the cache is synced and has %d objects, not %d: was the server started with the same --objects?", cached, o.objects)
	}
	printLine(map[string]any{"at": "listed"})
	done := progress.wait()
	done["at"] = "done"
	done["cached"] = len(informer.GetIndexer().ListKeys())
	printLine(done)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// printLine prints a line of JSON on standard output.
func printLine(value map[string]any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // Maps of strings and numbers can always be encoded.
	}
	fmt.Println(string(text))
}
