//go:build tools

// Package tools names the main packages that this module builds.
package tools

import (
	_ "github.com/kubernetes-csi/external-provisioner/v5/cmd/csi-provisioner"
)
