module sigs.k8s.io/kueue

go 1.25.0
