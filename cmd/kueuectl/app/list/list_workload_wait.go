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

package list

import (
	"io"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/cmd/kueuectl/app/wait"
)

// waitColumnDefinitions come after all others, and only if a workload waits.
var waitColumnDefinitions = []metav1.TableColumnDefinition{
	{Name: "Waits For", Type: "string"},
	{Name: "Until", Type: "string"},
	{Name: "Retries", Type: "string"},
}

// waitTable puts the pages of a list together. Whether it has the columns of those
// that wait is known with the last page, and then it is printed.
type waitTable struct {
	table *metav1.Table
	// printer is that of the first page, which is to print the headers.
	printer printers.ResourcePrinter
	// cells are those of waitColumnDefinitions, for each row.
	cells   [][]any
	waiting bool
}

func (p *listWorkloadPrinter) withWaits(t *waitTable) *listWorkloadPrinter {
	p.waits = t
	return p
}

// printPage takes a page of the list, and the table of it. It prints all with the
// last page.
func (t *waitTable) printPage(printer printers.ResourcePrinter, table *metav1.Table, list *kueue.WorkloadList, out io.Writer) error {
	if t == nil {
		t = &waitTable{}
	}
	if t.table == nil {
		t.table, t.printer = table, printer
	} else {
		t.table.Rows = append(t.table.Rows, table.Rows...)
	}
	for i := range list.Items {
		w, waits := wait.Of(&list.Items[i])
		t.cells = append(t.cells, waitCells(w, waits))
		t.waiting = t.waiting || waits
	}
	if list.Continue != "" {
		return nil
	}

	if t.waiting {
		position := slices.IndexFunc(t.table.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == "Position in Queue" })
		t.table.ColumnDefinitions = append(t.table.ColumnDefinitions, waitColumnDefinitions...)
		for i := range t.table.Rows {
			cells := t.table.Rows[i].Cells
			if until := t.cells[i][1]; position >= 0 && until != "" {
				cells[position] = "" // it is not its turn, whatever the number
			}
			t.table.Rows[i].Cells = append(cells, t.cells[i]...)
		}
	}
	return t.printer.PrintObj(t.table, out)
}

// waitCells returns which checks a workload waits for, until when, and how often
// each of them was retried before, in the same order.
func waitCells(w wait.Wait, waits bool) []any {
	if !waits {
		return []any{"", "", ""}
	}
	retries := make([]string, len(w.Checks))
	for i, check := range w.Checks {
		retries[i] = strconv.Itoa(int(ptr.Deref(check.RetryCount, 0)))
	}
	return []any{strings.Join(wait.Names(w.Checks), ", "), wait.Time(w.Until), strings.Join(retries, ", ")}
}
