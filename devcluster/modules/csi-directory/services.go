package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"k8s.io/mount-utils"

	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// --- Who it is ---------------------------------------------------------------------------------

type identity struct {
	csi.UnimplementedIdentityServer
}

func (*identity) GetPluginInfo(
	context.Context, *csi.GetPluginInfoRequest,
) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: name, VendorVersion: version}, nil
}

func (*identity) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	service := &csi.PluginCapability_Service{
		Type: csi.PluginCapability_Service_CONTROLLER_SERVICE,
	}
	// A folder grows under what has it mounted.
	growth := &csi.PluginCapability_VolumeExpansion{
		Type: csi.PluginCapability_VolumeExpansion_ONLINE,
	}
	return &csi.GetPluginCapabilitiesResponse{
		Capabilities: []*csi.PluginCapability{
			{Type: &csi.PluginCapability_Service_{Service: service}},
			{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: growth}},
		},
	}, nil
}

func (*identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

type registrarServer struct {
	registration.UnimplementedRegistrationServer
	endpoint string
}

func (r *registrarServer) GetInfo(
	context.Context, *registration.InfoRequest,
) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              name,
		Endpoint:          r.endpoint,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus ends a driver that the kubelet refused: its log says why.
func (*registrarServer) NotifyRegistrationStatus(
	_ context.Context, said *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if !said.PluginRegistered {
		os.Stderr.WriteString("the kubelet refused: " + said.Error + "\n")
		os.Exit(1)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// --- Volumes and snapshots ---------------------------------------------------------------------

type controller struct {
	csi.UnimplementedControllerServer
	folders *folders
}

func (*controller) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	var found []*csi.ControllerServiceCapability
	for _, one := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	} {
		rpc := &csi.ControllerServiceCapability_RPC{Type: one}
		found = append(found, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: rpc},
		})
	}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: found}, nil
}

func (c *controller) CreateVolume(
	_ context.Context, asked *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	c.folders.one.Lock()
	defer c.folders.one.Unlock()
	wanted, from := asked.GetCapacityRange().GetRequiredBytes(), ""
	if err := c.folders.holds(wanted); err != nil {
		return nil, err
	}
	if source := asked.GetVolumeContentSource(); source != nil {
		path, err := c.folders.place(snapshots, source.GetSnapshot().GetSnapshotId())
		if err != nil {
			return nil, err
		}
		if !exists(path) {
			return nil, status.Error(codes.NotFound, "there is no such snapshot")
		}
		if wanted < size(path) {
			return nil, status.Error(codes.OutOfRange, "the snapshot is larger than that")
		}
		from = path
	}
	notes := map[string]string{sizeFile: strconv.FormatInt(wanted, 10)}
	if err := c.folders.make(volumes, asked.GetName(), from, notes); err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId:      asked.GetName(),
		CapacityBytes: wanted,
		ContentSource: asked.GetVolumeContentSource(),
	}}, nil
}

// ControllerExpandVolume notes the new size, and that is all: a folder has no size of its own, so
// the node has nothing to do.
func (c *controller) ControllerExpandVolume(
	_ context.Context, asked *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	c.folders.one.Lock()
	defer c.folders.one.Unlock()
	path, err := c.folders.place(volumes, asked.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if !exists(path) {
		return nil, status.Error(codes.NotFound, "there is no such volume")
	}
	wanted := max(asked.GetCapacityRange().GetRequiredBytes(), size(path))
	if err := c.folders.holds(wanted); err != nil {
		return nil, err
	}
	if err := resized(path, wanted); err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: wanted}, nil
}

func (c *controller) DeleteVolume(
	_ context.Context, asked *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	c.folders.one.Lock()
	defer c.folders.one.Unlock()
	return &csi.DeleteVolumeResponse{}, c.folders.remove(volumes, asked.GetVolumeId())
}

func (c *controller) CreateSnapshot(
	_ context.Context, asked *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	c.folders.one.Lock()
	defer c.folders.one.Unlock()
	from, err := c.folders.place(volumes, asked.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	if !exists(from) {
		return nil, status.Error(codes.NotFound, "there is no such volume")
	}
	notes := map[string]string{sourceFile: asked.GetSourceVolumeId()}
	if err := c.folders.make(snapshots, asked.GetName(), from, notes); err != nil {
		return nil, err
	}
	return c.told(asked.GetName())
}

// told is what is known of a snapshot from its own files.
func (c *controller) told(id string) (*csi.CreateSnapshotResponse, error) {
	path, err := c.folders.place(snapshots, id)
	if err != nil {
		return nil, err
	}
	noted := filepath.Join(path, sourceFile)
	source, err := os.ReadFile(noted)
	if err != nil {
		return nil, err
	}
	made, err := os.Stat(noted)
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{
		SnapshotId:     id,
		SourceVolumeId: string(source),
		SizeBytes:      size(path),
		CreationTime:   timestamppb.New(made.ModTime()),
		ReadyToUse:     true,
	}}, nil
}

func (c *controller) DeleteSnapshot(
	_ context.Context, asked *csi.DeleteSnapshotRequest,
) (*csi.DeleteSnapshotResponse, error) {
	c.folders.one.Lock()
	defer c.folders.one.Unlock()
	return &csi.DeleteSnapshotResponse{}, c.folders.remove(snapshots, asked.GetSnapshotId())
}

func (c *controller) ValidateVolumeCapabilities(
	_ context.Context, asked *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	path, err := c.folders.place(volumes, asked.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if !exists(path) {
		return nil, status.Error(codes.NotFound, "there is no such volume")
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeCapabilities: asked.GetVolumeCapabilities(),
		},
	}, nil
}

// --- On the node -------------------------------------------------------------------------------

type nodeServer struct {
	csi.UnimplementedNodeServer
	id      string
	folders *folders
	mounter mount.Interface
}

func (n *nodeServer) NodeGetInfo(
	context.Context, *csi.NodeGetInfoRequest,
) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.id}, nil
}

func (*nodeServer) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (n *nodeServer) NodePublishVolume(
	_ context.Context, asked *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	path, err := n.folders.place(volumes, asked.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if !exists(path) {
		return nil, status.Error(codes.NotFound, "there is no such volume")
	}
	target := asked.GetTargetPath()
	if err := os.MkdirAll(target, 0o750); err != nil {
		return nil, err
	}
	mounted, err := n.mounter.IsMountPoint(target)
	if err != nil || mounted {
		return &csi.NodePublishVolumeResponse{}, err
	}
	options := []string{"bind"}
	if asked.GetReadonly() {
		options = append(options, "ro")
	}
	err = n.mounter.Mount(filepath.Join(path, data), target, "", options)
	return &csi.NodePublishVolumeResponse{}, err
}

func (n *nodeServer) NodeUnpublishVolume(
	_ context.Context, asked *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	err := mount.CleanupMountPoint(asked.GetTargetPath(), n.mounter, true)
	return &csi.NodeUnpublishVolumeResponse{}, err
}
