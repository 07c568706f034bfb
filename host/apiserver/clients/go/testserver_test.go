package testserver

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

const configMaps = "/api/v1/namespaces/default/configmaps"

func start(t *testing.T) *Server {
	t.Helper()
	server, err := Start(Options{Flags: []string{"--controllers", "none"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

func create(server *Server, name string) error {
	return server.call(http.MethodPost, configMaps, map[string]any{"metadata": map[string]any{"name": name}}, nil)
}

func count(t *testing.T, server *Server) int {
	t.Helper()
	var list struct{ Items []any }
	if err := server.call(http.MethodGet, configMaps, nil, &list); err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

func TestFaultsApplyUntilTheyAreCleared(t *testing.T) {
	server := start(t)
	if err := server.Inject(Fault{"verb": "create", "resource": "configmaps", "code": 409, "count": 5}); err != nil {
		t.Fatal(err)
	}
	if err := create(server, "a"); err == nil || !strings.Contains(err.Error(), "409") {
		t.Fatalf("expected a conflict, got %v", err)
	}
	if err := server.ClearFaults(); err != nil {
		t.Fatal(err)
	}
	if err := create(server, "a"); err != nil {
		t.Fatal(err)
	}
	if err := server.Inject(Fault{"cuont": 5}); err == nil || !strings.Contains(err.Error(), "unknown field") {
		t.Fatalf("expected the name of the unknown field, got %v", err)
	}
}

func TestSnapshotsAreRestored(t *testing.T) {
	server := start(t)
	if err := server.TakeSnapshot("empty"); err != nil {
		t.Fatal(err)
	}
	if err := create(server, "a"); err != nil {
		t.Fatal(err)
	}
	if found := count(t, server); found != 1 {
		t.Fatalf("expected one object, got %d", found)
	}
	if err := server.RestoreSnapshot("empty"); err != nil {
		t.Fatal(err)
	}
	if found := count(t, server); found != 0 {
		t.Fatalf("expected no object, got %d", found)
	}
}

func TestServerWithoutTLSNeedsNoToken(t *testing.T) {
	server, err := Start(Options{Flags: []string{"--controllers", "none", "--insecure-http"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	if err := create(server, "a"); err != nil {
		t.Fatal(err)
	}
}

func TestStopRemovesTheFiles(t *testing.T) {
	server := start(t)
	if _, err := os.Stat(server.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	server.Stop()
	if _, err := os.Stat(server.folder); !os.IsNotExist(err) {
		t.Fatalf("the folder is left: %v", err)
	}
}

func TestStartReportsWhatTheServerSays(t *testing.T) {
	_, err := Start(Options{Flags: []string{"--controllers", "unknown"}})
	if err == nil || !strings.Contains(err.Error(), "there is no controller") {
		t.Fatalf("expected the server's error, got %v", err)
	}
	if _, err = Start(Options{Binary: "/does/not/exist"}); err == nil {
		t.Fatal("expected an error")
	}
}
