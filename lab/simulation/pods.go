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
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"sigs.k8s.io/kueue/pkg/controller/constants"

	"kueue-acrequeueafter/lab/simulation/memapi"
)

// A plain pod is a job that cannot be stopped and started again: Kueue deletes it. A group
// waits for another one in the place of one that it has lost.

const (
	// What Kueue's webhook sets.
	managedPod = "kueue.x-k8s.io/managed"
	podGate    = "kueue.x-k8s.io/admission"
	podGroup   = "kueue.x-k8s.io/pod-group-name"
)

// createPod creates a pod, as the webhook leaves it. A group has one.
func (w *World) createPod(name string, labels map[string]string) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, Finalizers: []string{managedPod}, Labels: labels,
			Annotations: map[string]string{"kueue.x-k8s.io/role-hash": "role"},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:   corev1.RestartPolicyNever,
			SchedulingGates: []corev1.PodSchedulingGate{{Name: podGate}},
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			}}},
		},
	}
	if labels[podGroup] != "" {
		pod.Annotations["kueue.x-k8s.io/pod-group-total-count"] = "1"
	}
	w.note("pod %s is created in %s, group %q, priority %q", name, labels[constants.QueueLabel], labels[podGroup], labels[constants.WorkloadPriorityClassLabel])
	if err := w.admin.Create(context.Background(), pod); err != nil {
		panic(err)
	}
}

func (w *World) listPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, obj := range w.api.List(corev1.SchemeGroupVersion.WithResource("pods")) {
		pod := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, pod); err != nil {
			panic(err)
		}
		pods = append(pods, pod)
	}
	return pods
}

// replacePods has each group have a pod in the place of the one that it has lost.
func (w *World) replacePods() {
	lost := make(map[string]*corev1.Pod)
	has := make(map[string]bool)
	for _, pod := range w.listPods() {
		group := pod.Labels[podGroup]
		if group == "" {
			continue
		}
		if pod.Status.Phase == corev1.PodFailed {
			lost[group] = pod
		} else {
			has[group] = true
		}
	}
	for _, group := range slices.Sorted(maps.Keys(lost)) {
		if !has[group] {
			w.replaced++
			w.createPod(fmt.Sprintf("%s-%d", group, w.replaced), maps.Clone(lost[group].Labels))
		}
	}
}

// runPods does what the kubelet does, and returns whether there was anything to do.
func (w *World) runPods() bool {
	changed := false
	for _, pod := range w.listPods() {
		phase, ready := corev1.PodRunning, corev1.ConditionTrue
		switch {
		case len(pod.Spec.SchedulingGates) > 0 || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
			continue
		case pod.DeletionTimestamp != nil:
			phase, ready = corev1.PodFailed, corev1.ConditionFalse
		case w.judge.unready[pod.Name], w.judge.unready[pod.Labels[podGroup]]:
			ready = corev1.ConditionFalse
		}
		changed = w.setPod(pod, phase, ready) || changed
	}
	return changed
}

// finishPod has a pod that runs succeed, or one of a group.
func (w *World) finishPod(name string) {
	for _, pod := range w.listPods() {
		if (pod.Name == name || pod.Labels[podGroup] == name) && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			w.setPod(pod, corev1.PodSucceeded, corev1.ConditionFalse)
		}
	}
}

func (w *World) setPod(pod *corev1.Pod, phase corev1.PodPhase, ready corev1.ConditionStatus) bool {
	isReady := func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }
	i := slices.IndexFunc(pod.Status.Conditions, isReady)
	if pod.Status.Phase == phase && i >= 0 && pod.Status.Conditions[i].Status == ready {
		return false
	}
	pod.Status.Phase = phase
	pod.Status.Conditions = append(slices.DeleteFunc(pod.Status.Conditions, isReady), corev1.PodCondition{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()})
	if err := w.admin.Status().Update(context.Background(), pod); err != nil {
		return false
	}
	w.note("pod %s is %s, ready: %s", pod.Name, phase, ready)
	return true
}

// pod: Kueue deletes those that run, and leaves those that wait.
func (j *judge) pod(write memapi.Write) {
	if write.Old == nil || write.Old.GetDeletionTimestamp() != nil || write.New.GetDeletionTimestamp() == nil || !strings.HasPrefix(write.Caller, "kueue-") {
		return
	}
	j.seenEvents["pods deleted"]++
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(write.Old.Object, pod); err != nil {
		panic(err)
	}
	if len(pod.Spec.SchedulingGates) > 0 && !j.world.config.Retention {
		j.fail("rule 3, waiting pod", "%s deletes %s", write.Caller, pod.Name)
	}
}
