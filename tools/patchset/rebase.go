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
	"cmp"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"
)

// rebase puts the patches onto another version of upstream, a tag or a commit, in a tree of
// its own: those of the base, or of the one that is nearest if none is named. It says what
// does not apply, which fixes upstream has by now, and whether the outcome builds and passes
// the unit tests of what it touches. Nothing of the project changes.
func (p project) rebase(ref, tree string, nearest bool) error {
	if p.upstream == "" {
		return errors.New("say where upstream's git is (UPSTREAM=directory), a clone of the repository that has the version")
	}
	upstream := gitRepo{dir: p.upstream}
	commit, err := upstream.inPlace("rev-parse", "--verify", "--quiet", ref+"^{commit}")
	if err != nil {
		return fmt.Errorf("%s has no %s: name a tag or a commit (REF=v1.2.3), and fetch it there if it is new (git fetch --tags)", p.upstream, ref)
	}
	// The last release before it, if it is none itself.
	version, err := upstream.inPlace("describe", "--tags", "--abbrev=0", "--match=v[0-9]*.[0-9]*.[0-9]*", ref)
	if err != nil || !semver.IsValid(version) {
		version = p.base.Version
	}
	if nearest {
		if p.base, err = nearestBase(p.dir, version); err != nil {
			return err
		}
	}
	set, err := p.load(source{})
	if err != nil {
		return err
	}
	disk, err := p.onDisk()
	if err != nil {
		return err
	}
	from, target := p.base, *p.base
	target.Version, target.Pin, target.Commit = version, "", commit
	p.base = &target
	p.tree, err = filepath.Abs(cmp.Or(tree, filepath.Join(p.dir, "build", "rebase", strings.ReplaceAll(ref, "/", "-"))))
	if err != nil {
		return err
	}
	src, err := p.source()
	if err != nil {
		return err
	}
	p.say("base is %s; putting the patches of base %s onto it", src.name, from.name)
	r, err := p.emptyTree(src)
	if err != nil {
		return err
	}
	work := porting{project: p, from: from, repo: r, source: src, disk: disk}
	if err := work.addAll(set.forUpstream()); err != nil {
		return err
	}
	if err := work.report("left to do in "+p.tree, "all parts are there"); err != nil {
		return err
	}
	p.say("building it, and running the unit tests of what it touches (minutes)")
	failed := p.buildAndTest(r.dir, set.forUpstream()...)
	if names := failedTests(failed); len(names) > 0 {
		failed = fmt.Errorf("tests fail: %s", strings.Join(names, ", "))
	}
	if failed == nil && len(work.left) > 0 {
		failed = fmt.Errorf("%d parts are left, see above", len(work.left))
	}
	if failed != nil {
		return fmt.Errorf("%s is not done: %w", p.tree, failed)
	}
	p.say("%s builds and passes the unit tests of what it touches", p.tree)
	return nil
}

// inPlace runs git in a repository as it is, which may have no work tree.
func (r gitRepo) inPlace(args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", r.dir}, args...)...).Output()
	return strings.TrimSpace(string(out)), err
}

// nearestBase returns the base whose version is nearest, and the later one of two.
func nearestBase(dir, version string) (*baseFile, error) {
	names, err := baseNames(dir)
	if err != nil {
		return nil, err
	}
	var nearest *baseFile
	least := math.MaxInt
	for _, name := range names {
		b, err := openBase(dir, name)
		if err != nil {
			return nil, err
		}
		distance := minorOf(b.Version) - minorOf(version)
		if distance = max(distance, -distance); distance < least || distance == least && semver.Compare(b.Version, nearest.Version) > 0 {
			nearest, least = b, distance
		}
	}
	return nearest, nil
}

// minorOf returns the number of the minor version, those of a major one apart.
func minorOf(version string) int {
	major, minor, _ := strings.Cut(strings.TrimPrefix(semver.MajorMinor(version), "v"), ".")
	ma, _ := strconv.Atoi(major)
	mi, _ := strconv.Atoi(minor)
	return 1000*ma + mi
}
