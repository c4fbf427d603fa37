module kueue-acrequeueafter/bases/v0.19

go 1.26.0

ignore ./overlay

require sigs.k8s.io/kueue v0.19.2
