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
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// managerNamespace is where the manager looks for the Secret with its
// certificates, which come with Kueue's manifests.
const managerNamespace = "kueue-system"

// certificates are those of the manager's webhook server. The manager finds them in
// its Secret, takes them for its own, and has the API server trust their CA; were
// they others, it would make new ones, which the API server could not verify at
// the address where the webhooks are served here.
type certificates struct {
	ca, caKey, cert, key []byte
}

// newCertificates makes what the manager makes where it finds none, with the
// library that it uses, and for one host more.
func newCertificates(host string) (*certificates, error) {
	r := &rotator.CertRotator{
		CAName:         "kueue-ca",
		CAOrganization: "kueue",
		DNSName:        "kueue-webhook-service." + managerNamespace + ".svc",
		ExtraDNSNames:  []string{host},
		ExtKeyUsages:   &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	// The manager renews what ends within three months.
	begin := time.Now().Add(-time.Hour)
	end := begin.AddDate(1, 0, 0)
	ca, err := r.CreateCACert(begin, end)
	if err != nil {
		return nil, err
	}
	cert, key, err := r.CreateCertPEM(ca, begin, end)
	if err != nil {
		return nil, err
	}
	return &certificates{ca: ca.CertPEM, caKey: ca.KeyPEM, cert: cert, key: key}, nil
}

// serve puts the certificates in the place of envtest's.
func (c *certificates) serve(hooks *envtest.WebhookInstallOptions) error {
	hooks.LocalServingCAData = c.ca
	if err := hooks.ModifyWebhookDefinitions(); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(hooks.LocalServingCertDir, "tls.crt"), c.cert, 0o600),
		os.WriteFile(filepath.Join(hooks.LocalServingCertDir, "tls.key"), c.key, 0o600),
	)
}

func newSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: "kueue-webhook-server-cert"}}
}

func (c *certificates) secret() *corev1.Secret {
	secret := newSecret()
	secret.Data = map[string][]byte{"ca.crt": c.ca, "ca.key": c.caKey, "tls.crt": c.cert, "tls.key": c.key}
	return secret
}

// kept returns an error if the manager has replaced the certificates.
func (c *certificates) kept(ctx context.Context, kube client.Client) error {
	secret := newSecret()
	if err := kube.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
		return err
	}
	if !bytes.Equal(secret.Data["ca.crt"], c.ca) || !bytes.Equal(secret.Data["tls.crt"], c.cert) {
		return errors.New("the manager has replaced the certificates: it wants others than newCertificates makes")
	}
	return nil
}
