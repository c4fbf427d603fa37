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

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptOrphans has the children of a process that dies become those of this one.
func adoptOrphans() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// killOrphans ends what a suite has left behind, such as the control planes of one that
// was killed: they would be busy beside the next one. No child of this process's own may
// run.
func killOrphans() {
	for killed := true; killed; { // their children are orphans next
		killed = false
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, stat := range stats {
			content, err := os.ReadFile(stat)
			if err != nil {
				continue // it has ended
			}
			var state string
			var parent int
			// The name before these may have blanks and brackets.
			rest := content[bytes.LastIndexByte(content, ')')+1:]
			if _, err := fmt.Sscan(string(rest), &state, &parent); err != nil || parent != os.Getpid() {
				continue
			}
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				_, err = syscall.Wait4(pid, nil, 0, nil)
				killed = killed || err == nil
			}
		}
	}
}
