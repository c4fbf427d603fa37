# What docs/observability/README.md needs to be run, and a reader need not do.

in_the_repository() {
  FOLDER=$PWD
  cd "$DOCS/.."
}

leave_the_repository() {
  cd "$FOLDER"
}

metrics_of_a_wait() {
  wait_for_an_hour
  kueue_manifests | jq 'select(.kind == "ClusterRole" and .metadata.name == "kueue-metrics-reader")' | kubectl create -f -
  kueue_manifests | jq -e 'select(.kind == "Service" and .metadata.name == "kueue-controller-manager-metrics-service")
    | .metadata.namespace == "kueue-system" and .spec.ports[0].port == 8443'
}

forward_to_the_manager() {
  kubectl() { command kubectl "${@/localhost:8443/$KUEUE_METRICS}"; }
}

forward_no_more() {
  unset -f kubectl
}
