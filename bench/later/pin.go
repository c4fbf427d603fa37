// Package later keeps the later release, which the benchmark compares with, in
// this module's go.mod. It imports upstream's smallest package, which brings none
// of upstream's dependencies along: the release is built with those of its own.
package later

import _ "sigs.k8s.io/kueue/pkg/constants"
