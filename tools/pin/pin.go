// Package pin keeps the base in this module's go.mod: a module that no package
// imports is dropped by "go mod tidy". The imported package is upstream's
// smallest, it needs nothing but the standard library, so the pin brings none
// of upstream's dependencies along.
package pin

import _ "sigs.k8s.io/kueue/pkg/constants"
