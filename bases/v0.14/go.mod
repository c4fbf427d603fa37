module kueue-acrequeueafter/bases/v0.14

go 1.26.0

ignore ./overlay

require sigs.k8s.io/kueue v0.14.8
