// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package olderoperators names what scripts/operators builds with an older controller-runtime, so
// that go.mod and go.sum pin all of it.
package olderoperators

import (
	_ "github.com/ray-project/kuberay/ray-operator"
	_ "sigs.k8s.io/lws/cmd"
)
