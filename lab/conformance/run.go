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

// Package conformance tests the controllers of admission checks: it drives a
// controller, given as a command, through what can happen to a workload, and
// says in plain words what the controller does wrong.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/constants"

	"kueue-acrequeueafter/lab/controlplane"
	"kueue-acrequeueafter/lab/objects"
)

// Hook brings the surroundings of a controller into a state: a shell command, a
// file of manifests to apply, or both, the manifests first.
type Hook struct {
	Command, Manifests string
}

func (h Hook) empty() bool { return h == Hook{} }

// Options say what to test, and how.
type Options struct {
	// Check is the name of the AdmissionCheck.
	Check string
	// ControllerName is its spec.controllerName, unless the manifests have the
	// AdmissionCheck.
	ControllerName string
	// Command starts the controller, in a shell.
	Command string
	// As is the user that the controller acts as, a ServiceAccount for example.
	// Default: an administrator.
	As string
	// Setup is done first, before the controller is started.
	Setup Hook
	// Retry makes the controller answer Retry from then on, Ready Ready. Retry is
	// done again before each Retry that is wanted.
	Retry, Ready Hook
	// Job is a file with the Job that the controller is asked about, without a name and
	// without its queue. Default: one container that asks for CPU.
	Job string
	// AnswerWithin is how long an answer may take.
	AnswerWithin time.Duration
	// LongestDelay is how long it is waited for the end of a delay.
	LongestDelay time.Duration
	// Settle is how long the controller has to notice what a hook changed.
	Settle time.Duration
	// Out is the directory for the logs.
	Out string
	// Progress is told what happens.
	Progress io.Writer
}

const (
	// patience is how long Kueue may take for anything.
	patience = 20 * time.Second
	// second is a bit more than the resolution of the API's times.
	second = 1100 * time.Millisecond
)

// errCut ends a part that cannot go on; the reason is known.
var errCut = errors.New("cut short")

// validate returns an error that names all that is wrong with the options, as far as
// it can be told before anything is started.
func (o Options) validate() error {
	var wrong []error
	if o.Check == "" {
		wrong = append(wrong, errors.New("no -check is given: the name of the AdmissionCheck"))
	} else if problems := validation.IsDNS1123Label(o.Check); len(problems) > 0 {
		wrong = append(wrong, fmt.Errorf("-check %q is not a DNS label: %s", o.Check, strings.Join(problems, "; ")))
	}
	if o.Command == "" {
		wrong = append(wrong, errors.New("no -command is given: what starts the controller"))
	}
	for _, file := range []struct{ flag, name string }{
		{"-manifests", o.Setup.Manifests}, {"-retry-manifest", o.Retry.Manifests}, {"-ready-manifest", o.Ready.Manifests}, {"-job", o.Job},
	} {
		if file.name == "" {
			continue
		}
		if info, err := os.Stat(file.name); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", file.flag, err))
		} else if info.IsDir() {
			wrong = append(wrong, fmt.Errorf("%s: %s is a directory", file.flag, file.name))
		}
	}
	return errors.Join(wrong...)
}

// run is a run of the test.
type run struct {
	Options
	*recorder
	cluster                 *Cluster
	client                  *objects.Client
	namespace, queue, other string
	// kubeconfig and server lead to the proxy.
	kubeconfig, server string
	proxy              *proxy
	controller         *controlplane.Process
	// job is what all Jobs are made from.
	job   *batchv1.Job
	notes []string
	tried map[Rule]bool
	began time.Time
}

// Run tests a controller. An error says why it could not be tested. Several may
// be tested at a time in a cluster, each with a check of its own.
func Run(ctx context.Context, cluster *Cluster, options Options) (*Report, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	name := options.Check
	r := &run{
		Options:   options,
		recorder:  newRecorder(options.Check),
		cluster:   cluster,
		client:    cluster.client,
		namespace: name, queue: name, other: name + "-other-check",
		tried: map[Rule]bool{},
		began: time.Now(),
	}
	var err error
	if r.job, err = r.readJob(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return nil, err
	}
	if err := r.test(ctx); err != nil {
		return nil, err
	}
	r.settleRecord(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	report := &Report{Check: r.Check, Findings: Judge(&r.record), Untried: map[Rule]string{}, Notes: r.notes}
	for _, text := range ruleTexts {
		if !r.tried[text.rule] {
			report.Untried[text.rule] = r.record.Untried[text.rule]
			if report.Untried[text.rule] == "" {
				report.Untried[text.rule] = "the test did not get that far."
			}
		}
	}
	// What was broken has been tried, wherever that was.
	for _, finding := range report.Findings {
		if finding.Severity != Remark {
			delete(report.Untried, finding.Rule)
		}
	}
	return report, nil
}

func (r *run) test(ctx context.Context) error {
	requests, err := os.Create(filepath.Join(r.Out, "requests.log"))
	if err != nil {
		return err
	}
	defer requests.Close()
	// What it logs is appended, over restarts.
	if err := os.Remove(filepath.Join(r.Out, "controller.log")); err != nil && !os.IsNotExist(err) {
		return err
	}
	as := envtest.User{Name: r.As}
	if r.As == "" {
		as = envtest.User{Name: "controller-of-" + r.Check, Groups: []string{"system:masters"}}
	}
	user, err := r.cluster.AddUser(as)
	if err != nil {
		return err
	}
	if r.proxy, err = startProxy(user.Config(), r.namespace, r.recorder, r.client, requests); err != nil {
		return err
	}
	defer r.proxy.stop()
	r.kubeconfig, r.server = filepath.Join(r.Out, "kubeconfig"), r.proxy.address
	config, err := r.proxy.kubeconfig()
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.kubeconfig, config, 0o600); err != nil {
		return err
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	stopWatch, err := r.watch(ctx)
	if err != nil {
		return err
	}
	defer stopWatch()
	defer func() {
		if r.controller != nil {
			r.controller.Stop()
		}
	}()
	return r.play(ctx)
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.Progress, "%6.1fs  %s: %s\n", time.Since(r.began).Seconds(), r.Check, fmt.Sprintf(format, args...))
}

func (r *run) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.say("%s", text)
	if !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// try marks rules as tried: from here on, it would have been seen.
func (r *run) try(rules ...Rule) {
	for _, rule := range rules {
		r.tried[rule] = true
	}
}

func (r *run) untried(why string, rules ...Rule) {
	r.add(func(record *Record) {
		for _, rule := range rules {
			record.Untried[rule] = why
		}
	})
}

// expect waits for something that the controller has to do.
func (r *run) expect(ctx context.Context, rule Rule, workload, what string, limit time.Duration, condition func(*Record) bool) bool {
	start := time.Now()
	met := r.wait(ctx, limit, condition)
	r.expected(rule, workload, what, met, time.Since(start))
	return met
}

// expected records whether the controller did what it had to do, after a time.
func (r *run) expected(rule Rule, workload, what string, met bool, after time.Duration) {
	r.try(rule)
	r.add(func(record *Record) {
		record.Expectations = append(record.Expectations, Expectation{Rule: rule, What: what, Workload: workload, Met: met, After: after})
	})
	if !met {
		r.say("it did not %s within %s", what, after.Round(time.Second))
	}
}

// prepare makes the queue with the check under test and another one, of which
// the test itself is the controller. A ResourceFlavor and a ClusterQueue of the queue's name
// may be in the manifests.
func (r *run) prepare(ctx context.Context) error {
	create := func(obj client.Object) error {
		if err := eventually(ctx, func() error { return client.IgnoreAlreadyExists(r.client.Create(ctx, obj)) }); err != nil {
			return fmt.Errorf("create %T: %w", obj, err)
		}
		return nil
	}
	if err := create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}); err != nil {
		return err
	}
	if err := r.do(ctx, "setup", r.Setup); err != nil {
		return err
	}
	flavor := kueue.FlavorQuotas{Name: kueue.ResourceFlavorReference(r.queue)}
	covered := r.resources()
	for _, name := range covered {
		flavor.Resources = append(flavor.Resources, kueue.ResourceQuota{Name: name, NominalQuota: quota})
	}
	for _, obj := range []client.Object{
		&kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: r.queue}},
		&kueue.AdmissionCheck{ObjectMeta: metav1.ObjectMeta{Name: r.other}, Spec: kueue.AdmissionCheckSpec{ControllerName: "conformance"}},
		&kueue.ClusterQueue{
			ObjectMeta: metav1.ObjectMeta{Name: r.queue},
			Spec: kueue.ClusterQueueSpec{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: r.namespace}},
				ResourceGroups:    []kueue.ResourceGroup{{CoveredResources: covered, Flavors: []kueue.FlavorQuotas{flavor}}},
			},
		},
		&kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: r.queue}, Spec: kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(r.queue)}},
	} {
		if err := create(obj); err != nil {
			return err
		}
	}
	if err := r.configure(ctx, func(spec *kueue.ClusterQueueSpec) error {
		spec.AdmissionChecksStrategy = r.checks(true)
		return nil
	}); err != nil {
		return err
	}
	if err := r.openQueue(ctx, true); err != nil {
		return err
	}
	other := &kueue.AdmissionCheck{
		ObjectMeta: metav1.ObjectMeta{Name: r.other},
		Status: kueue.AdmissionCheckStatus{Conditions: []metav1.Condition{{
			Type: kueue.AdmissionCheckActive, Status: metav1.ConditionTrue, Reason: "Active", Message: "Part of the test", LastTransitionTime: metav1.Now(),
		}}},
	}
	if err := objects.ApplyStatus(ctx, r.client, other, "conformance"); err != nil {
		return err
	}
	check := &kueue.AdmissionCheck{ObjectMeta: metav1.ObjectMeta{Name: r.Check}, Spec: kueue.AdmissionCheckSpec{ControllerName: r.ControllerName}}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(check), check)
	if !apierrors.IsNotFound(err) {
		return err
	}
	if r.ControllerName == "" {
		return fmt.Errorf("there is no AdmissionCheck %q: put it into the manifests, or say in CONTROLLER_NAME what its spec.controllerName is to be", r.Check)
	}
	return r.client.Create(ctx, check)
}

// quota is what the queue has, more than all parts together need.
var quota = resource.MustParse("100")

func (r *run) checks(withCheck bool) *kueue.AdmissionChecksStrategy {
	checks := []kueue.AdmissionCheckStrategyRule{{Name: kueue.AdmissionCheckReference(r.other)}}
	if withCheck {
		checks = append(checks, kueue.AdmissionCheckStrategyRule{Name: kueue.AdmissionCheckReference(r.Check)})
	}
	return &kueue.AdmissionChecksStrategy{AdmissionChecks: checks}
}

// configure changes the ClusterQueue.
func (r *run) configure(ctx context.Context, change func(*kueue.ClusterQueueSpec) error) error {
	return eventually(ctx, func() error {
		cq := &kueue.ClusterQueue{}
		if err := r.client.Get(ctx, types.NamespacedName{Name: r.queue}, cq); err != nil {
			return err
		}
		if err := change(&cq.Spec); err != nil {
			return err
		}
		return r.client.Update(ctx, cq)
	})
}

// openQueue gives the queue CPU, which all Jobs ask for, or takes it away.
func (r *run) openQueue(ctx context.Context, open bool) error {
	nominal := resource.MustParse("0")
	if open {
		nominal = quota
	}
	return r.configure(ctx, func(spec *kueue.ClusterQueueSpec) error {
		covered := false
		for _, group := range spec.ResourceGroups {
			for _, flavor := range group.Flavors {
				for i := range flavor.Resources {
					if flavor.Resources[i].Name == corev1.ResourceCPU {
						flavor.Resources[i].NominalQuota, covered = nominal, true
					}
				}
			}
		}
		if !covered {
			return fmt.Errorf("the ClusterQueue %q of the manifests has no quota for cpu: each Job of the test asks for it, and a part takes it away", r.queue)
		}
		return nil
	})
}

// watch records every version of the Workloads.
func (r *run) watch(ctx context.Context) (func(), error) {
	w, err := r.client.Watch(ctx, &kueue.WorkloadList{}, client.InNamespace(r.namespace))
	if err != nil {
		return nil, err
	}
	go func() {
		for event := range w.ResultChan() {
			if wl, ok := event.Object.(*kueue.Workload); ok {
				version := Version{At: time.Now(), Workload: wl, Deleted: event.Type == "DELETED"}
				r.add(func(record *Record) { record.Versions[wl.Name] = append(record.Versions[wl.Name], version) })
			}
		}
	}()
	return w.Stop, nil
}

// settleRecord waits until the watch has delivered what was written last.
func (r *run) settleRecord(ctx context.Context) {
	r.wait(ctx, patience, func(record *Record) bool {
		return !slices.ContainsFunc(record.Writes, func(w Write) bool {
			return w.After != nil && !slices.ContainsFunc(record.Versions[w.Workload], func(v Version) bool {
				return v.Workload.ResourceVersion == w.After.ResourceVersion
			})
		})
	})
}

// startController starts the command.
func (r *run) startController() error {
	p, err := controlplane.StartProcess(controlplane.ProcessOptions{Log: filepath.Join(r.Out, "controller.log"), Env: r.env(r.kubeconfig)}, "/bin/sh", "-c", r.fill(r.Command))
	if err != nil {
		return err
	}
	r.controller = p
	return nil
}

// env is what a command finds in its environment.
func (r *run) env(kubeconfig string) []string {
	return []string{"KUBECONFIG=" + kubeconfig, "CHECK=" + r.Check, "NAMESPACE=" + r.namespace}
}

var later = regexp.MustCompile(`\{now\+([0-9a-z.]+)\}`)

// fill puts values in the place of {check}, {namespace}, {kubeconfig}, {server}, and
// of {now+5s} the time in five seconds.
func (r *run) fill(text string) string {
	text = strings.NewReplacer("{check}", r.Check, "{namespace}", r.namespace, "{kubeconfig}", r.kubeconfig, "{server}", r.server).Replace(text)
	return later.ReplaceAllStringFunc(text, func(match string) string {
		d, err := time.ParseDuration(later.FindStringSubmatch(match)[1])
		if err != nil {
			return match
		}
		return time.Now().Add(d).UTC().Format(time.RFC3339)
	})
}

// do runs a hook, as an administrator and past the proxy.
func (r *run) do(ctx context.Context, name string, hook Hook) error {
	if hook.Manifests != "" {
		file, err := os.ReadFile(hook.Manifests)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(r.fill(string(file))), 4096)
		for {
			obj := &unstructured.Unstructured{}
			if err := decoder.Decode(&obj.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return fmt.Errorf("%s: %s: %w", name, hook.Manifests, err)
			}
			if len(obj.Object) == 0 {
				continue
			}
			r.client.Speak(obj)
			if mapping, err := r.client.RESTMapper().RESTMapping(obj.GroupVersionKind().GroupKind(), obj.GroupVersionKind().Version); err == nil &&
				mapping.Scope.Name() == apimeta.RESTScopeNameNamespace && obj.GetNamespace() == "" {
				obj.SetNamespace(r.namespace)
			}
			if err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("conformance"), client.ForceOwnership); err != nil {
				return fmt.Errorf("%s: apply %s %s of %s: %w", name, obj.GetKind(), obj.GetName(), hook.Manifests, err)
			}
		}
	}
	if hook.Command != "" {
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", r.fill(hook.Command))
		cmd.Env = append(os.Environ(), r.env(r.cluster.Kubeconfig)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, out)
		}
	}
	return nil
}

// ask makes the controller answer Retry or Ready, if there is a way to.
func (r *run) ask(ctx context.Context, answer kueue.CheckState) error {
	hook, name := r.Retry, "retry"
	if answer == kueue.CheckStateReady {
		hook, name = r.Ready, "ready"
	}
	if hook.empty() {
		return nil
	}
	r.add(func(record *Record) { record.Moods = append(record.Moods, time.Now()) })
	if err := r.do(ctx, name, hook); err != nil {
		return err
	}
	return sleep(ctx, r.Settle)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// eventually tries until it succeeds.
func eventually(ctx context.Context, try func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(last, err)
	}
	return nil
}

// readJob returns what all Jobs are made from.
func (r *run) readJob() (*batchv1.Job, error) {
	job := &batchv1.Job{}
	if r.Job != "" {
		file, err := os.ReadFile(r.Job)
		if err != nil {
			return nil, fmt.Errorf("-job: %w", err)
		}
		if err := yaml.UnmarshalStrict([]byte(r.fill(string(file))), job); err != nil {
			return nil, fmt.Errorf("-job: %s: %w", r.Job, err)
		}
		if job.Kind != "Job" || job.APIVersion != batchv1.SchemeGroupVersion.String() {
			return nil, fmt.Errorf("-job: %s has a %s of %q: the test knows a Job of %s alone, and one in a file", r.Job, job.Kind, job.APIVersion, batchv1.SchemeGroupVersion)
		}
	}
	spec := &job.Spec.Template.Spec
	if spec.RestartPolicy == "" {
		spec.RestartPolicy = corev1.RestartPolicyNever
	}
	if len(spec.Containers) == 0 {
		spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/none"}}
	}
	return job, nil
}

// resources are what the Jobs ask for. CPU is one of them.
func (r *run) resources() []corev1.ResourceName {
	names := sets.New(corev1.ResourceCPU)
	for _, container := range r.job.Spec.Template.Spec.Containers {
		for _, list := range []corev1.ResourceList{container.Resources.Requests, container.Resources.Limits} {
			names.Insert(slices.Collect(maps.Keys(list))...)
		}
	}
	return sets.List(names)
}

// newJob returns a suspended Job for the queue.
func (r *run) newJob(name, cpu string) *batchv1.Job {
	job := r.job.DeepCopy()
	job.Namespace, job.Name, job.GenerateName = r.namespace, name, ""
	metav1.SetMetaDataLabel(&job.ObjectMeta, constants.QueueLabel, r.queue)
	container := &job.Spec.Template.Spec.Containers[0]
	if container.Resources.Requests == nil {
		container.Resources.Requests = corev1.ResourceList{}
	}
	container.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	delete(container.Resources.Limits, corev1.ResourceCPU)
	return job
}
