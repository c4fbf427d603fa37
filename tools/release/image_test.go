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
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	spdxjson "github.com/spdx/tools-golang/json"
)

const testVersion = "v0.14.8-acrequeueafter.7"

// buildManager builds testdata/manager and returns where it lies.
func buildManager(t *testing.T, version string, ldflags ...string) string {
	t.Helper()
	return build(t, "manager", runtime.GOARCH, version, ldflags...)
}

// build builds a program of testdata and returns where it lies.
func build(t *testing.T, name, architecture, version string, ldflags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", "build", "-ldflags", strings.Join(append(ldflags, "-s -w -X main.version="+version), " "), "-o", program, "./testdata/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+architecture)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building testdata/%s: %v\n%s", name, err, out)
	}
	return program
}

// plugins are what plugin has built, by architecture.
var plugins = map[string][]byte{}

// plugin returns testdata/plugin, which it builds once.
func plugin(t *testing.T, architecture string) []byte {
	t.Helper()
	if plugins[architecture] == nil {
		plugins[architecture] = get(t, build(t, "plugin", architecture, testVersion))
	}
	return plugins[architecture]
}

// newRelease returns a release below a new directory, with a small program for
// each manager.
func newRelease(t *testing.T, image string) *release {
	t.Helper()
	dir := t.TempDir()
	r := &release{
		out:           io.Discard,
		version:       testVersion,
		baseVersion:   "v0.14.8",
		commit:        "0123456789abcdef0123456789abcdef01234567",
		createdFlag:   "2026-01-02T03:04:05Z",
		imageFlag:     image,
		gateFlag:      "on",
		tree:          filepath.Join(dir, "tree"),
		managers:      filepath.Join(dir, "managers"),
		architectures: []string{"amd64", "arm64"},
		dist:          filepath.Join(dir, "dist"),
	}
	if err := r.complete(); err != nil {
		t.Fatal(err)
	}
	content := get(t, buildManager(t, testVersion))
	put(t, filepath.Join(r.tree, "LICENSE"), []byte("the license\n"))
	for _, architecture := range r.architectures {
		put(t, r.managerPath(architecture), content)
		put(t, r.builtPluginPath(architecture), plugin(t, architecture))
	}
	return r
}

func put(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// images returns the images of the archive by architecture.
func images(t *testing.T, index v1.ImageIndex) map[string]v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]v1.Image{}
	for _, descriptor := range manifest.Manifests {
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		found[descriptor.Platform.Architecture] = image
	}
	return found
}

func openImage(t *testing.T, r *release) v1.ImageIndex {
	t.Helper()
	archive, remove, err := openArchive(r.archivePath())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	image, err := onlyImage(archive)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestImage(t *testing.T) {
	r := newRelease(t, "")
	if err := r.makeImage(); err != nil {
		t.Fatal(err)
	}
	found := images(t, openImage(t, r))
	if len(found) != 2 {
		t.Fatalf("the archive has %d images, want one for amd64 and one for arm64", len(found))
	}
	for architecture, image := range found {
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.OS != "linux" || config.Architecture != architecture {
			t.Errorf("the image for %s says it is for %s/%s", architecture, config.OS, config.Architecture)
		}
		if config.Config.User != "65532:65532" {
			t.Errorf("user = %q", config.Config.User)
		}
		if diff := cmp.Diff([]string{"/manager"}, config.Config.Entrypoint); diff != "" {
			t.Errorf("entrypoint (-want,+got):\n%s", diff)
		}
		if !config.Created.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
			t.Errorf("created = %v, want the time of the commit", config.Created)
		}
		manifest, err := image.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		for where, metadata := range map[string]map[string]string{"labels": config.Config.Labels, "annotations": manifest.Annotations} {
			if metadata["org.opencontainers.image.version"] != testVersion || metadata["org.opencontainers.image.revision"] != r.commit {
				t.Errorf("%s lack version and commit: %v", where, metadata)
			}
		}

		dir := t.TempDir()
		content := mutate.Extract(image)
		defer content.Close()
		if err := untar(content, dir); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(get(t, filepath.Join(dir, "manager")), get(t, r.managerPath(architecture))) {
			t.Error("/manager is not the manager that was built")
		}
		if modes := fileModes(t, image); modes["tmp"] != 0o1777 || modes["etc/ssl/certs"] != 0o755 {
			t.Errorf("modes of /tmp and /etc/ssl/certs = %o, %o", modes["tmp"], modes["etc/ssl/certs"])
		}
		info, err := os.Stat(filepath.Join(dir, "manager"))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o555 != 0o555 {
			t.Errorf("/manager has the mode %v: others than root cannot run it", info.Mode())
		}
		if !x509.NewCertPool().AppendCertsFromPEM(get(t, filepath.Join(dir, rootsPath))) {
			t.Error("there are no CA certificates")
		}
	}
}

// fileModes returns the modes of all files in an image.
func fileModes(t *testing.T, image v1.Image) map[string]int64 {
	t.Helper()
	content := mutate.Extract(image)
	defer content.Close()
	modes := map[string]int64{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return modes
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.Mode
	}
}

// Docker's classic image store reads manifest.json, and finds the blobs where
// the OCI layout has them.
func TestImageForDocker(t *testing.T) {
	r := newRelease(t, "registry.example.com/team/kueue:test")
	if err := r.makeImage(); err != nil {
		t.Fatal(err)
	}
	for architecture, tag := range map[string]string{
		"amd64": "registry.example.com/team/kueue:test",
		"arm64": "registry.example.com/team/kueue:test-arm64",
	} {
		ref, err := name.NewTag(tag)
		if err != nil {
			t.Fatal(err)
		}
		image, err := tarball.ImageFromPath(r.archivePath(), &ref)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != architecture {
			t.Errorf("%s is for %s, want %s", tag, config.Architecture, architecture)
		}
		layers, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		for _, layer := range layers {
			content, err := layer.Uncompressed()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, content); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestProgramImages(t *testing.T) {
	r := newRelease(t, "")
	dir := t.TempDir()
	for _, program := range []string{"budget", "capacity"} {
		put(t, filepath.Join(dir, program), []byte("the program "+program))
	}
	archive := filepath.Join(dir, "images.tar")
	if err := r.makeProgramImages([]string{filepath.Join(dir, "budget"), filepath.Join(dir, "capacity")}, archive); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"budget", "capacity"} {
		tag, err := name.NewTag("localhost/" + program + ":" + testVersion)
		if err != nil {
			t.Fatal(err)
		}
		image, err := tarball.ImageFromPath(archive, &tag)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"/" + program}, config.Config.Entrypoint); diff != "" {
			t.Errorf("entrypoint (-want,+got):\n%s", diff)
		}
		if mode := fileModes(t, image)[program]; mode != 0o755 {
			t.Errorf("the mode of %s is %o", program, mode)
		}
	}
}

func TestReproducible(t *testing.T) {
	first, second := newRelease(t, ""), newRelease(t, "")
	if err := errors.Join(first.makeImage(), first.makePlugins()); err != nil {
		t.Fatal(err)
	}
	// Nothing may depend on when a file was built.
	yesterday := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(second.managerPath("amd64"), yesterday, yesterday); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(second.makeImage(), second.makePlugins()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []func(*release) string{(*release).archivePath, (*release).sbomPath, (*release).pluginSBOMPath} {
		if !bytes.Equal(get(t, path(first)), get(t, path(second))) {
			t.Errorf("%s is not the same when it is made again", filepath.Base(path(first)))
		}
	}
}

func TestSBOM(t *testing.T) {
	r := newRelease(t, "")
	if err := r.makeImage(); err != nil {
		t.Fatal(err)
	}
	document, err := spdxjson.Read(bytes.NewReader(get(t, r.sbomPath())))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, pkg := range document.Packages {
		names = append(names, pkg.PackageName)
	}
	// Each once, though both architectures have them.
	for _, want := range []string{"stdlib", "github.com/google/go-cmp", rootsModule} {
		if n := count(names, want); n != 1 {
			t.Errorf("the SBOM lists %s %d times, want once", want, n)
		}
	}
	digest, err := openImage(t, r).Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got := document.Packages[0].PackageChecksums[0].Value; got != digest.Hex {
		t.Errorf("the SBOM is of the image %s, want %s", got, digest.Hex)
	}
}

func TestPlugins(t *testing.T) {
	r := newRelease(t, "")
	if err := r.makePlugins(); err != nil {
		t.Fatal(err)
	}
	for _, architecture := range r.architectures {
		path := filepath.Join(r.dist, "kubectl-kueue-linux-"+architecture)
		if !bytes.Equal(get(t, path), get(t, r.builtPluginPath(architecture))) {
			t.Errorf("%s is not what was built", path)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: mode %v, %v; want one that can be run", path, info.Mode(), err)
		}
	}
	document, err := spdxjson.Read(bytes.NewReader(get(t, r.pluginSBOMPath())))
	if err != nil {
		t.Fatal(err)
	}
	var files, names []string
	for _, pkg := range document.Packages {
		names = append(names, pkg.PackageName)
		if pkg.PackageFileName != "" {
			files = append(files, pkg.PackageFileName)
		}
	}
	if diff := cmp.Diff([]string{"kubectl-kueue-linux-amd64", "kubectl-kueue-linux-arm64"}, files); diff != "" {
		t.Errorf("files in the SBOM (-want,+got):\n%s", diff)
	}
	if n := count(names, "github.com/google/go-cmp"); n != 1 {
		t.Errorf("the SBOM lists go-cmp %d times, want once", n)
	}
}

func count(all []string, want string) int {
	return len(slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s != want }))
}

func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	r := newRelease(t, strings.TrimPrefix(server.URL, "http://")+"/team/kueue:pushed")
	if err := r.push(t.Context()); err == nil {
		t.Error("pushing before there is an image: want an error")
	}
	if err := r.makeImage(); err != nil {
		t.Fatal(err)
	}
	if err := r.push(t.Context()); err != nil {
		t.Fatal(err)
	}
	pushed, err := remote.Index(r.image)
	if err != nil {
		t.Fatal(err)
	}
	want, err := openImage(t, r).Digest()
	if err != nil {
		t.Fatal(err)
	}
	got, err := pushed.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("the registry has %s, want %s as in the archive", got, want)
	}
	if found := images(t, pushed); len(found) != 2 {
		t.Errorf("the registry has %d architectures, want 2", len(found))
	}
}

func TestImageNames(t *testing.T) {
	for given, want := range map[string]string{
		"":                           "localhost/kueue:" + testVersion,
		"localhost:5000/kueue":       "localhost:5000/kueue:" + testVersion,
		"kueue:mine":                 "docker.io/library/kueue:mine",
		"registry.example.com/a/b:c": "registry.example.com/a/b:c",
	} {
		r := newRelease(t, given)
		if got := imageName(r.image); got != want {
			t.Errorf("--image %q is %s, want %s", given, got, want)
		}
	}
}

func TestFlags(t *testing.T) {
	for flag, break_ := range map[string]func(*release){
		"version with a plus": func(r *release) { r.version = "v0.14.8+abc" },
		"version without v":   func(r *release) { r.version = "0.14.8" },
		"no time":             func(r *release) { r.createdFlag = "unknown" },
		"gate":                func(r *release) { r.gateFlag = "maybe" },
		"image":               func(r *release) { r.imageFlag = "UPPER/case" },
		"no architecture":     func(r *release) { r.architectures = nil },
	} {
		r := newRelease(t, "")
		break_(r)
		if err := r.complete(); err == nil {
			t.Errorf("%s: want an error", flag)
		}
	}
}

func TestChecksums(t *testing.T) {
	r := newRelease(t, "")
	put(t, r.distPath("b"), []byte("b\n"))
	put(t, r.distPath("a"), []byte("a\n"))
	for range 2 { // The second time, the sums lie there too.
		if err := r.writeChecksums(); err != nil {
			t.Fatal(err)
		}
	}
	want := "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7  a\n" +
		"0263829989b6fd954f72baaf2fc64bc2e2f01d692d4de72986ea808f6e99813f  b\n"
	if diff := cmp.Diff(want, string(get(t, r.checksumsPath()))); diff != "" {
		t.Errorf("sums (-want,+got):\n%s", diff)
	}
}

// The README's commands name files by a pattern.
func TestOldVersionsGo(t *testing.T) {
	r := newRelease(t, "")
	r.tree = patchedTree(t)
	put(t, filepath.Join(r.dist, "patches", "0001.patch"), []byte("a patch\n"))
	keep := r.distPath("mine.tar")
	put(t, keep, nil)
	var want []string
	for _, version := range []string{"v0.14.8-acrequeueafter.6", testVersion} {
		r.version = version
		for _, make := range []func() error{r.makeImage, r.makePlugins, r.makeChart, func() error { return r.packPatches(r.distPath("patches")) }} {
			if err := make(); err != nil {
				t.Fatal(err)
			}
		}
		want = []string{r.archivePath(), r.pluginSBOMPath(), r.chartPath(), r.patchesPath(), r.sbomPath(), keep}
	}
	got, err := filepath.Glob(r.distPath("*.*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want,+got):\n%s", diff)
	}
}

// The layout must say so itself: containerd takes the archive for one of
// Docker's otherwise, and imports one architecture.
func TestArchiveIsOCILayout(t *testing.T) {
	r := newRelease(t, "")
	if err := r.makeImage(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := untar(bytes.NewReader(get(t, r.archivePath())), dir); err != nil {
		t.Fatal(err)
	}
	var layout struct{ ImageLayoutVersion string }
	if err := json.Unmarshal(get(t, filepath.Join(dir, "oci-layout")), &layout); err != nil || layout.ImageLayoutVersion != "1.0.0" {
		t.Errorf("oci-layout: %v %v", layout, err)
	}
}
