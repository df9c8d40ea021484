// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package operators names what scripts/operators builds, so that go.mod and go.sum pin all of it.
// Of the Spark operator only the CustomResourceDefinitions are used.
package operators

import (
	_ "github.com/kubeflow/mpi-operator/cmd/mpi-operator"
	_ "github.com/kubeflow/spark-operator/v2/api/v1beta2"
	_ "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"
	_ "github.com/kubeflow/training-operator/cmd/training-operator.v1"
	_ "github.com/project-codeflare/appwrapper/cmd"
	_ "sigs.k8s.io/jobset"
)
