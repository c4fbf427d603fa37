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
	document := &spdx.Document{
		SPDXVersion:       v2_3.Version,
		DataLicense:       v2_3.DataLicense,
		SPDXIdentifier:    "DOCUMENT",
		DocumentName:      componentName + "-" + r.version,
		DocumentNamespace: "https://spdx.org/spdxdocs/" + componentName + "-" + r.version + "-" + image.Hex,
		CreationInfo: &spdx.CreationInfo{
			Created:  r.created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "kueue-acrequeueafter/tools/release"}},
		},
	}
	whole := newPackage("Image", componentName, r.version)
	whole.PrimaryPackagePurpose = "CONTAINER"
	whole.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: image.Hex}}
	whole.PackageExternalReferences = []*v2_3.PackageExternalReference{purl("pkg:oci/" + componentName + "@" + strings.Replace(image.String(), ":", "%3A", 1) + "?tag=" + r.version)}
	whole.PackageLicenseDeclared = "Apache-2.0"
	document.Packages = append(document.Packages, whole)
	relate(document, "DOCUMENT", common.TypeRelationshipDescribe, whole.PackageSPDXIdentifier)

	modules := map[string]*spdx.Package{} // by path and version
	addModule := func(from common.ElementID, relationship string, module *debug.Module) error {
		key := module.Path + "@" + module.Version
		pkg := modules[key]
		if pkg == nil {
			var err error
			if pkg, err = modulePackage(fmt.Sprintf("Module-%d", len(modules)+1), module); err != nil {
				return err
			}
			modules[key] = pkg
			document.Packages = append(document.Packages, pkg)
		}
		relate(document, from, relationship, pkg.PackageSPDXIdentifier)
		return nil
	}
	for _, architecture := range r.architectures {
		info, err := buildinfo.ReadFile(r.managerPath(architecture))
		if err != nil {
			return nil, err
		}
		sum, err := fileSum(r.managerPath(architecture))
		if err != nil {
			return nil, err
		}
		manager := newPackage("Manager-"+architecture, info.Main.Path+" (linux/"+architecture+")", r.version)
		manager.PrimaryPackagePurpose = "APPLICATION"
		manager.PackageFileName = entrypoint
		manager.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
		manager.PackageLicenseDeclared = "Apache-2.0"
		document.Packages = append(document.Packages, manager)
		relate(document, whole.PackageSPDXIdentifier, common.TypeRelationshipContains, manager.PackageSPDXIdentifier)
		if err := addModule(manager.PackageSPDXIdentifier, common.TypeRelationshipDependsOn,
			&debug.Module{Path: "stdlib", Version: strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")}); err != nil {
			return nil, err
		}
		for _, module := range info.Deps {
			if err := addModule(manager.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, effective(module)); err != nil {
				return nil, err
			}
		}
	}
	roots, err := ownModule(rootsModule)
	if err != nil {
		return nil, err
	}
	if err := addModule(whole.PackageSPDXIdentifier, common.TypeRelationshipContains, roots); err != nil {
		return nil, err
	}
	return document, spdxlib.ValidateDocument(document)
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
