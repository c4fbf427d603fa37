// Command manager stands for Kueue's: it has dependencies, logs its version,
// and ends because there is no cluster.
package main

import (
	"fmt"
	"os"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

var version string

func main() {
	if diff := cmp.Diff(1, 1); diff != "" {
		panic(diff)
	}
	for range bundle.Roots() {
		break
	}
	fmt.Printf(`{"level":"info","msg":"Initializing","gitVersion":%q}`+"\n", version)
	os.Exit(1)
}
