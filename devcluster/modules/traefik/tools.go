//go:build tools

// Package tools names the main packages that this module builds.
package tools

import (
	_ "github.com/traefik/traefik/v3/cmd/traefik"
)
