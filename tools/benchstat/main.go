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

// Command allocations compares the outputs of Go benchmarks of two versions, and fails
// if one allocates by a tenth more often. Their times depend on the machine: benchstat
// shows those.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// tolerated is how many times as many allocations there may be.
const tolerated = 1.1

func main() {
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Compares the allocations of Go benchmarks, and fails where there are %.1f times as many.\n\nUsage: allocations OLD NEW\n\n", tolerated)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := compare(flag.Arg(0), flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func compare(oldFile, newFile string) error {
	before, err := allocations(oldFile)
	if err != nil {
		return err
	}
	after, err := allocations(newFile)
	if err != nil {
		return err
	}
	var all []error
	for _, name := range slices.Sorted(maps.Keys(before)) {
		was := median(before[name])
		switch found, ok := after[name]; {
		case !ok:
			all = append(all, fmt.Errorf("%s is in %s, and was not run: record the figures anew if it is gone", name, oldFile))
		case median(found) > tolerated*was:
			all = append(all, fmt.Errorf("%s allocates %.0f times, %.0f in %s", name, median(found), was, oldFile))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[name]; !ok {
			all = append(all, fmt.Errorf("%s is not in %s: record the figures anew", name, oldFile))
		}
	}
	return errors.Join(all...)
}

// allocations returns those of each benchmark in one turn, one for each run of it.
func allocations(file string) (map[string][]float64, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := map[string][]float64{}
	reader := benchfmt.NewReader(f, file)
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, record
		case *benchfmt.Result:
			if count, ok := record.Value("allocs/op"); ok {
				all[name(record)] = append(all[name(record)], count)
			}
		}
	}
	if len(all) == 0 {
		return nil, cmp.Or(reader.Err(), fmt.Errorf("%s has no benchmark that tells its allocations", file))
	}
	return all, reader.Err()
}

// name leaves out the number of processors.
func name(record *benchfmt.Result) string {
	base, parts := record.Name.Parts()
	full := record.GetConfig("pkg") + "." + string(base)
	for _, part := range parts {
		if !strings.HasPrefix(string(part), "-") {
			full += string(part)
		}
	}
	return full
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
