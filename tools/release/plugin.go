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
	"context"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdxlib"
)

// pluginName is the name under which kubectl finds kueuectl: "kubectl kueue".
const pluginName = "kubectl-kueue"

// pluginPath is where kueuectl is shipped, named as upstream names it.
func (r *release) pluginPath(architecture string) string {
	return r.distPath(pluginName + "-linux-" + architecture)
}

func (r *release) pluginSBOMPath() string {
	return r.distPath(pluginName + "-" + r.version + ".spdx.json")
}

// builtPluginPath is where a kueuectl was built.
func (r *release) builtPluginPath(architecture string) string {
	return filepath.Join(r.managers, "linux-"+architecture, pluginName)
}

// makePlugins writes kueuectl for each architecture, and the SBOM of them all.
func (r *release) makePlugins() error {
	if err := r.removeOld(pluginName+"-linux-*", pluginName+"-v*.spdx.json"); err != nil {
		return err
	}
	for _, architecture := range r.architectures {
		if err := r.copyPlugin(architecture); err != nil {
			return err
		}
		if err := r.wrote(r.pluginPath(architecture)); err != nil {
			return err
		}
	}
	return r.makePluginSBOM()
}

func (r *release) copyPlugin(architecture string) error {
	built, err := os.Open(r.builtPluginPath(architecture))
	if err != nil {
		return err
	}
	defer built.Close()
	if err := writeFile(r.pluginPath(architecture), func(w io.Writer) error { _, err := io.Copy(w, built); return err }); err != nil {
		return err
	}
	return os.Chmod(r.pluginPath(architecture), 0o755)
}

// makePluginSBOM writes down what Go built into the plugins.
func (r *release) makePluginSBOM() error {
	digest, err := fileSum(r.pluginPath(r.architectures[0]))
	if err != nil {
		return err
	}
	b := r.newBill(pluginName, digest)
	for _, architecture := range r.architectures {
		path := r.pluginPath(architecture)
		if err := b.addProgram(path, "Plugin-"+architecture, filepath.Base(path), architecture, "DOCUMENT", common.TypeRelationshipDescribe); err != nil {
			return err
		}
	}
	if err := spdxlib.ValidateDocument(b.Document); err != nil {
		return err
	}
	if err := writeFile(r.pluginSBOMPath(), func(w io.Writer) error { return json.Write(b.Document, w, json.Indent("  ")) }); err != nil {
		return err
	}
	return r.wrote(r.pluginSBOMPath())
}

// checkPlugins compares the stamps of the plugins.
func (r *release) checkPlugins(ctx context.Context, stamp func(where, got, want string)) error {
	content, err := os.ReadFile(r.pluginSBOMPath())
	if err != nil {
		return err
	}
	for _, architecture := range r.architectures {
		path := r.pluginPath(architecture)
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return err
		}
		built := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "GOARCH" })
		if built < 0 {
			return fmt.Errorf("%s does not say what architecture it is for", path)
		}
		stamp("plugin's architecture", info.Settings[built].Value, architecture)
		sum, err := fileSum(path)
		if err != nil {
			return err
		}
		if !strings.Contains(string(content), sum) {
			return fmt.Errorf("the SBOM of the plugins is not of %s", path)
		}
		if runtime.GOOS != "linux" || runtime.GOARCH != architecture {
			continue
		}
		version, err := pluginVersion(ctx, path)
		if err != nil {
			return err
		}
		stamp("plugin's version", version, r.version)
	}
	return nil
}

// pluginVersion runs a plugin, which says its version before it looks for that of
// the cluster. It finds none.
func pluginVersion(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	path, err := filepath.Abs(program)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, "version", "--server=http://127.0.0.1:1")
	cmd.Env = []string{"KUBECONFIG=" + os.DevNull}
	out, _ := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "Client Version: "); ok {
			return version, nil
		}
	}
	return "", fmt.Errorf("%s does not say its version:\n%s", program, out)
}
