# What docs/operators.md needs to be run, and a reader need not do.

# It asks for the same check.
another_queue() {
  kubectl get clusterqueue research -o json | jq 'del(.status) | .metadata = {name: "teaching"}' | kubectl create -f -
  kubectl get localqueue research -o json | jq 'del(.status) | .metadata = {name: "teaching"} | .spec.clusterQueue = "teaching"' | kubectl create -f -
  kubectl create -f - <<END
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
END
  kubectl wait --for=condition=Active clusterqueue/teaching
}

queue_without_the_check() {
  kubectl patch clusterqueue teaching --type=merge -p '{"spec": {"admissionChecksStrategy": null}}'
  kubectl wait --for=condition=Admitted workload/$workload
}
