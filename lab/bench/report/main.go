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

// Command report writes a page about a run of the benchmark, and its pictures.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"kueue-acrequeueafter/lab/bench/result"
)

func main() {
	runPath := flag.String("run", "", "JSON of the run")
	throughputPaths := flag.String("throughput", "", "JSON of runs of the scheduler's benchmark, separated by commas; left out if there is no such file")
	notesPath := flag.String("notes", "", "hand-written part of the page, in Markdown; left out if there is no such file")
	out := flag.String("out", "", "page to write, in Markdown")
	pictures := flag.String("pictures", "", "folder of the pictures")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "Writes a page about a run of the benchmark, and its pictures as SVG.\n\nUsage: report --run FILE --out FILE --pictures FOLDER [--throughput FILE] [--notes FILE]\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *runPath == "" || *out == "" || *pictures == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := report(*runPath, strings.Split(*throughputPaths, ","), *notesPath, *out, *pictures); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func report(runPath string, throughputPaths []string, notesPath, out, pictures string) error {
	run, err := result.Read(runPath)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: run make bench first", err)
	}
	if err != nil {
		return err
	}
	for _, path := range throughputPaths {
		if throughput, err := result.Read(path); err == nil {
			run.Throughput = append(run.Throughput, throughput.Throughput...)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	notes, err := os.ReadFile(notesPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return err
	}
	drawn, err := draw(run, pictures)
	if err != nil {
		return err
	}
	folder, err := filepath.Rel(filepath.Dir(out), pictures)
	if err != nil {
		return err
	}
	page, err := write(run, string(notes), filepath.ToSlash(folder), drawn)
	if err != nil {
		return err
	}
	return os.WriteFile(out, page, 0o644)
}
