/*
Copyright The Kubernetes Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

	http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Command manager stands for Kueue's: it has dependencies, refuses a gate that it
// does not know, logs its version, and ends because there is no cluster.
package main

import (
	"fmt"
	"os"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

var (
	version string
	gate    = "ACRequeueAfter"
)

func main() {
	for _, argument := range os.Args[1:] {
		if argument != "--feature-gates="+gate+"=true" {
			fmt.Println("unrecognized feature gate: " + argument)
			os.Exit(1)
		}
	}
	if diff := cmp.Diff(1, 1); diff != "" {
		panic(diff)
	}
	for range bundle.Roots() {
		break
	}
	fmt.Printf(`{"level":"info","msg":"Initializing","gitVersion":%q}`+"\n", version)
	os.Exit(1)
}
