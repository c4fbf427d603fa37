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

// Package pages runs the documentation: every fenced block of the pages in docs/,
// in its order, against etcd, kube-apiserver and the patched manager with the
// gates on. A page has a control plane, an empty folder and a shell of its own.
//
//   - sh is run by "bash -euo pipefail". Variables, functions and the current
//     folder last until the end of the page. DOCS is the folder of the pages,
//     KUEUE_TREE the patched tree, KUEUE_METRICS the address of the manager's
//     metrics; kubectl, kubectl-kueue, jq and promtool are those of
//     build/bin.
//   - console or text right after it is what the script must print, stdout and
//     stderr. Blanks, times, ages, UIDs and the hash in names of Workloads may
//     differ. "..." stands for anything in a line, and alone for any lines. The
//     script is repeated until it prints that, so it must stand being repeated.
//   - A block whose first line is a comment with a file name ("# queue.yaml",
//     "// main.go") is written to that file, and nothing more.
//   - Other yaml is tried: Kueue's configuration is decoded; without a kind it is
//     a part of a Workload, and decoded too; the rest is applied as a server-side
//     dry run.
//   - mermaid is counted. Any other language is an error.
//
// Four comments in a paragraph of their own say more, and no reader sees them:
//
//   - "not run: reason", for the block that follows; yaml is parsed nevertheless
//   - "run: name", a function in testdata/page.sh or common.sh, for what a reader need not do
//   - "run: page.md#section", for the blocks of another section
//   - "run with: python3", for the rest of a section, which is left out where that
//     program is not installed
//
// A page with the comment "run on: plain v0.19.2" has that release of Kueue, without
// the patches.
package pages

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/yaml"

	"kueue-acrequeueafter/lab/controlplane"
)

const (
	// How long a script may take; those that compile something take longest.
	scriptTimeout = 10 * time.Minute
	// How long a script may be repeated until it prints what the page shows.
	outputTimeout = 30 * time.Second
)

// page runs the blocks of a page as a reader would, in a folder and a shell of
// its own, against a control plane of its own.
type page struct {
	*testing.T
	plane *controlplane.ControlPlane
	// plain is the release of Kueue to start, if not the patched one.
	plain string
	// What the shell of one block leaves to the next.
	folder, state string
	counts        map[string]int
	files         map[string]bool
}

func newPage(t *testing.T) *page {
	return &page{T: t, state: filepath.Join(t.TempDir(), "state"), folder: t.TempDir(), counts: map[string]int{}, files: map[string]bool{}}
}

// TestPages runs all pages. -run TestPages/operators.md runs one.
func TestPages(t *testing.T) {
	if testing.Short() {
		t.Skip("needs control planes")
	}
	for _, name := range glob(t, "../../../docs/*.md", "../../../docs/*/*.md") {
		t.Run(strings.TrimPrefix(name, "../../../docs/"), func(t *testing.T) {
			t.Parallel()
			p := newPage(t)
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			p.plain = plainRelease(content)
			p.runPage(name, "")
			for file, used := range p.files {
				if !used {
					t.Errorf("no command uses %s", file)
				}
			}
			t.Logf("%s: %d scripts run, %d manifests tried, %d files written, %d diagrams, %d blocks not run",
				name, p.counts["sh"], p.counts["yaml"], len(p.files), p.counts["mermaid"], p.counts["not run"])
		})
	}
}

// TestLinks follows the links from one file of the repository to another.
func TestLinks(t *testing.T) {
	for _, name := range glob(t, "../../../*.md", "../../../*/*.md", "../../../docs/*/*.md", "../../../lab/*/*.md") {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		destinations, anchors := links(page)
		for _, destination := range destinations {
			file, anchor, _ := strings.Cut(destination, "#")
			if strings.Contains(file, "://") {
				continue
			}
			there := anchors
			if file != "" {
				file = filepath.Join(filepath.Dir(name), file)
				if _, err := os.Stat(file); err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if anchor == "" {
					continue
				}
				page, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				_, there = links(page)
			}
			if !slices.Contains(there, anchor) {
				t.Errorf("%s: %s has no such section", name, destination)
			}
		}
	}
}

func glob(t *testing.T, patterns ...string) []string {
	t.Helper()
	var names []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	return names
}

// runPage runs the blocks of a page, or of one of its sections.
func (p *page) runPage(name, section string) {
	p.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		p.Fatal(err)
	}
	blocks, err := blocks(content)
	if err != nil {
		p.Fatalf("%s: %v", name, err)
	}
	ran := section == ""
	for _, b := range blocks {
		if section == "" || b.section == section {
			p.runBlock(name, b)
			ran = true
		}
	}
	if !ran {
		p.Fatalf("%s has no blocks in a section %s", name, section)
	}
}

func (p *page) runBlock(name string, b block) {
	p.Helper()
	var err error
	if _, missing := exec.LookPath(b.needs); b.needs != "" && missing != nil {
		b.notRun = missing.Error()
	}
	if b.function != "" {
		b.content = functions(p.T, "common.sh") + functions(p.T, functionsOf(name)) + b.function + "\n"
	}
	switch file := b.file(); {
	case b.notRun == "" && b.include != "":
		other, section, _ := strings.Cut(b.include, "#")
		p.runPage(filepath.Join(filepath.Dir(name), other), section)
		return
	case b.notRun != "":
		p.counts["not run"]++
		p.Logf("%s:%d is not run: %s", name, b.line, b.notRun)
		if b.language == "yaml" {
			err = eachDocument(b.content, func([]byte) error { return nil })
		}
	case file != "":
		err = p.write(file, b)
	case b.language == "sh":
		err = p.script(b)
	case b.language == "yaml":
		err = eachDocument(b.content, p.tryManifest)
	case b.language == "mermaid":
	default:
		err = fmt.Errorf("a block of language %q that names no file, follows no script and has no comment why it is not run", b.language)
	}
	if err != nil {
		p.Fatalf("%s:%d: %v\n%s", name, b.line, err, b.content)
	}
	if b.notRun == "" && b.file() == "" {
		p.counts[b.language]++
	}
}

func functions(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// functionsOf returns the file with the functions of a page.
func functionsOf(page string) string {
	base := strings.TrimSuffix(filepath.Base(page), ".md")
	if base == "README" {
		base = filepath.Base(filepath.Dir(page))
	}
	return base + ".sh"
}

func (p *page) write(file string, b block) error {
	path := filepath.Join(p.workingDir(), file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// Sources are used by the commands that build their folder.
	p.files[file] = b.language != "yaml"
	return os.WriteFile(path, []byte(b.content), 0o644)
}

// script runs a script once; or, if the page shows its output, until it prints
// that, since Kueue needs a moment for what the commands before it have caused.
func (p *page) script(b block) error {
	for file := range p.files {
		p.files[file] = p.files[file] || strings.Contains(b.content, file)
	}
	deadline := time.Now().Add(outputTimeout)
	for {
		output, err := p.shell(b.content)
		switch {
		case err == nil && (b.output == nil || matches(*b.output, output)):
			return nil
		case b.output == nil:
			return fmt.Errorf("%w\n%s", err, output)
		case time.Now().After(deadline):
			return fmt.Errorf("the script fails, or prints something else than the page shows (error: %v); it prints\n%s", err, output)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// shell runs a script with the variables, functions and folder that the script
// before it left, and returns what it printed.
func (p *page) shell(script string) (string, error) {
	if p.plane == nil {
		p.plane = startControlPlane(p.T, p.plain)
	}
	output, err := os.Create(filepath.Join(p.TempDir(), "output"))
	if err != nil {
		return "", err
	}
	defer output.Close()
	cmd := exec.CommandContext(p.Context(), "bash", "-euo", "pipefail", "-c", `
trap 'code=$?; { export -p; declare -f; printf "cd %q\n" "$PWD"; } > "$STATE"; exit $code' EXIT
[ ! -e "$STATE" ] || . "$STATE"
set -a
`+script)
	cmd.Dir = p.folder
	cmd.Env = append(os.Environ(), "STATE="+p.state, "KUBECONFIG="+p.plane.Kubeconfig, "KUEUE_METRICS="+p.plane.Metrics, "KUEUE_TREE="+absolute(p.T, treeDir), "DOCS="+absolute(p.T, "../../../docs"),
		"PATH="+absolute(p.T, binDir)+":"+os.Getenv("PATH"))
	// A file, and not a pipe: what runs on in the background holds nothing up.
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	group := -cmd.Process.Pid
	p.Cleanup(func() { _ = syscall.Kill(group, syscall.SIGKILL) })
	timeout := time.AfterFunc(scriptTimeout, func() { _ = syscall.Kill(group, syscall.SIGKILL) })
	err = cmd.Wait()
	timeout.Stop()
	printed, readErr := os.ReadFile(output.Name())
	if err == nil {
		err = readErr
	}
	return string(printed), err
}

// workingDir returns the folder in which the shell is.
func (p *page) workingDir() string {
	state, _ := os.ReadFile(p.state)
	for line := range strings.Lines(string(state)) {
		if dir, ok := strings.CutPrefix(line, "cd "); ok {
			return strings.TrimSpace(dir)
		}
	}
	return p.folder
}

// tryManifest has the API server try a manifest. What the API server does not
// know is decoded: Kueue's configuration, and parts of a Workload, without a kind.
func (p *page) tryManifest(document []byte) error {
	var meta struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(document, &meta); err != nil {
		return err
	}
	if meta.Kind == "" {
		return yaml.UnmarshalStrict(document, &kueue.Workload{})
	}
	if meta.APIVersion == config.SchemeGroupVersion.String() {
		return yaml.UnmarshalStrict(document, &config.Configuration{})
	}
	output, err := p.shell("kubectl apply --server-side --dry-run=server --validate=strict -f - <<'END'\n" + string(document) + "\nEND\n")
	if err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}

func eachDocument(content string, do func([]byte) error) error {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(content)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = yaml.Unmarshal(document, &map[string]any{})
		}
		if err == nil {
			err = do(document)
		}
		if err != nil {
			return err
		}
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
