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
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
)

const (
	// gateName is the feature gate that the patches add.
	gateName = "ACRequeueAfter"
	// componentName names files, image and chart.
	componentName = "kueue"
)

// release is what is shipped: where it comes from, where it goes to, and the
// stamps that must agree everywhere.
type release struct {
	out io.Writer

	version     string
	baseVersion string
	commit      string
	created     time.Time
	image       name.Tag
	gate        bool

	tree          string
	base          string
	managers      string
	architectures []string
	dist          string

	createdFlag, imageFlag, gateFlag string
}

// A tag of an image, and a value of a label in Kubernetes: no "+", which
// semantic versions have before a commit.
var versionPattern = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// complete reads the flags that are not plain strings.
func (r *release) complete() error {
	if !versionPattern.MatchString(r.version) || len(r.version) > 63 {
		return fmt.Errorf("the version %q is not like v1.2.3-pre.1, with 63 characters at most", r.version)
	}
	var err error
	if r.created, err = time.Parse(time.RFC3339, r.createdFlag); err != nil {
		return fmt.Errorf("--created: %w", err)
	}
	if r.image, err = name.NewTag(imageOrDefault(r.imageFlag, r.version), name.WithDefaultTag(r.version)); err != nil {
		return fmt.Errorf("--image: %w", err)
	}
	switch r.gateFlag {
	case "on", "true":
		r.gate = true
	case "off", "false":
		r.gate = false
	default:
		return fmt.Errorf("--gate is %q: it is on or off", r.gateFlag)
	}
	if len(r.architectures) == 0 {
		return errors.New("--arch names no architecture")
	}
	return os.MkdirAll(r.dist, 0o755)
}

// Names of what is shipped.
func (r *release) archivePath() string { return r.distPath(componentName + "-" + r.version + ".tar") }
func (r *release) sbomPath() string {
	return r.distPath(componentName + "-" + r.version + ".spdx.json")
}
func (r *release) patchesPath() string {
	return r.distPath(componentName + "-" + r.version + "-patches.tar.gz")
}
func (r *release) manifestsPath() string { return r.distPath("manifests.yaml") }
func (r *release) chartVersion() string  { return strings.TrimPrefix(r.version, "v") }
func (r *release) chartPath() string {
	return r.distPath(componentName + "-" + r.chartVersion() + ".tgz")
}
func (r *release) changelogPath() string       { return r.distPath("CHANGELOG.md") }
func (r *release) checksumsPath() string       { return r.distPath("SHA256SUMS") }
func (r *release) distPath(file string) string { return filepath.Join(r.dist, file) }

// removeOld removes what earlier versions left behind, so that a pattern names
// one file.
func (r *release) removeOld(patterns ...string) error {
	for _, pattern := range patterns {
		old, err := filepath.Glob(r.distPath(pattern))
		if err != nil {
			return err
		}
		for _, path := range old {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrote says where a file lies, and how large it is.
func (r *release) wrote(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	r.say("wrote %s (%.1f MB)", path, float64(info.Size())/1e6)
	return nil
}

// packPatches packs a directory of patches, for those who build themselves.
func (r *release) packPatches(from string) error {
	work, err := os.MkdirTemp("", "release-patches-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// The folder in the archive has the archive's name.
	folder := filepath.Join(work, componentName+"-"+r.version+"-patches")
	if err := os.CopyFS(folder, os.DirFS(from)); err != nil {
		return err
	}
	if err := r.removeOld(componentName + "-v*-patches.tar.gz"); err != nil {
		return err
	}
	if err := writeFile(r.patchesPath(), func(w io.Writer) error { return tarGz(w, work, r.created) }); err != nil {
		return err
	}
	return r.wrote(r.patchesPath())
}

// writeChecksums writes the sums of all files that are shipped, in the form
// that "sha256sum --check" reads.
func (r *release) writeChecksums() error {
	entries, err := os.ReadDir(r.dist)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, entry := range entries {
		path := r.distPath(entry.Name())
		if !entry.Type().IsRegular() || path == r.checksumsPath() {
			continue
		}
		sum, err := fileSum(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, entry.Name())
	}
	if err := os.WriteFile(r.checksumsPath(), []byte(sums.String()), 0o644); err != nil {
		return err
	}
	return r.wrote(r.checksumsPath())
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), nil
}

// writeFile writes a file that is whole or absent.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// tarGz writes the files below dir as tarDir does, compressed.
func tarGz(w io.Writer, dir string, created time.Time) error {
	compressed := gzip.NewWriter(w)
	return errors.Join(tarDir(compressed, dir, created), compressed.Close())
}

// tarDir writes the files below dir, in the order of their names, with nothing
// of this machine: not their owner, mode or time.
func tarDir(w io.Writer, dir string, created time.Time) error {
	var files []string
	if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	}); err != nil {
		return err
	}
	slices.Sort(files)
	archive := tar.NewWriter(w)
	for _, path := range files {
		if err := tarFile(archive, dir, path, created); err != nil {
			return err
		}
	}
	return archive.Close()
}

func tarFile(archive *tar.Writer, dir, path string, created time.Time) error {
	relative, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: filepath.ToSlash(relative), Mode: 0o644, Size: info.Size(), ModTime: created}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, f)
	return err
}
