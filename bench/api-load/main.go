// The load generator of `cargo xtask testserver-bench`: sends requests to an API server and prints what it measured as a line of JSON.
//
//	api-load ready --address HOST:PORT --token-file FILE, which first prints `{"at":"polling"}`
//	api-load create|update --kubeconfig FILE --objects N --connections C
//	api-load list --kubeconfig FILE --objects N [--limit PAGE] --rounds R
//	api-load watch --kubeconfig FILE --watchers W --changes M
//
// Every connection is HTTP/1.1 over TLS, for either server. Requests are written to it as they are, because the load generator uses the same
// cores as the server.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

// options are the command line.
type options struct {
	address, tokenFile, kubeconfig string
	objects, connections           int
	limit, rounds, watchers, size  int
	changes                        int
}

// commands are the measurements by name.
var commands = map[string]func(options) (any, error){
	"ready":  func(o options) (any, error) { return waitUntilReady(o.address, o.tokenFile) },
	"create": func(o options) (any, error) { return write(o, "POST") },
	"update": func(o options) (any, error) { return write(o, "PUT") },
	"list":   func(o options) (any, error) { return list(o) },
	"watch":  func(o options) (any, error) { return watch(o) },
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "api-load:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 0 {
		return fmt.Errorf("name a measurement: ready, create, update, list or watch")
	}
	command, ok := commands[arguments[0]]
	if !ok {
		return fmt.Errorf("unknown measurement %q", arguments[0])
	}
	var o options
	flags := flag.NewFlagSet(arguments[0], flag.ContinueOnError)
	flags.StringVar(&o.address, "address", "", "the address of the server that starts")
	flags.StringVar(&o.tokenFile, "token-file", "", "the file into which the server writes its token; it need not exist")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "the kubeconfig, as JSON, of the server")
	flags.IntVar(&o.objects, "objects", 1000, "the number of objects")
	flags.IntVar(&o.connections, "connections", 16, "the number of connections that write")
	flags.IntVar(&o.size, "size", 1000, "the size of an object's data in bytes")
	flags.IntVar(&o.limit, "limit", 0, "the number of objects of a page; 0 lists all at once")
	flags.IntVar(&o.rounds, "rounds", 1, "how often to list")
	flags.IntVar(&o.watchers, "watchers", 100, "the number of connections that watch")
	flags.IntVar(&o.changes, "changes", 100, "the number of changes that each watcher receives")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	result, err := command(o)
	if err != nil {
		return fmt.Errorf("%s: %w", arguments[0], err)
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}
