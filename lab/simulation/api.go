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

package simulation

import (
	"fmt"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentbaseconfig "k8s.io/component-base/config/v1alpha1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"os"
	"path/filepath"
	ctrl "sigs.k8s.io/controller-runtime"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	kueuealpha "sigs.k8s.io/kueue/apis/kueue/v1alpha1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kueue-acrequeueafter/lab/simulation/memapi"
)

const systemNamespace = "kueue-system"

var (
	scheme    = runtime.NewScheme()
	mapper    = meta.NewDefaultRESTMapper(nil)
	resources []*memapi.Resource

	requests  = autoscaling.SchemeGroupVersion.WithResource("provisioningrequests")
	workloads = kueue.SchemeGroupVersion.WithResource("workloads")
)

var logger = func() logr.Logger {
	if os.Getenv("SIMULATION_LOG") == "" {
		return logr.Discard()
	}
	return funcr.New(func(prefix, args string) { fmt.Println(prefix, args) }, funcr.Options{Verbosity: 5})
}()

var leaderElection = componentbaseconfig.LeaderElectionConfiguration{LeaderElect: ptr.To(true), LeaseDuration: metav1.Duration{Duration: 15 * time.Second}}

func init() {
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(kueue.AddToScheme(scheme))
	utilruntime.Must(kueuealpha.AddToScheme(scheme))
	utilruntime.Must(autoscaling.AddToScheme(scheme))
	utilruntime.Must(jobsetapi.AddToScheme(scheme))
	utilruntime.Must(loadResources(treeDir))
}

// loadResources defines what the API serves: Kueue's CRDs from the tree, and
// what else its controllers watch.
func loadResources(tree string) error {
	crds, err := filepath.Glob(filepath.Join(tree, "config/components/crd/bases/kueue.x-k8s.io_*.yaml"))
	if err != nil || len(crds) == 0 {
		return fmt.Errorf("no CRDs in %s (%v): run make tree", tree, err)
	}
	for _, file := range crds {
		r, err := memapi.FromCRD(file, kueue.SchemeGroupVersion.Version)
		if err != nil {
			return err
		}
		// The rules are about workloads.
		r.Plain = r.GVK.Kind != "Workload"
		resources = append(resources, r)
	}
	for _, b := range []struct {
		gv            schema.GroupVersion
		kind, plural  string
		global, plain bool
	}{
		{gv: batchv1.SchemeGroupVersion, kind: "Job", plural: "jobs"},
		{gv: corev1.SchemeGroupVersion, kind: "Namespace", plural: "namespaces", global: true},
		{gv: corev1.SchemeGroupVersion, kind: "Node", plural: "nodes", global: true},
		{gv: corev1.SchemeGroupVersion, kind: "Pod", plural: "pods"},
		{gv: corev1.SchemeGroupVersion, kind: "Secret", plural: "secrets", plain: true},
		{gv: corev1.SchemeGroupVersion, kind: "LimitRange", plural: "limitranges", plain: true},
		{gv: corev1.SchemeGroupVersion, kind: "PodTemplate", plural: "podtemplates", plain: true},
		{gv: corev1.SchemeGroupVersion, kind: "Event", plural: "events", plain: true},
		{gv: schedulingv1.SchemeGroupVersion, kind: "PriorityClass", plural: "priorityclasses", global: true, plain: true},
		{gv: nodev1.SchemeGroupVersion, kind: "RuntimeClass", plural: "runtimeclasses", global: true, plain: true},
		{gv: coordinationv1.SchemeGroupVersion, kind: "Lease", plural: "leases", plain: true},
		{gv: jobsetapi.SchemeGroupVersion, kind: "JobSet", plural: "jobsets"},
		{gv: autoscaling.SchemeGroupVersion, kind: "ProvisioningRequest", plural: "provisioningrequests"},
	} {
		r, err := memapi.Builtin(b.gv.WithKind(b.kind), b.plural, !b.global, !b.plain)
		if err != nil {
			return err
		}
		r.Plain, r.Forget = true, b.kind == "Event"
		resources = append(resources, r)
	}
	for _, r := range resources {
		scope := meta.RESTScopeNamespace
		if !r.Namespaced {
			scope = meta.RESTScopeRoot
		}
		mapper.AddSpecific(r.GVK, r.GVR(), r.GVK.GroupVersion().WithResource(r.Plural), scope)
	}
	return nil
}
