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
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	spdxjson "github.com/spdx/tools-golang/json"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// checkVersions compares the stamps in all that is shipped.
func (r *release) checkVersions(ctx context.Context) error {
	var problems []error
	stamp := func(where, got, want string) {
		fmt.Fprintf(r.out, "    %-28s %s\n", where, got)
		if got != want {
			problems = append(problems, fmt.Errorf("%s is %q, and not %q", where, got, want))
		}
	}
	index, remove, err := openArchive(r.archivePath())
	if err != nil {
		return err
	}
	defer remove()
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	if err := eachManager(index, func(config *v1.ConfigFile, program string) error {
		stamp("image label, "+config.Architecture, config.Config.Labels["org.opencontainers.image.version"], r.version)
		if config.OS != runtime.GOOS || config.Architecture != runtime.GOARCH {
			return nil
		}
		version, err := managerVersion(ctx, program)
		if err != nil {
			return err
		}
		stamp("manager's first log line", version, r.version)
		return nil
	}); err != nil {
		return err
	}
	stamp("image name", manifest.Manifests[0].Annotations["io.containerd.image.name"], imageName(r.image))

	content, err := os.ReadFile(r.manifestsPath())
	if err != nil {
		return err
	}
	objects, err := decodeObjects(content)
	if err != nil {
		return err
	}
	// Says itself what it misses.
	if err := r.checkDeployment(objects, deploymentName); err != nil {
		problems = append(problems, err)
	}
	packaged, err := loader.LoadFile(r.chartPath())
	if err != nil {
		return err
	}
	stamp("chart's version", packaged.Metadata.Version, r.chartVersion())
	stamp("chart's appVersion", packaged.Metadata.AppVersion, r.version)

	sbom, err := os.Open(r.sbomPath())
	if err != nil {
		return err
	}
	defer sbom.Close()
	document, err := spdxjson.Read(sbom)
	if err != nil {
		return err
	}
	stamp("SBOM's image", document.Packages[0].PackageVersion, r.version)
	stamp("SBOM's digest", document.Packages[0].PackageChecksums[0].Value, manifest.Manifests[0].Digest.Hex)

	if err := r.checkPlugins(ctx, stamp); err != nil {
		problems = append(problems, err)
	}

	changelog, err := os.ReadFile(r.changelogPath())
	if err != nil {
		return err
	}
	newest, err := newestVersion(changelog, r.baseVersion)
	if err != nil {
		return err
	}
	// A build between two releases has its commit behind it.
	if newest != r.version && !strings.HasPrefix(r.version, newest+".") {
		problems = append(problems, fmt.Errorf("the newest version on %s in the changelog is %s, and not %s", r.baseVersion, newest, r.version))
	}
	return errors.Join(problems...)
}

var changelogHeading = regexp.MustCompile(`(?m)^## (v\S+)`)

// newestVersion returns the first version of a changelog on a version of Kueue.
func newestVersion(changelog []byte, baseVersion string) (string, error) {
	for _, heading := range changelogHeading.FindAllSubmatch(changelog, -1) {
		if version := string(heading[1]); strings.HasPrefix(version, baseVersion+"-") {
			return version, nil
		}
	}
	return "", fmt.Errorf("the changelog has no heading with a version on %s", baseVersion)
}

// openArchive opens the image's archive, which is an OCI layout.
func openArchive(path string) (v1.ImageIndex, func(), error) {
	dir, err := os.MkdirTemp("", "release-archive-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { os.RemoveAll(dir) }
	index, err := func() (v1.ImageIndex, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if err := untar(f, dir); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return layout.ImageIndexFromPath(dir)
	}()
	if err != nil {
		remove()
		return nil, nil, err
	}
	return index, remove, nil
}

// untar writes the files of an archive below dir.
func untar(from io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for archive := tar.NewReader(from); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o755); err != nil {
			return err
		}
		f, err := root.OpenFile(header.Name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, header.FileInfo().Mode().Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(f, archive)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
}

// eachManager calls a function with the configuration and the manager of each
// image in an archive.
func eachManager(archive v1.ImageIndex, do func(config *v1.ConfigFile, program string) error) error {
	index, err := onlyImage(archive)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, descriptor := range manifest.Manifests {
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			return err
		}
		if err := withFiles(image, do); err != nil {
			return err
		}
	}
	return nil
}

func withFiles(image v1.Image, do func(config *v1.ConfigFile, program string) error) error {
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "release-files-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	content := mutate.Extract(image)
	defer content.Close()
	if err := untar(content, dir); err != nil {
		return err
	}
	return do(config, filepath.Join(dir, filepath.FromSlash(entrypoint)))
}

// managerVersion runs a manager with the gate, which plain Kueue's does not know
// and refuses, and returns the version in its first log line. It finds no cluster
// and ends.
func managerVersion(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, gateArgument)
	cmd.Env = []string{"HOME=" + filepath.Dir(program)}
	// The error is expected, and the log tells whether it started.
	out, _ := cmd.CombinedOutput()
	return loggedVersion(out)
}

// loggedVersion returns the version that the manager logs when it starts.
func loggedVersion(log []byte) (string, error) {
	for lines := bufio.NewScanner(bytes.NewReader(log)); lines.Scan(); {
		var line struct {
			Msg        string `json:"msg"`
			GitVersion string `json:"gitVersion"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "Initializing" && line.GitVersion != "" {
			return line.GitVersion, nil
		}
	}
	return "", fmt.Errorf("the manager does not say its version:\n%s", bytes.TrimSpace(log))
}
