package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// timeLimit is how long one connection may be used, so that a server that hangs fails the measurement.
const timeLimit = 10 * time.Minute

// server is what a kubeconfig says.
type server struct {
	address, token string
	tls            *tls.Config
}

// readKubeconfig reads a kubeconfig in JSON with one cluster and one user.
func readKubeconfig(path string) (*server, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server    string `json:"server"`
				Authority []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Token string `json:"token"`
			} `json:"user"`
		} `json:"users"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(config.Clusters) != 1 || len(config.Users) != 1 {
		return nil, fmt.Errorf("%s: expected one cluster and one user", path)
	}
	cluster := config.Clusters[0].Cluster
	location, err := url.Parse(cluster.Server)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	roots := x509.NewCertPool()
	if location.Scheme != "https" || !roots.AppendCertsFromPEM(cluster.Authority) {
		return nil, fmt.Errorf("%s: expected an https server with its authority's certificate", path)
	}
	settings := &tls.Config{RootCAs: roots, ServerName: location.Hostname()}
	return &server{address: location.Host, token: config.Users[0].User.Token, tls: settings}, nil
}

// connection is an HTTP/1.1 connection on which one request at a time is sent.
type connection struct {
	server *server
	conn   net.Conn
	reader *bufio.Reader
	buffer []byte
}

func (s *server) dial() (*connection, error) {
	conn, err := tls.Dial("tcp", s.address, s.tls)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(timeLimit)); err != nil {
		return nil, err
	}
	return &connection{server: s, conn: conn, reader: bufio.NewReaderSize(conn, 32<<10)}, nil
}

func (c *connection) close() { _ = c.conn.Close() }

// request sends a request and returns the response, whose body must be read before the next one is sent.
func (c *connection) request(method, path string, body []byte) (*http.Response, error) {
	c.buffer = fmt.Appendf(c.buffer[:0],
		"%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nUser-Agent: api-load\r\nAccept: application/json\r\n",
		method, path, c.server.address, c.server.token)
	if body != nil {
		c.buffer = fmt.Appendf(c.buffer, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	c.buffer = append(append(c.buffer, "\r\n"...), body...)
	if _, err := c.conn.Write(c.buffer); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.reader, nil)
}

// send sends a request and discards the body of the response, which must have one of the expected statuses.
func (c *connection) send(method, path string, body []byte, expected ...int) error {
	response, err := c.request(method, path, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for _, status := range expected {
		if response.StatusCode == status {
			_, err := io.Copy(io.Discard, response.Body)
			return err
		}
	}
	return unexpected(method, path, response)
}

// get returns the body of a response, read into buffer if it is large enough.
func (c *connection) get(path string, buffer []byte) ([]byte, error) {
	response, err := c.request("GET", path, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, unexpected("GET", path, response)
	}
	return readAll(response.Body, buffer[:0])
}

// readAll reads to the end and grows the buffer as necessary.
func readAll(reader io.Reader, buffer []byte) ([]byte, error) {
	for {
		if len(buffer) == cap(buffer) {
			buffer = append(buffer, 0)[:len(buffer)]
		}
		n, err := reader.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if err == io.EOF {
			return buffer, nil
		}
		if err != nil {
			return buffer, err
		}
	}
}

func unexpected(method, path string, response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, 2000))
	return fmt.Errorf("%s %s: status %d: %s", method, path, response.StatusCode, text)
}
