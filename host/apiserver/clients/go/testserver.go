// Package testserver runs the embedded API server of Pilothouse for tests of Kubernetes controllers.
//
// It starts the binary `pilothouse` on a free port and writes a kubeconfig:
//
//	server, err := testserver.Start(testserver.Options{})
//	if err != nil {
//		t.Fatal(err)
//	}
//	t.Cleanup(server.Stop)
//	config, err := clientcmd.BuildConfigFromFlags("", server.Kubeconfig)
package testserver

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// timeout is how long the server may take to start, to answer a request and to stop.
const timeout = 30 * time.Second

// maxAnswer is the size of the largest answer that is read, in bytes.
const maxAnswer = 1 << 20

// Options says which binary is started, and how.
type Options struct {
	// Binary is the path of pilothouse. By default, it is $PILOTHOUSE_BINARY, or else pilothouse in $PATH.
	Binary string
	// Flags are further flags of `pilothouse apiserver`, such as "--controllers", "none".
	Flags []string
}

// Server is a running API server. Faults and snapshots are enabled.
type Server struct {
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// URL is the address of the server.
	URL string

	command *exec.Cmd
	exited  chan struct{}
	folder  string
	client  *http.Client
	token   string
}

// Start starts a server and waits until it is ready.
func Start(options Options) (*Server, error) {
	folder, err := os.MkdirTemp("", "pilothouse-")
	if err != nil {
		return nil, fmt.Errorf("create a folder for the API server: %w", err)
	}
	server := &Server{Kubeconfig: filepath.Join(folder, "kubeconfig"), folder: folder, exited: make(chan struct{})}
	if err := server.start(options); err != nil {
		log, _ := os.ReadFile(server.logFile())
		server.Stop()
		return nil, fmt.Errorf("start the API server: %w\n%s", err, log)
	}
	return server, nil
}

func (s *Server) logFile() string { return filepath.Join(s.folder, "log") }

func (s *Server) start(options Options) error {
	binary := options.Binary
	if binary == "" {
		binary = os.Getenv("PILOTHOUSE_BINARY")
	}
	if binary == "" {
		binary = "pilothouse"
	}
	log, err := os.Create(s.logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	flags := []string{"apiserver", "--listen", "127.0.0.1:0", "--enable-faults", "--kubeconfig-out", s.Kubeconfig}
	command := exec.Command(binary, append(flags, options.Flags...)...)
	command.Stderr = log
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	s.command = command
	first := make(chan error, 1)
	go func() {
		defer close(s.exited)
		lines := bufio.NewScanner(output)
		if lines.Scan() {
			first <- nil
		} else {
			first <- errors.New("it ended")
		}
		_, _ = io.Copy(io.Discard, output)
		_ = command.Wait()
	}()
	select {
	case err = <-first:
	case <-time.After(timeout):
		err = fmt.Errorf("it printed no address within %s", timeout)
	}
	if err != nil {
		return err
	}
	if err := s.readKubeconfig(); err != nil {
		return fmt.Errorf("read its kubeconfig: %w", err)
	}
	return s.call(http.MethodGet, "/readyz", nil, nil)
}

func (s *Server) readKubeconfig() error {
	text, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		return err
	}
	// The server writes JSON, which is YAML, too.
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server      string `json:"server"`
				Certificate []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Token string `json:"token"`
			} `json:"user"`
		} `json:"users"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	if len(config.Clusters) != 1 || len(config.Users) != 1 {
		return errors.New("it does not have one cluster and one user")
	}
	cluster := config.Clusters[0].Cluster
	s.URL, s.token = cluster.Server, config.Users[0].User.Token
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(cluster.Certificate)
	// Without a proxy from the environment: the server is on this machine.
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}}
	s.client = &http.Client{Transport: transport, Timeout: timeout}
	return nil
}

// Fault makes requests fail. Its fields are those of POST /debug/faults.
type Fault map[string]any

// Inject injects a fault, such as Fault{"verb": "update", "resource": "pods", "code": 409}.
func (s *Server) Inject(fault Fault) error {
	return s.call(http.MethodPost, "/debug/faults", fault, nil)
}

// ClearFaults removes all faults. Frozen watches continue.
func (s *Server) ClearFaults() error {
	return s.call(http.MethodDelete, "/debug/faults", nil, nil)
}

// TakeSnapshot saves all objects under a name: lower case letters, digits and hyphens.
func (s *Server) TakeSnapshot(name string) error {
	return s.call(http.MethodPost, "/debug/snapshot", map[string]string{"name": name}, nil)
}

// RestoreSnapshot replaces all objects by those of a snapshot. Watches end with 410.
func (s *Server) RestoreSnapshot(name string) error {
	return s.call(http.MethodPost, "/debug/snapshot/"+name+"/restore", map[string]any{}, nil)
}

// call sends a request with the administrator's credentials, and decodes the answer into answer unless that is nil.
func (s *Server) call(method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, s.URL+path, content)
	if err != nil {
		return err
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, strings.TrimSpace(string(text)))
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// Stop ends the server and removes its files. It does nothing when it is called again.
func (s *Server) Stop() {
	if s.command != nil {
		_ = s.command.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.exited:
		case <-time.After(timeout):
			_ = s.command.Process.Kill()
			<-s.exited
		}
		s.command = nil
	}
	_ = os.RemoveAll(s.folder)
}
