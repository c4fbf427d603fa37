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

package kit

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// knownVersions are the versions of Kueue's API that can be read and written with
// the types of v1beta2, the newest first.
var knownVersions = []string{"v1beta2", "v1beta1"}

// AddToScheme adds Kueue's types to the scheme, in the newest version that the API
// server serves and the kit knows. It is called before the manager is created, in
// place of the AddToScheme of Kueue's package.
//
// The types are those of v1beta2. All that an admission check reads and writes is
// the same in v1beta1. Where only v1beta1 is served, fields that v1beta2 has
// otherwise are empty, such as the priority class of a Workload, its topology
// assignment and the cohort of a ClusterQueue. An Update would remove them: use
// Patch or Apply.
func AddToScheme(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme) error {
	c, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	group := &metav1.APIGroup{}
	err = c.RESTClient().Get().AbsPath("/apis", kueue.SchemeGroupVersion.Group).Do(ctx).Into(group)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("asking for the versions of Kueue's API: %w", err)
	}
	var served []string
	for _, version := range group.Versions {
		served = append(served, version.Version)
	}
	for _, version := range knownVersions {
		if slices.Contains(served, version) {
			return addTypes(scheme, version)
		}
	}
	return fmt.Errorf("%s is not installed, or of a version that this does not know: it serves %v, known: %s",
		kueue.SchemeGroupVersion.Group, served, strings.Join(knownVersions, ", "))
}

func addTypes(scheme *runtime.Scheme, version string) error {
	types := runtime.NewScheme()
	if err := kueue.AddToScheme(types); err != nil {
		return err
	}
	served := schema.GroupVersion{Group: kueue.SchemeGroupVersion.Group, Version: version}
	for kind, typ := range types.KnownTypes(kueue.SchemeGroupVersion) {
		scheme.AddKnownTypeWithName(served.WithKind(kind), reflect.New(typ).Interface().(runtime.Object))
	}
	metav1.AddToGroupVersion(scheme, served)
	return nil
}
