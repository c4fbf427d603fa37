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

package kit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kueue-acrequeueafter/kit"
)

const (
	// longDelay is longer than any test takes.
	longDelay = 10 * time.Minute
	timeout   = time.Minute
)

// TestWithKueue runs checks on the kit against a real API server and Kueue's
// manager. KIT_BIN_DIR is the directory of etcd, kube-apiserver, the manager and
// the program cluster, which starts them; KIT_TREE_DIR is that of Kueue's sources,
// for its CRDs. Or KIT_KUBECONFIG names a cluster that has Kueue.
func TestWithKueue(t *testing.T) {
	cfg := kueueConfig(t)
	cfg.WarningHandler = warningHandler{t}
	t.Run("as it is", func(t *testing.T) { testWithKueue(t, cfg) })
	t.Run("without v1beta1", func(t *testing.T) {
		if os.Getenv("KIT_KUBECONFIG") != "" {
			t.Skip("Nothing is changed in the cluster of KIT_KUBECONFIG but its objects")
		}
		stopV1beta1(newScenario(t, cfg))
		testRetries(newScenario(t, cfg))
	})
}

func testWithKueue(t *testing.T, cfg *rest.Config) {
	for name, test := range map[string]func(*scenario){
		"retries with and without a delay":                 testRetries,
		"the workload changes while the check decides":     testChangeMeanwhile,
		"two checks of a workload":                         testTwoChecks,
		"an earlier answer is forgotten":                   testForget,
		"the deadline is moved, and the request withdrawn": testMoveDeadline,
		"a delay that another field manager owns as well":  testCoOwnedDelay,
		"a source changes while a workload waits":          testSource,
		"asked again while pending, and after errors":      testAskAgain,
		"the check is inactive until it can be used":       testInactive,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newScenario(t, cfg))
		})
	}
}

// warningHandler takes the use of a deprecated version for a mistake.
type warningHandler struct{ *testing.T }

func (w warningHandler) HandleWarningHeader(_ int, _, text string) {
	if strings.Contains(text, "deprecated") {
		w.Error(text)
	}
}

// stopV1beta1 has the API server serve v1beta2 alone.
func stopV1beta1(s *scenario) {
	s.Helper()
	if gvk, err := s.client.GroupVersionKindFor(&kueue.Workload{}); err != nil || gvk.Version != "v1beta2" {
		s.Skipf("%v is the newest that this Kueue has: %v", gvk, err)
	}
	crds := &unstructured.UnstructuredList{}
	crds.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	if err := s.client.List(s.Context(), crds); err != nil {
		s.Fatal(err)
	}
	stop := client.RawPatch(types.JSONPatchType, []byte(`[
		{"op": "test", "path": "/spec/versions/0/name", "value": "v1beta1"},
		{"op": "replace", "path": "/spec/versions/0/served", "value": false}
	]`))
	for i := range crds.Items {
		if crd := &crds.Items[i]; strings.HasSuffix(crd.GetName(), "."+kueue.SchemeGroupVersion.Group) {
			if err := s.client.Patch(s.Context(), crd, stop); err != nil {
				s.Fatal(err)
			}
		}
	}
	s.eventually("stop v1beta1", func(context.Context) error {
		_, err := discovery.NewDiscoveryClientForConfigOrDie(s.cfg).ServerResourcesForGroupVersion("kueue.x-k8s.io/v1beta1")
		if err == nil {
			return errors.New("it is served")
		}
		return client.IgnoreNotFound(err)
	})
}

func kueueConfig(t *testing.T) *rest.Config {
	t.Helper()
	kubeconfig := os.Getenv("KIT_KUBECONFIG")
	if kubeconfig == "" {
		binDir, treeDir := os.Getenv("KIT_BIN_DIR"), os.Getenv("KIT_TREE_DIR")
		if binDir == "" || treeDir == "" {
			t.Skip("Neither KIT_KUBECONFIG nor KIT_BIN_DIR and KIT_TREE_DIR are set: run make test-kit")
		}
		kubeconfig = startCluster(t, binDir, treeDir)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// startCluster starts a cluster that lasts as long as the test, and returns the
// path of its kubeconfig.
func startCluster(t *testing.T, binDir, treeDir string) string {
	t.Helper()
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "cluster"), "--bin-dir="+binDir, "--tree-dir="+treeDir, "--out="+out)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "The cluster is ready") {
			drained := make(chan struct{})
			go func() {
				defer close(drained)
				_, _ = io.Copy(io.Discard, output)
			}()
			t.Cleanup(func() {
				<-drained
				_ = cmd.Wait()
			})
			return filepath.Join(out, "kubeconfig")
		}
	}
	t.Fatalf("The cluster does not start: %v", cmd.Wait())
	return ""
}

// scenario is a namespace with a queue, a job, and a controller on the kit.
type scenario struct {
	*testing.T
	cfg    *rest.Config
	client client.WithWatch
	// namespace has the names of the check and a second one too.
	namespace, check, second string
	controllerName           string
	writer                   *kit.Writer
	// calls counts those of Decide.
	calls atomic.Int32

	// key is that of the workload, whose versions were all seen.
	key      client.ObjectKey
	watch    watch.Interface
	versions []*kueue.Workload
}

func newScenario(t *testing.T, cfg *rest.Config) *scenario {
	t.Helper()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	if err := kit.AddToScheme(t.Context(), cfg, scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario{T: t, cfg: cfg, client: c}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kit-"}}
	s.create(namespace)
	s.namespace = namespace.Name
	s.check, s.second = "a-"+s.namespace, "b-"+s.namespace
	s.controllerName = "example.com/" + s.namespace
	s.writer = &kit.Writer{Client: c, Reader: c, FieldManager: s.controllerName}
	return s
}

func (s *scenario) create(obj client.Object) {
	s.Helper()
	s.eventually(fmt.Sprintf("create %T", obj), func(ctx context.Context) error { return s.client.Create(ctx, obj) })
}

func (s *scenario) eventually(what string, try func(context.Context) error) {
	s.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(s.Context(), 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, nil
	}); err != nil {
		s.Fatalf("Could not %s: %v", what, errors.Join(last, err))
	}
}

// begin starts the controller, and creates a job in a queue with the given checks.
func (s *scenario) begin(opts kit.Options, checks ...string) {
	s.Helper()
	decide := opts.Decide
	opts.ControllerName = s.controllerName
	opts.Decide = func(ctx context.Context, wl *kueue.Workload, check kit.Check) (kit.Verdict, error) {
		s.calls.Add(1)
		if !isTrue(wl, kueue.WorkloadQuotaReserved) || isTrue(wl, kueue.WorkloadEvicted) || check.State.State != kueue.CheckStatePending {
			s.Errorf("Asked without quota, or while evicted, or after an answer: %+v", wl.Status)
		}
		return decide(ctx, wl, check)
	}
	s.startController(opts)

	queue := &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: kueue.ClusterQueueSpec{
			NamespaceSelector: &metav1.LabelSelector{},
			ResourceGroups: []kueue.ResourceGroup{{
				CoveredResources: []corev1.ResourceName{corev1.ResourceCPU},
				Flavors: []kueue.FlavorQuotas{{
					Name:      kueue.ResourceFlavorReference(s.namespace),
					Resources: []kueue.ResourceQuota{{Name: corev1.ResourceCPU, NominalQuota: resource.MustParse("1")}},
				}},
			}},
		},
	}
	strategy := &kueue.AdmissionChecksStrategy{}
	queue.Spec.AdmissionChecksStrategy = strategy
	for _, check := range checks {
		s.create(&kueue.AdmissionCheck{
			ObjectMeta: metav1.ObjectMeta{Name: check},
			Spec:       kueue.AdmissionCheckSpec{ControllerName: s.controllerName},
		})
		strategy.AdmissionChecks = append(strategy.AdmissionChecks, kueue.AdmissionCheckStrategyRule{Name: kueue.AdmissionCheckReference(check)})
	}
	s.create(&kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	s.create(queue)
	s.create(&kueue.LocalQueue{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "queue"},
		Spec:       kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(queue.Name)},
	})

	versions, err := s.client.Watch(s.Context(), &kueue.WorkloadList{}, client.InNamespace(s.namespace))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(versions.Stop)
	s.watch = versions
	s.create(&batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "job", Labels: map[string]string{"kueue.x-k8s.io/queue-name": "queue"}},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/none",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
			}},
		}}},
	})
	s.key = client.ObjectKeyFromObject(s.await("there", func(*kueue.Workload) bool { return true }))
}

func (s *scenario) startController(opts kit.Options) {
	s.Helper()
	mgr, err := ctrl.NewManager(s.cfg, ctrl.Options{Scheme: s.client.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err == nil {
		err = kit.Setup(mgr, opts)
	}
	if err != nil {
		s.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := mgr.Start(s.Context()); err != nil {
			s.Errorf("The controller has failed: %v", err)
		}
	}()
	s.Cleanup(func() { <-stopped })
}

// await reads on until a version of the workload satisfies the condition.
func (s *scenario) await(what string, condition func(wl *kueue.Workload) bool) *kueue.Workload {
	s.Helper()
	deadline := time.After(timeout)
	for {
		select {
		case event := <-s.watch.ResultChan():
			wl, isWorkload := event.Object.(*kueue.Workload)
			if !isWorkload {
				s.Fatalf("Unexpected event %v", event)
			}
			s.versions = append(s.versions, wl)
			if condition(wl) {
				return wl
			}
		case <-deadline:
			s.Fatalf("The workload is not %s; its versions: %+v", what, s.versions)
		}
	}
}

func (s *scenario) awaitState(state kueue.CheckState) *kueue.Workload {
	s.Helper()
	return s.await(string(state), func(wl *kueue.Workload) bool { return stateOf(wl, s.check).State == state })
}

func (s *scenario) awaitAdmitted() *kueue.Workload {
	s.Helper()
	return s.await("admitted", func(wl *kueue.Workload) bool {
		return isTrue(wl, kueue.WorkloadAdmitted) && !isTrue(wl, kueue.WorkloadEvicted)
	})
}

// get reads the workload.
func (s *scenario) get() *kueue.Workload {
	s.Helper()
	wl := &kueue.Workload{}
	if err := s.client.Get(s.Context(), s.key, wl); err != nil {
		s.Fatal(err)
	}
	return wl
}

// say writes the verdict outside of the controller's functions.
func (s *scenario) say(verdict kit.Verdict) {
	s.Helper()
	if err := s.writer.SetState(s.Context(), s.key, kueue.AdmissionCheckReference(s.check), func(*kueue.Workload, kueue.AdmissionCheckState) kit.Verdict {
		return verdict
	}); err != nil {
		s.Fatal(err)
	}
}

// sayInVain says what is written already, in another second: a write would change the time.
func (s *scenario) sayInVain(verdict kit.Verdict) {
	s.Helper()
	now := s.writer.Clock
	s.writer.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(time.Minute))
	defer func() { s.writer.Clock = now }()
	before := s.get()
	s.say(verdict)
	after := s.get()
	if diff := cmp.Diff(stateOf(before, s.check), stateOf(after, s.check)); diff != "" {
		s.Errorf("Written again: %+v\n%s", verdict, diff)
	}
	if after.ResourceVersion != before.ResourceVersion {
		s.Logf("Somebody else wrote the workload meanwhile:\n%s", cmp.Diff(before, after))
	}
}

func isTrue(wl *kueue.Workload, condition string) bool {
	return apimeta.IsStatusConditionTrue(wl.Status.Conditions, condition)
}

func isWaiting(wl *kueue.Workload) bool {
	return !isTrue(wl, kueue.WorkloadQuotaReserved) && apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued) && !requeueAt(wl).IsZero()
}

func isRequeued(wl *kueue.Workload) bool {
	return isTrue(wl, kueue.WorkloadEvicted) && isTrue(wl, kueue.WorkloadRequeued)
}

func requeueAt(wl *kueue.Workload) time.Time {
	if wl.Status.RequeueState == nil || wl.Status.RequeueState.RequeueAt == nil {
		return time.Time{}
	}
	return wl.Status.RequeueState.RequeueAt.Time
}

func stateOf(wl *kueue.Workload, check string) kueue.AdmissionCheckState {
	return ptr.Deref(kit.StateOf(wl, kueue.AdmissionCheckReference(check)), kueue.AdmissionCheckState{})
}

// passAt has the check succeed after so many retries, for which it asks with the
// given delay.
func passAt(retries int32, delay time.Duration) kit.Func {
	return func(_ context.Context, _ *kueue.Workload, check kit.Check) (kit.Verdict, error) {
		if check.Retries() < retries {
			return kit.Retry(delay, "not yet"), nil
		}
		return kit.Ready("now"), nil
	}
}

func testRetries(s *scenario) {
	s.begin(kit.Options{Decide: func(_ context.Context, _ *kueue.Workload, check kit.Check) (kit.Verdict, error) {
		switch check.Retries() {
		case 0:
			return kit.Retry(1500*time.Millisecond, "in two seconds"), nil
		case 1:
			return kit.Retry(0, "at once"), nil
		default:
			return kit.Ready("now"), nil
		}
	}}, s.check)

	said := stateOf(s.awaitState(kueue.CheckStateRetry), s.check)
	if ptr.Deref(said.RequeueAfterSeconds, 0) != 2 || said.RetryCount != nil {
		s.Errorf("Asked for something else than 2 s: %+v", said)
	}
	from := len(s.versions)
	waiting := s.await("waiting", isWaiting)
	requeued := s.await("requeued", isRequeued)
	for _, version := range s.versions[from : len(s.versions)-1] {
		if got := stateOf(version, s.check); !equality.Semantic.DeepEqual(got, said) {
			s.Errorf("The check was written while the workload waits: %+v", got)
		}
	}
	if count := ptr.Deref(stateOf(requeued, s.check).RetryCount, 0); count != 1 {
		s.Errorf("%d retries, want 1", count)
	}
	reserved := s.await("reserved again", func(wl *kueue.Workload) bool { return isTrue(wl, kueue.WorkloadQuotaReserved) })
	if at := apimeta.FindStatusCondition(reserved.Status.Conditions, kueue.WorkloadQuotaReserved).LastTransitionTime; at.Time.Before(requeueAt(waiting)) {
		s.Errorf("Quota was reserved at %v, before %v", at, requeueAt(waiting))
	}

	again := stateOf(s.awaitState(kueue.CheckStateRetry), s.check)
	if ptr.Deref(again.RetryCount, 0) != 1 || ptr.Deref(again.RequeueAfterSeconds, 0) != 0 {
		s.Errorf("The delay of the first retry is still there, or the count is wrong: %+v", again)
	}
	ready := stateOf(s.awaitState(kueue.CheckStateReady), s.check)
	if ptr.Deref(ready.RetryCount, 0) != 2 || ready.RequeueAfterSeconds != nil {
		s.Errorf("A delay is left over, or the count is wrong: %+v", ready)
	}
	s.awaitAdmitted()
}

func testChangeMeanwhile(s *scenario) {
	s.begin(kit.Options{Decide: func(ctx context.Context, decided *kueue.Workload, _ kit.Check) (kit.Verdict, error) {
		if _, changed := decided.Labels["changed"]; changed {
			return kit.Ready("decided on the new version"), nil
		}
		change := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"yes"}}}`))
		if err := s.client.Patch(ctx, decided.DeepCopy(), change); err != nil {
			return kit.Verdict{}, err
		}
		return kit.Rejected("decided on an old version"), nil
	}}, s.check)

	s.awaitAdmitted()
	for _, version := range s.versions {
		if stateOf(version, s.check).State == kueue.CheckStateRejected {
			s.Errorf("An answer about an old version was written: %+v", version.Status)
		}
	}
	if s.calls.Load() < 2 {
		s.Errorf("Asked %d times, want 2 at least", s.calls.Load())
	}
}

func testTwoChecks(s *scenario) {
	s.begin(kit.Options{Decide: func(_ context.Context, wl *kueue.Workload, asked kit.Check) (kit.Verdict, error) {
		switch {
		case asked.AdmissionCheck.Name == s.second || asked.Retries() > 0:
			return kit.Ready("now"), nil
		case stateOf(wl, s.second).State != kueue.CheckStateReady:
			return kit.Pending("after the other"), nil
		default:
			return kit.Retry(time.Second, "not yet"), nil
		}
	}}, s.check, s.second)

	if refused := s.awaitState(kueue.CheckStateRetry); stateOf(refused, s.second).State != kueue.CheckStateReady {
		s.Errorf("The answer of one check changed the other: %+v", refused.Status.AdmissionChecks)
	}
	if admitted := s.awaitAdmitted(); len(admitted.Status.AdmissionChecks) != 2 {
		s.Errorf("Unexpected checks: %+v", admitted.Status.AdmissionChecks)
	}
}

// What an earlier answer said about pods and delays is gone with the next.
func testForget(s *scenario) {
	updates := []kueue.PodSetUpdate{{Name: kueue.DefaultPodSetName, NodeSelector: map[string]string{"pool": "a"}}}
	s.begin(kit.Options{Decide: func(_ context.Context, _ *kueue.Workload, check kit.Check) (kit.Verdict, error) {
		if check.Retries() == 0 {
			return kit.Ready("in a pool", updates...), nil
		}
		return kit.Ready("anywhere"), nil
	}}, s.check)
	if got := stateOf(s.awaitAdmitted(), s.check).PodSetUpdates; !equality.Semantic.DeepEqual(got, updates) {
		s.Errorf("Unexpected changes to the pods: %+v", got)
	}

	s.say(kit.Retry(time.Second, "the pool is broken"))
	s.await("evicted", func(wl *kueue.Workload) bool { return isTrue(wl, kueue.WorkloadEvicted) })
	again := stateOf(s.awaitAdmitted(), s.check)
	if again.Message != "anywhere" || len(again.PodSetUpdates) > 0 || again.RequeueAfterSeconds != nil {
		s.Errorf("Something of an earlier answer is left: %+v", again)
	}
}

func testMoveDeadline(s *scenario) {
	s.begin(kit.Options{Decide: passAt(1, longDelay)}, s.check)
	first := requeueAt(s.await("waiting", isWaiting))
	asked := s.calls.Load()

	s.sayInVain(kit.Retry(longDelay, "not yet"))
	renewed := kit.Retry(longDelay, "not yet")
	renewed.Renew = true
	// Not in the second in which the first delay began.
	s.eventually("renew the delay", func(context.Context) error {
		s.say(renewed)
		if at := requeueAt(s.get()); !at.After(first) {
			return fmt.Errorf("still until %v", at)
		}
		return nil
	})

	version := s.get()
	s.await("waiting for the renewed delay", func(wl *kueue.Workload) bool { return wl.ResourceVersion == version.ResourceVersion })
	at := requeueAt(version)
	s.sayInVain(kit.RetryAt(at, "not yet"))
	at = at.Add(time.Hour)
	s.say(kit.RetryAt(at, "not yet"))
	s.await("waiting until a later time", func(wl *kueue.Workload) bool { return requeueAt(wl).Equal(at) })
	s.say(kit.Retry(12*longDelay, "even later"))
	s.await("waiting for longer", func(wl *kueue.Workload) bool { return requeueAt(wl).After(at) })
	s.say(kit.Retry(longDelay/2, "earlier"))
	s.await("waiting for less", func(wl *kueue.Workload) bool { return isWaiting(wl) && requeueAt(wl).Before(first) })

	if s.calls.Load() != asked {
		s.Error("Asked while the workload waits")
	}
	s.say(kit.Pending("there is room"))
	if requeued := stateOf(s.await("requeued", isRequeued), s.check); requeued.RequeueAfterSeconds != nil {
		s.Errorf("A delay is left over: %+v", requeued)
	}
}

func testCoOwnedDelay(s *scenario) {
	s.begin(kit.Options{Decide: passAt(1, longDelay)}, s.check)
	s.await("waiting", isWaiting)
	other := &kit.Writer{Client: s.client, Reader: s.client, FieldManager: "someone-else"}
	same := kit.Retry(longDelay, "not yet")
	same.Renew = true // or nothing would be written
	if err := other.SetState(s.Context(), s.key, kueue.AdmissionCheckReference(s.check), func(*kueue.Workload, kueue.AdmissionCheckState) kit.Verdict {
		return same
	}); err != nil {
		s.Fatal(err)
	}
	s.say(kit.Retry(0, "at once"))
	s.awaitAdmitted()
}

func testSource(s *scenario) {
	var open atomic.Bool
	decide := func(context.Context, *kueue.Workload, kit.Check) (kit.Verdict, error) {
		if open.Load() {
			return kit.Ready("open"), nil
		}
		return kit.Retry(longDelay, "closed"), nil
	}
	s.begin(kit.Options{
		Decide:       decide,
		WhileWaiting: decide,
		Sources: []kit.Source{{
			Object:   &corev1.ConfigMap{},
			Concerns: func(obj client.Object, wl *kueue.Workload) bool { return obj.GetNamespace() == wl.Namespace },
		}},
	}, s.check)
	s.await("waiting", isWaiting)
	open.Store(true)
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "source"}})
	requeued := stateOf(s.await("requeued", isRequeued), s.check)
	if requeued.State != kueue.CheckStatePending || requeued.RetryCount != nil {
		s.Errorf("A request that was withdrawn is still there, or was counted as a retry: %+v", requeued)
	}
	s.awaitAdmitted()
}

func testAskAgain(s *scenario) {
	s.begin(kit.Options{Poll: 100 * time.Millisecond, Decide: func(context.Context, *kueue.Workload, kit.Check) (kit.Verdict, error) {
		switch s.calls.Load() {
		case 1:
			return kit.Rejected("must not be written"), errors.New("by test")
		case 2, 3:
			return kit.Pending("working"), nil
		default:
			return kit.Ready("done"), nil
		}
	}}, s.check)
	s.awaitAdmitted()
	if s.calls.Load() < 4 {
		s.Errorf("Asked %d times, want 4 at least", s.calls.Load())
	}
}

func testInactive(s *scenario) {
	const name = "parameters"
	expectActive := func(status metav1.ConditionStatus, reason string) {
		s.Helper()
		s.eventually("see the condition "+reason, func(ctx context.Context) error {
			check := &kueue.AdmissionCheck{}
			if err := s.client.Get(ctx, client.ObjectKey{Name: s.check}, check); err != nil {
				return err
			}
			condition := apimeta.FindStatusCondition(check.Status.Conditions, kueue.AdmissionCheckActive)
			if condition == nil || condition.Status != status || condition.Reason != reason {
				return fmt.Errorf("it is %+v", condition)
			}
			return nil
		})
	}
	s.begin(kit.Options{
		Decide: passAt(0, 0),
		Validate: func(ctx context.Context, _ *kueue.AdmissionCheck) error {
			err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, &corev1.ConfigMap{})
			if apierrors.IsNotFound(err) {
				return kit.Inactive("NoParameters", "there is no ConfigMap "+name)
			}
			return err
		},
		Sources: []kit.Source{{Object: &corev1.ConfigMap{}}},
	}, s.check)
	expectActive(metav1.ConditionFalse, "NoParameters")
	if s.calls.Load() != 0 {
		s.Error("Asked while the check is inactive")
	}
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}})
	expectActive(metav1.ConditionTrue, "Active")
	s.awaitAdmitted()
}
