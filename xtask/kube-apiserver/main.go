// A kube-apiserver with an etcd of its own on loopback, for `cargo xtask conformance`. It takes a folder for its files and its port. Into the
// folder it writes `token`, the token of an administrator, and `apiserver.crt`, its certificate with that of the authority.
package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	_ "time/tzdata" // for the time zones of CronJobs

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: kube-apiserver FOLDER PORT")
		os.Exit(2)
	}
	flags, err := prepare(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	command := app.NewAPIServerCommand()
	command.SetArgs(flags)
	os.Exit(cli.Run(command))
}

// prepare starts etcd, writes the credentials and returns the flags of kube-apiserver, which are those of envtest.
func prepare(folder, port string) ([]string, error) {
	etcd, err := startEtcd(folder)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	key, tokens := filepath.Join(folder, "accounts.key"), filepath.Join(folder, "tokens.csv")
	if err := writeKey(key); err != nil {
		return nil, fmt.Errorf("write %s: %w", key, err)
	}
	token := rand.Text()
	if err := os.WriteFile(tokens, []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "token"), []byte(token), 0o600); err != nil {
		return nil, err
	}
	return []string{
		"--etcd-servers=" + etcd,
		"--secure-port=" + port,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--cert-dir=" + folder,
		"--token-auth-file=" + tokens,
		"--authorization-mode=AlwaysAllow",
		"--allow-privileged=true",
		"--service-cluster-ip-range=10.96.0.0/12",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + key,
		"--service-account-signing-key-file=" + key,
		"--disable-admission-plugins=ServiceAccount",
	}, nil
}

// startEtcd starts an etcd with one member, waits until it is ready and returns its URL.
func startEtcd(folder string) (string, error) {
	client, err := freeURL()
	if err != nil {
		return "", err
	}
	// Nobody connects to the address for other members.
	peer, err := freeURL()
	if err != nil {
		return "", err
	}
	config := embed.NewConfig()
	config.Dir = filepath.Join(folder, "etcd")
	config.LogLevel = "error"
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	// The data is of no use after the process.
	config.UnsafeNoFsync = true
	server, err := embed.StartEtcd(config)
	if err != nil {
		return "", err
	}
	select {
	case <-server.Server.ReadyNotify():
		return client.String(), nil
	case err := <-server.Err():
		return "", err
	}
}

// freeURL returns a URL on loopback on which nothing listens now.
func freeURL() (*url.URL, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	return &url.URL{Scheme: "http", Host: listener.Addr().String()}, nil
}

// writeKey writes a new key that signs the tokens of service accounts.
func writeKey(path string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return os.WriteFile(path, pem.EncodeToMemory(&block), 0o600)
}
