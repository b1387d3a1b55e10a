// A CSI driver for one node: volumes and their snapshots are folders below one base folder.
//
// The drivers made for tests elsewhere can't be had as modules, and this much of the protocol is
// all that Kubernetes' own sidecars and the kubelet ask for.
package main

import (
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"k8s.io/mount-utils"

	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	name    = "directory.csi.berth.dev"
	version = "1"
)

func main() {
	base := flag.String("base", "", "the folder of volumes and snapshots")
	node := flag.String("node", "", "the name of this node")
	socket := flag.String("socket", "", "where the kubelet and the sidecars speak to it")
	registry := flag.String("registry", "", "the kubelet's folder of plugins")
	flag.Parse()

	folders, err := openFolders(*base)
	if err != nil {
		log.Fatal(err)
	}
	driver := grpc.NewServer()
	csi.RegisterIdentityServer(driver, &identity{})
	csi.RegisterControllerServer(driver, &controller{folders: folders})
	csi.RegisterNodeServer(driver, &nodeServer{id: *node, folders: folders, mounter: mount.New("")})
	go serve(driver, *socket)

	registrar := grpc.NewServer()
	registration.RegisterRegistrationServer(registrar, &registrarServer{endpoint: *socket})
	serve(registrar, filepath.Join(*registry, name+"-reg.sock"))
}

// serve takes the place of a server that died: its socket is still there.
func serve(server *grpc.Server, path string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		log.Fatal(err)
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.Serve(listener))
}
