//go:build tools

// Package tools names the main packages that this module builds.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
