// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package kwok names what scripts/kwok provides, so that go.mod and go.sum pin all of it.
package kwok

import _ "sigs.k8s.io/kwok/cmd/kwok"
