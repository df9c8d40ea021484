// SPDX-License-Identifier: Apache-2.0

// Command etcd is etcd's server: its own module has no main that can be built from the outside.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
