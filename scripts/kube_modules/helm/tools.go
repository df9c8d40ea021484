// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package helm names what scripts/helm provides, so that go.mod and go.sum pin all of it.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
