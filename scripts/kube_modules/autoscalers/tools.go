// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package autoscalers names what scripts/autoscalers provides, so that go.mod and go.sum pin all of
// it.
package autoscalers

import (
	_ "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	_ "sigs.k8s.io/karpenter/kwok"
)
