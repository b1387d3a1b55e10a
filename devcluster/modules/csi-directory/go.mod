module berth.dev/devcluster/csi-directory

go 1.26.0

require (
	github.com/container-storage-interface/spec v1.9.0
	google.golang.org/grpc v1.82.1
	google.golang.org/protobuf v1.36.12-0.20260120151049-f2248ac996af
	k8s.io/kubelet v0.37.2
	k8s.io/mount-utils v0.37.2
)

require (
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/moby/sys/mountinfo v0.7.2 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
	k8s.io/utils v0.0.0-20260626114624-be93311217bd // indirect
)

replace golang.org/x/net => golang.org/x/net v0.49.0

replace golang.org/x/sys => golang.org/x/sys v0.40.0

replace golang.org/x/text => golang.org/x/text v0.33.0

replace google.golang.org/genproto/googleapis/rpc => google.golang.org/genproto/googleapis/rpc v0.0.0-20260128011058-8636f8732409

replace google.golang.org/grpc => google.golang.org/grpc v1.79.3

replace k8s.io/kubelet => k8s.io/kubelet v0.36.3

replace k8s.io/mount-utils => k8s.io/mount-utils v0.36.3

replace k8s.io/utils => k8s.io/utils v0.0.0-20260210185600-b8788abfbbc2
