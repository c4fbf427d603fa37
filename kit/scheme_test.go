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
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

func TestAddToScheme(t *testing.T) {
	for name, tc := range map[string]struct {
		served  []string
		want    string
		wantErr string
	}{
		"v0.14":           {served: []string{"v1beta1"}, want: "v1beta1"},
		"v0.19":           {served: []string{"v1beta1", "v1beta2"}, want: "v1beta2"},
		"v0.20":           {served: []string{"v1beta2"}, want: "v1beta2"},
		"a later version": {served: []string{"v1"}, wantErr: "serves [v1], known: v1beta2, v1beta1"},
		"no Kueue":        {wantErr: "not installed"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/apis/kueue.x-k8s.io" || len(tc.served) == 0 {
					http.NotFound(w, r)
					return
				}
				group := metav1.APIGroup{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: "kueue.x-k8s.io"}
				for _, version := range tc.served {
					group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: "kueue.x-k8s.io/" + version, Version: version})
				}
				w.Header().Set("Content-Type", "application/json")
				if err := json.NewEncoder(w).Encode(group); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()

			scheme := runtime.NewScheme()
			err := AddToScheme(t.Context(), &rest.Config{Host: server.URL}, scheme)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("Unexpected error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := scheme.ObjectKinds(&kueue.Workload{})
			if err != nil {
				t.Fatal(err)
			}
			want := []schema.GroupVersionKind{{Group: "kueue.x-k8s.io", Version: tc.want, Kind: "Workload"}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Unexpected versions (-want,+got):\n%s", diff)
			}
		})
	}
}
