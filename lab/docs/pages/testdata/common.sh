# For all pages that go on with the job of see-one.md.

wait_for_an_hour() {
  kubectl wait --for=condition=QuotaReserved workload/$workload
  ask_for 3600
  kubectl wait --for=condition=Requeued=False workload/$workload
}

kueue_manifests() {
  kubectl kustomize "$KUEUE_TREE/config/default" | kubectl create --dry-run=client -o json -f -
}

deployment() {
  kueue_manifests | jq 'select(.kind == "Deployment")' | kubectl create -f -
}
