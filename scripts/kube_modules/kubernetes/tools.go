// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package kubernetes names what scripts/kube builds, so that go.mod and go.sum pin all of it.
package kubernetes

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
)
