# What docs/migration.md needs to be run, and a reader need not do.

start_over_and_wait() {
  # It starts over, with its counts at zero.
  kubectl patch workload $workload --type=merge -p '{"spec": {"active": false}}'
  kubectl wait --for=jsonpath='{.status.conditions[?(@.type=="Evicted")].reason}'=Deactivated workload/$workload
  kubectl patch workload $workload --type=merge -p '{"spec": {"active": true}}'
  kubectl wait --for=condition=QuotaReserved workload/$workload
  ask_for 3600
}

begin_storm() {
  # A check that says a bare Retry as soon as it is asked.
  storm() {
    while sleep 0.2; do
      kubectl apply --server-side --force-conflicts --subresource=status --field-manager=budget -f - <<END || true
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata:
  name: $workload
status:
  admissionChecks:
  - name: budget
    state: Retry
    lastTransitionTime: "$(date -u +%FT%TZ)"
END
    done
  }
  storm >/dev/null 2>&1 &
  STORM=$!
}

end_storm() {
  kill $STORM
  kubectl patch clusterqueue research --type=merge -p '{"spec": {"stopPolicy": "None"}}'
  wait_for_an_hour
}

manager_that_does_not_fit() {
  deployment
  # There is no controller of Deployments: the state of one whose new pod does not fit.
  kubectl -n kueue-system patch deployment kueue-controller-manager --subresource=status --type=merge -p '
  status: {observedGeneration: 1, replicas: 2, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, unavailableReplicas: 1}'
  kubectl -n kueue-system create -f - <<END
apiVersion: v1
kind: Pod
metadata: {name: kueue-controller-manager-7d9c5-2xk8p, labels: {control-plane: controller-manager}}
spec: {containers: [{name: manager, image: kueue}]}
END
  kubectl -n kueue-system patch pod kueue-controller-manager-7d9c5-2xk8p --subresource=status --type=merge -p "
  status:
    conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/1 nodes are available: 1 Insufficient cpu.', lastTransitionTime: '$(date -u +%FT%TZ)'}]"
  kubectl() { command kubectl "${@/--timeout=2m/--timeout=2s}" || true; }
}

patience_no_more() {
  unset -f kubectl
}

manager_that_fits() {
  kubectl -n kueue-system patch deployment kueue-controller-manager --subresource=status --type=merge -p '
  status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, unavailableReplicas: 0}'
}
