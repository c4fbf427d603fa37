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

package controlplane

import (
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// source is the folder of Kueue's sources, patched or plain. It says what the
// versions of Kueue do not have in common.
type source string

func (s source) config(path string) string {
	return filepath.Join(string(s), "config", "components", path)
}

// namePrefix is that of the objects in Kueue's manifests.
func (s source) namePrefix() (string, error) {
	var kustomization struct {
		NamePrefix string `json:"namePrefix"`
	}
	err := read(filepath.Join(string(s), "config", "default", "kustomization.yaml"), &kustomization)
	return kustomization.NamePrefix, err
}

func (s source) crds() string          { return s.config("crd/bases") }
func (s source) webhooks() string      { return s.config("webhook") }
func (s source) managerConfig() string { return s.config("manager/controller_manager_config.yaml") }

// configVersion is the apiVersion of the manager's configuration.
func (s source) configVersion() (string, error) {
	var config struct {
		APIVersion string `json:"apiVersion"`
	}
	if err := read(s.managerConfig(), &config); err != nil {
		return "", err
	}
	if config.APIVersion == "" {
		return "", fmt.Errorf("%s has no apiVersion", s.managerConfig())
	}
	return config.APIVersion, nil
}

// conversions are those of the CRDs whose versions are not alike, by their names: the
// patches of Kueue's manifests that have a webhook convert them.
func (s source) conversions() (map[string]*apiextensionsv1.CustomResourceConversion, error) {
	var kustomization struct {
		Patches []struct {
			Path string `json:"path"`
		} `json:"patches"`
	}
	if err := read(s.config("crd/kustomization.yaml"), &kustomization); err != nil {
		return nil, err
	}
	conversions := map[string]*apiextensionsv1.CustomResourceConversion{}
	for _, patch := range kustomization.Patches {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := read(s.config(filepath.Join("crd", patch.Path)), &crd); err != nil {
			return nil, err
		}
		if conversion := crd.Spec.Conversion; conversion != nil && conversion.Webhook != nil {
			conversions[crd.Name] = conversion
		}
	}
	return conversions, nil
}

func read(file string, into any) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
