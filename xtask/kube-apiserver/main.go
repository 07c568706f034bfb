// A kube-apiserver with an etcd of its own, for `cargo xtask conformance`. The first argument is the folder of etcd's data, the second etcd's
// URL on loopback, and the rest are flags of kube-apiserver. Both run until the process ends.
package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	_ "time/tzdata" // for the time zones of CronJobs

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: kube-apiserver DATA_DIR ETCD_URL [FLAG]...")
		os.Exit(2)
	}
	if err := startEtcd(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "start etcd:", err)
		os.Exit(1)
	}
	command := app.NewAPIServerCommand()
	command.SetArgs(append(os.Args[3:], "--etcd-servers="+os.Args[2]))
	os.Exit(cli.Run(command))
}

// startEtcd starts an etcd with one member and waits until it is ready.
func startEtcd(folder, address string) error {
	client, err := url.Parse(address)
	if err != nil {
		return err
	}
	// Nobody connects to the address for other members. The port 0 is a free one.
	peer, err := url.Parse("http://127.0.0.1:0")
	if err != nil {
		return err
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
		return err
	}
	select {
	case <-server.Server.ReadyNotify():
		return nil
	case err := <-server.Err():
		return err
	}
}
