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
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/yaml"
)

const (
	// upstreamImage is the image in the kustomization of the tree.
	upstreamImage = "us-central1-docker.pkg.dev/k8s-staging-images/kueue/kueue"
	// upstreamKustomization is what upstream releases as manifests.yaml.
	upstreamKustomization = "config/default"
	deploymentName        = "kueue-controller-manager"
	containerName         = "manager"
)

// makeManifests writes upstream's kustomization of the tree with our image,
// and with the gate if it is on.
func (r *release) makeManifests() error {
	resources, err := r.manifests()
	if err != nil {
		return err
	}
	content, err := resources.AsYaml()
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.manifestsPath(), content, 0o644); err != nil {
		return err
	}
	return r.wrote(r.manifestsPath())
}

func (r *release) manifests() (resmap.ResMap, error) {
	// The image may lie on the node only, as with "kind load"; upstream's
	// releases say this too.
	patch := []map[string]any{{"op": "replace", "path": "/spec/template/spec/containers/0/imagePullPolicy", "value": "IfNotPresent"}}
	if r.gate {
		patch = append(patch, map[string]any{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": gateArgument})
	}
	encoded, err := yaml.Marshal(patch)
	if err != nil {
		return nil, err
	}
	kustomization := types.Kustomization{
		Images: []types.Image{{Name: upstreamImage, NewName: imageRepository(r.image), NewTag: r.image.TagStr()}},
		Patches: []types.Patch{{
			Patch:  string(encoded),
			Target: &types.Selector{ResId: resid.NewResId(resid.Gvk{Kind: "Deployment"}, deploymentName)},
		}},
	}
	resources, err := kustomize(r.tree, kustomization)
	if err != nil {
		return nil, err
	}
	objects, err := asObjects(resources)
	if err != nil {
		return nil, err
	}
	// kustomize says nothing when an image or a patch finds no target.
	return resources, r.checkDeployment(objects, deploymentName)
}

// gateArgument switches the gate on, as upstream's own variants of the
// manifests and its chart do: by an argument, and not in the Configuration,
// because the manager refuses gates in both.
const gateArgument = "--feature-gates=" + gateName + "=true"

// kustomize builds upstream's kustomization of a tree, with more put over it.
func kustomize(tree string, over types.Kustomization) (resmap.ResMap, error) {
	tree, err := filepath.Abs(tree)
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "release-manifests-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	// kustomize wants relative paths.
	relative, err := filepath.Rel(work, filepath.Join(tree, upstreamKustomization))
	if err != nil {
		return nil, err
	}
	over.Resources = []string{relative}
	encoded, err := yaml.Marshal(over)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(work, "kustomization.yaml"), encoded, 0o644); err != nil {
		return nil, err
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), work)
	if err != nil {
		return nil, fmt.Errorf("kustomize %s of %s: %w", upstreamKustomization, tree, err)
	}
	return resources, nil
}

func asObjects(resources resmap.ResMap) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, resource := range resources.Resources() {
		content, err := resource.Map()
		if err != nil {
			return nil, err
		}
		objects = append(objects, &unstructured.Unstructured{Object: content})
	}
	return objects, nil
}

// checkDeployment holds the manager's Deployment to our image and gate.
func (r *release) checkDeployment(objects []*unstructured.Unstructured, name string) error {
	for _, object := range objects {
		if object.GetKind() != "Deployment" || object.GetName() != name {
			continue
		}
		var deployment appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
			return err
		}
		for _, container := range deployment.Spec.Template.Spec.Containers {
			if container.Name != containerName {
				continue
			}
			if want := imageName(r.image); container.Image != want {
				return fmt.Errorf("the manager's image is %s, and not %s", container.Image, want)
			}
			gate := false
			for _, argument := range container.Args {
				gate = gate || argument == gateArgument
				if strings.Contains(argument, gateName) && argument != gateArgument {
					return fmt.Errorf("the manager has the argument %s", argument)
				}
			}
			if gate != r.gate {
				return fmt.Errorf("the manager's arguments %q do not say that the gate is %s", container.Args, r.gateFlag)
			}
			return nil
		}
	}
	return fmt.Errorf("there is no Deployment %s with a container %s", name, containerName)
}
