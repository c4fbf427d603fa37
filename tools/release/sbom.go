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
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

// The module whose certificates are in the image.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// makeSBOM writes down what the image holds: the managers, with the modules
// that Go built into them, and the CA certificates. Go records the modules in
// the binary, so that nothing has to be guessed or fetched.
func (r *release) makeSBOM(image v1.Hash) error {
	document, err := r.sbom(image)
	if err != nil {
		return err
	}
	if err := writeFile(r.sbomPath(), func(w io.Writer) error { return json.Write(document, w, json.Indent("  ")) }); err != nil {
		return err
	}
	return r.wrote(r.sbomPath())
}

func (r *release) sbom(image v1.Hash) (*spdx.Document, error) {
	b := r.newBill(componentName, image.Hex)
	whole := newPackage("Image", componentName, r.version)
	whole.PrimaryPackagePurpose = "CONTAINER"
	whole.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: image.Hex}}
	whole.PackageExternalReferences = []*v2_3.PackageExternalReference{purl("pkg:oci/" + componentName + "@" + strings.Replace(image.String(), ":", "%3A", 1) + "?tag=" + r.version)}
	whole.PackageLicenseDeclared = "Apache-2.0"
	b.Packages = append(b.Packages, whole)
	relate(b.Document, "DOCUMENT", common.TypeRelationshipDescribe, whole.PackageSPDXIdentifier)

	for _, architecture := range r.architectures {
		if err := b.addProgram(r.managerPath(architecture), "Manager-"+architecture, entrypoint, architecture, whole.PackageSPDXIdentifier, common.TypeRelationshipContains); err != nil {
			return nil, err
		}
	}
	roots, err := ownModule(rootsModule)
	if err != nil {
		return nil, err
	}
	if err := b.addModule(whole.PackageSPDXIdentifier, common.TypeRelationshipContains, roots); err != nil {
		return nil, err
	}
	return b.Document, spdxlib.ValidateDocument(b.Document)
}

// bill is an SBOM in the making.
type bill struct {
	*spdx.Document
	version string
	modules map[string]*spdx.Package // by path and version
}

// newBill returns an empty one. Its namespace ends with a digest of what it is of.
func (r *release) newBill(name, digest string) *bill {
	return &bill{version: r.version, modules: map[string]*spdx.Package{}, Document: &spdx.Document{
		SPDXVersion:       v2_3.Version,
		DataLicense:       v2_3.DataLicense,
		SPDXIdentifier:    "DOCUMENT",
		DocumentName:      name + "-" + r.version,
		DocumentNamespace: "https://spdx.org/spdxdocs/" + name + "-" + r.version + "-" + digest,
		CreationInfo: &spdx.CreationInfo{
			Created:  r.created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "kueue-acrequeueafter/tools/release"}},
		},
	}}
}

// addProgram adds a program that Go built, and its modules.
func (b *bill) addProgram(path, id, fileName, architecture string, from common.ElementID, relationship string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	sum, err := fileSum(path)
	if err != nil {
		return err
	}
	program := newPackage(id, info.Main.Path+" (linux/"+architecture+")", b.version)
	program.PrimaryPackagePurpose = "APPLICATION"
	program.PackageFileName = fileName
	program.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	program.PackageLicenseDeclared = "Apache-2.0"
	b.Packages = append(b.Packages, program)
	relate(b.Document, from, relationship, program.PackageSPDXIdentifier)
	if err := b.addModule(program.PackageSPDXIdentifier, common.TypeRelationshipDependsOn,
		&debug.Module{Path: "stdlib", Version: strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")}); err != nil {
		return err
	}
	for _, module := range info.Deps {
		if err := b.addModule(program.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, effective(module)); err != nil {
			return err
		}
	}
	return nil
}

// addModule adds a module, once.
func (b *bill) addModule(from common.ElementID, relationship string, module *debug.Module) error {
	key := module.Path + "@" + module.Version
	pkg := b.modules[key]
	if pkg == nil {
		var err error
		if pkg, err = modulePackage(fmt.Sprintf("Module-%d", len(b.modules)+1), module); err != nil {
			return err
		}
		b.modules[key] = pkg
		b.Packages = append(b.Packages, pkg)
	}
	relate(b.Document, from, relationship, pkg.PackageSPDXIdentifier)
	return nil
}

// ownModule returns a module that this program is built with.
func ownModule(path string) (*debug.Module, error) {
	if info, ok := debug.ReadBuildInfo(); ok {
		if i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == path }); i >= 0 {
			return effective(info.Deps[i]), nil
		}
	}
	return nil, fmt.Errorf("this program does not know its version of %s", path)
}

// effective returns what is built: the replacement, where there is one.
func effective(module *debug.Module) *debug.Module {
	if module.Replace != nil {
		return module.Replace
	}
	return module
}

func newPackage(id, name, version string) *spdx.Package {
	return &spdx.Package{
		PackageSPDXIdentifier:   common.ElementID(id),
		PackageName:             name,
		PackageVersion:          version,
		PackageDownloadLocation: "NOASSERTION",
		PackageLicenseConcluded: "NOASSERTION",
		PackageLicenseDeclared:  "NOASSERTION",
		PackageCopyrightText:    "NOASSERTION",
	}
}

// modulePackage describes a Go module, with the checksum that go.sum has.
func modulePackage(id string, module *debug.Module) (*spdx.Package, error) {
	pkg := newPackage(id, module.Path, module.Version)
	pkg.PackageExternalReferences = []*v2_3.PackageExternalReference{
		purl("pkg:golang/" + module.Path + "@" + strings.ReplaceAll(module.Version, "+", "%2B")),
	}
	if sum, ok := strings.CutPrefix(module.Sum, "h1:"); ok {
		decoded, err := base64.StdEncoding.DecodeString(sum)
		if err != nil {
			return nil, fmt.Errorf("the checksum of %s: %w", module.Path, err)
		}
		pkg.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: hex.EncodeToString(decoded)}}
		pkg.PackageComment = "The checksum is that of go.sum: over the list of the module's files and their sums."
	}
	return pkg, nil
}

func purl(locator string) *v2_3.PackageExternalReference {
	return &v2_3.PackageExternalReference{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: locator}
}

func relate(document *spdx.Document, from common.ElementID, relationship string, to common.ElementID) {
	document.Relationships = append(document.Relationships, &spdx.Relationship{
		RefA: common.DocElementID{ElementRefID: from}, Relationship: relationship, RefB: common.DocElementID{ElementRefID: to},
	})
}
