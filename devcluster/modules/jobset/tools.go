//go:build tools

// Package tools names the main packages that this module builds.
package tools

import (
	_ "sigs.k8s.io/jobset"
)
