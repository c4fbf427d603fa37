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
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// What upstream's Dockerfile says, and its base image (distroless static).
const (
	entrypoint = "/manager"
	user       = "65532:65532"
	rootsPath  = "/etc/ssl/certs/ca-certificates.crt"
)

// makeImage writes the image's archive, and the SBOM of what is in it.
func (r *release) makeImage() error {
	index, err := r.buildIndex()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := r.writeLayout(work, index); err != nil {
		return err
	}
	if err := r.removeOld(componentName+"-v*.tar", componentName+"-v*.spdx.json"); err != nil {
		return err
	}
	if err := writeFile(r.archivePath(), func(w io.Writer) error { return tarDir(w, work, r.created) }); err != nil {
		return err
	}
	if err := r.wrote(r.archivePath()); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	r.say("image %s@%s", r.image, digest)
	return r.makeSBOM(digest)
}

// push pushes the image of the archive, with the credentials that "docker
// login" keeps.
func (r *release) push(ctx context.Context) error {
	archive, remove, err := openArchive(r.archivePath())
	if err != nil {
		return fmt.Errorf("there is no image to push: %w", err)
	}
	defer remove()
	image, err := onlyImage(archive)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(r.image, image, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing %s: %w", r.image, err)
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	r.say("pushed %s@%s", r.image, digest)
	return nil
}

// onlyImage returns the image for all architectures that a layout holds.
func onlyImage(archive v1.ImageIndex) (v1.ImageIndex, error) {
	manifest, err := archive.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("the archive holds %d images, and not one", len(manifest.Manifests))
	}
	return archive.ImageIndex(manifest.Manifests[0].Digest)
}

// metadata are the labels of the images, and the annotations of their index.
// https://github.com/opencontainers/image-spec/blob/v1.1.1/annotations.md
func (r *release) metadata() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       componentName,
		"org.opencontainers.image.description": "Kueue " + r.baseVersion + " with delayed retries of admission checks (KEP-3258)",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.commit,
		"org.opencontainers.image.created":     r.createdFlag,
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
}

// buildIndex returns the image for all architectures.
func (r *release) buildIndex() (v1.ImageIndex, error) {
	system, err := r.systemLayer()
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range r.architectures {
		image, err := r.buildImage(system, architecture, r.managerPath(architecture), r.metadata())
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: architecture},
		}})
	}
	return mutate.Annotations(index, r.metadata()).(v1.ImageIndex), nil
}

// managerPath is where a manager was built.
func (r *release) managerPath(architecture string) string {
	return filepath.Join(r.managers, "linux-"+architecture, "manager")
}

// buildImage returns the image for one architecture: the files that all share,
// and the program.
func (r *release) buildImage(system v1.Layer, architecture, path string, metadata map[string]string) (v1.Image, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file := "/" + filepath.Base(path)
	program, err := r.layer(imageFile{name: file, mode: 0o755, content: content})
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: r.created}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: architecture,
		OS:           "linux",
		Created:      created,
		Config: v1.Config{
			User:       user,
			Entrypoint: []string{file},
			WorkingDir: "/",
			Env: []string{
				"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
				"SSL_CERT_FILE=" + rootsPath,
			},
			Labels: metadata,
		},
	})
	if err != nil {
		return nil, err
	}
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: system, History: v1.History{Created: created, CreatedBy: "users, CA certificates, license"}},
		mutate.Addendum{Layer: program, History: v1.History{Created: created, CreatedBy: file + " " + r.version}},
	)
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, metadata).(v1.Image), nil
}

// makeProgramImages writes an archive for Docker and kind with an image for each
// program: localhost/<its name>, for this machine's architecture.
func (r *release) makeProgramImages(programs []string, archive string) error {
	system, err := r.systemLayer()
	if err != nil {
		return err
	}
	images := map[name.Tag]v1.Image{}
	for _, program := range programs {
		tag, err := name.NewTag("localhost/" + filepath.Base(program) + ":" + r.version)
		if err != nil {
			return err
		}
		if images[tag], err = r.buildImage(system, runtime.GOARCH, program, nil); err != nil {
			return err
		}
	}
	if err := tarball.MultiWriteToFile(archive, images); err != nil {
		return err
	}
	return r.wrote(archive)
}

// systemLayer holds what a program needs besides itself.
func (r *release) systemLayer() (v1.Layer, error) {
	license, err := os.ReadFile(filepath.Join(r.tree, "LICENSE"))
	if err != nil {
		return nil, err
	}
	return r.layer(
		imageFile{name: "/LICENSE", mode: 0o644, content: license},
		imageFile{name: "/etc/group", mode: 0o644, content: []byte("root:x:0:\nnonroot:x:65532:\n")},
		imageFile{name: "/etc/passwd", mode: 0o644, content: []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		imageFile{name: rootsPath, mode: 0o644, content: caCertificates()},
		imageFile{name: "/tmp/", mode: 0o1777},
	)
}

// caCertificates returns Mozilla's root certificates, as the Go project keeps
// them in a module: pinned by its checksum, and the same on every machine.
// Roots that are trusted with constraints only are left out, because a file
// cannot say these.
func caCertificates() []byte {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			// Writing to a buffer does not fail.
			_ = pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return roots.Bytes()
}

// imageFile is a file in a layer, or a directory if its name ends in a slash;
// all belong to root.
type imageFile struct {
	name    string
	mode    int64
	content []byte
}

// layer returns a layer with the files, and the directories above them.
func (r *release) layer(files ...imageFile) (v1.Layer, error) {
	var content bytes.Buffer
	archive := tar.NewWriter(&content)
	written := map[string]bool{"/": true}
	var directory func(name string, mode int64) error
	directory = func(name string, mode int64) error {
		if written[name] {
			return nil
		}
		written[name] = true
		if err := directory(path.Dir(name), 0o755); err != nil {
			return err
		}
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name[1:] + "/", Mode: mode, ModTime: r.created})
	}
	for _, file := range files {
		if name, ok := strings.CutSuffix(file.name, "/"); ok {
			if err := directory(name, file.mode); err != nil {
				return nil, err
			}
			continue
		}
		if err := directory(path.Dir(file.name), 0o755); err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.name[1:], Mode: file.mode, Size: int64(len(file.content)), ModTime: r.created}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(file.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// imageRepository returns the full name of an image without its tag, as
// containerd, Docker and Kubernetes write it.
func imageRepository(tag name.Tag) string {
	if rest, ok := strings.CutPrefix(tag.Repository.Name(), name.DefaultRegistry+"/"); ok {
		return "docker.io/" + rest
	}
	return tag.Repository.Name()
}

func imageName(tag name.Tag) string { return imageRepository(tag) + ":" + tag.TagStr() }

// writeLayout writes the image as an OCI layout that names it, which
// containerd, and with it kind, imports for all architectures. Docker's classic
// image store reads manifest.json instead, which knows one architecture a tag:
// the first has the image's tag, another one its name behind it.
func (r *release) writeLayout(dir string, index v1.ImageIndex) error {
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          imageName(r.image),
		"org.opencontainers.image.ref.name": r.image.TagStr(),
	})); err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	blob := func(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }
	var archive tarball.Manifest
	for i, descriptor := range manifest.Manifests {
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			return err
		}
		content, err := image.Manifest()
		if err != nil {
			return err
		}
		tag := imageName(r.image)
		if i > 0 {
			tag += "-" + descriptor.Platform.Architecture
		}
		entry := tarball.Descriptor{Config: blob(content.Config.Digest), RepoTags: []string{tag}}
		for _, layer := range content.Layers {
			entry.Layers = append(entry.Layers, blob(layer.Digest))
		}
		archive = append(archive, entry)
	}
	encoded, err := json.Marshal(archive)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "manifest.json"), encoded, 0o644)
}
