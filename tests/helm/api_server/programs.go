//go:build tools

// Package programs names what tests/tools.py builds, so that go.mod keeps it.
package programs

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
)
