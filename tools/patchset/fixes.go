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
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// scratchFixes returns a scratch repository with the patch set, the fixes of the base in it, by
// their names without ".patch", and the commit of each. The first commit is the base.
func (p project) scratchFixes(only string) (r gitRepo, src source, base string, fixes []patch, commits []string, err error) {
	if src, err = p.source(); err != nil {
		return
	}
	p.say("base is %s", src.name)
	set, err := p.load(src)
	if err != nil {
		return
	}
	set.patches = set.fixes()
	if only != "" && !slices.ContainsFunc(set.patches, func(one patch) bool { return one.slug() == only }) {
		var names []string
		for _, one := range set.patches {
			names = append(names, one.slug())
		}
		err = fmt.Errorf("%s has no fix %q; it has: %s", p.base.Fixes, only, strings.Join(names, ", "))
		return
	}
	r, all, err := p.scratch(src, set)
	if err != nil {
		return
	}
	for i, one := range set.patches {
		if only == "" || one.slug() == only {
			fixes, commits = append(fixes, one), append(commits, all[i+1])
		}
	}
	return r, src, all[0], fixes, commits, nil
}

// slug returns the name of the patch, as it is said on the command line.
func (p patch) slug() string { return strings.TrimSuffix(p.name, ".patch") }

// standAlone puts a fix onto the base without the others, and returns its commit.
func standAlone(r gitRepo, base, commit string, fix patch) (string, error) {
	if _, err := r.run(nil, "reset", "--quiet", "--hard", base); err != nil {
		return "", err
	}
	if _, err := r.run(nil, "cherry-pick", commit); err != nil {
		return "", fmt.Errorf("%s does not apply to the base without the fixes before it: %w", fix.name, err)
	}
	return r.head(), nil
}

// pullRequestOfFix writes one fix of the base as a series for "git am", as it stands alone.
func (p project) pullRequestOfFix(outDir, author, fix string) error {
	r, src, base, fixes, commits, err := p.scratchFixes(fix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	if outDir == "" {
		outDir = filepath.Join("build", "pr-fix"+p.base.Suffix, fix)
	}
	if outDir, err = filepath.Abs(outDir); err != nil {
		return err
	}
	alone, err := standAlone(r, base, commits[0], fixes[0])
	if err != nil {
		return err
	}
	series, err := writeSeries(r, []string{base, alone}, fixes, outDir, author)
	if err != nil {
		return err
	}
	if err := applyAndCompare(src, series, r, alone); err != nil {
		return err
	}
	p.say("%s; \"git am\" applies it to %s", series[0], src.name)
	return p.pullRequestTexts(outDir, fixes, series)
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// verifyFixes proves that each fix of the base, or the one that is named, stands alone on
// the base: everything compiles, the unit tests of what it touches pass, and its own fail
// on the base without it.
func (p project) verifyFixes(only string) error {
	r, _, base, fixes, commits, err := p.scratchFixes(only)
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	for i, fix := range fixes {
		p.say("%d of %d: %s", i+1, len(fixes), fix.msg.subject)
		alone, err := standAlone(r, base, commits[i], fix)
		if err != nil {
			return err
		}
		if err := p.buildAndTest(r.dir, fix); err != nil {
			return fmt.Errorf("with %s alone: %w", fix.name, err)
		}
		failed, err := p.failsWithout(r, base, alone, fix)
		if err != nil {
			return err
		}
		p.say("  passes alone; without it fails: %s", strings.Join(failed, ", "))
	}
	p.say("each of %d fixes stands alone", len(fixes))
	return nil
}

// failsWithout puts the tests of a fix onto the base, and returns which of them fail there.
func (p project) failsWithout(r gitRepo, base, alone string, fix patch) ([]string, error) {
	tests := slices.DeleteFunc(fix.paths(), func(name string) bool { return !strings.HasSuffix(name, "_test.go") })
	if len(tests) == 0 {
		return nil, fmt.Errorf("%s has no test", fix.name)
	}
	if _, err := r.run(nil, "reset", "--quiet", "--hard", base); err != nil {
		return nil, err
	}
	if _, err := r.run(nil, append([]string{"checkout", alone, "--"}, tests...)...); err != nil {
		return nil, err
	}
	dirs := map[string]bool{}
	for _, name := range tests {
		dirs["./"+filepath.ToSlash(filepath.Dir(name))] = true
	}
	packages := sortedKeys(dirs)
	if err := command(r.dir, "go", append([]string{"vet"}, packages...)...); err != nil {
		return nil, fmt.Errorf("the tests of %s do not compile without it, so that it cannot be seen whether they fail: %w", fix.name, err)
	}
	err := command(r.dir, "go", append([]string{"test"}, packages...)...)
	if err == nil {
		return nil, fmt.Errorf("the tests of %s pass without it: what does it mend?", fix.name)
	}
	failed := failedTests(err)
	if len(failed) == 0 {
		return nil, fmt.Errorf("the tests of %s do not run without it: %w", fix.name, err)
	}
	return failed, nil
}

// failedTests returns the tests that failed, from what "go test" has said. One that has failed
// parts is named with them.
func failedTests(err error) []string {
	var failed []string
	for _, match := range failedTest.FindAllStringSubmatch(fmt.Sprint(err), -1) {
		failed = append(failed, match[1])
	}
	return slices.DeleteFunc(failed, func(name string) bool {
		return slices.ContainsFunc(failed, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}
