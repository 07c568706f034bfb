// A registry in memory with the referrers API, for `cargo xtask registries`. It prints its address once it listens.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	quiet := log.New(io.Discard, "", 0)
	log.Fatal(http.Serve(listener, registry.New(registry.WithReferrersSupport(true), registry.Logger(quiet))))
}
