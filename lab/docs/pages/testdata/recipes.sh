# What docs/recipes.md needs to be run, and a reader need not do.

say_a_bare_retry() {
  kubectl wait --for=condition=QuotaReserved workload/$workload
  eval "$(declare -f ask_for | grep -v requeueAfterSeconds)"
  ask_for
  until [ "$(kubectl get workload $workload -o jsonpath='{.status.admissionChecks[0].policyDelaySeconds}')" -ge 300 ]; do sleep 0.2; done
}
