# What docs/policies.md needs to be run, and a reader need not do.

# Two jobs, and a check that says a bare Retry to whoever has quota.
begin_storm() {
  kubectl create -f - <<END
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: licence}
spec: {controllerName: example.com/licence}
---
apiVersion: v1
kind: Namespace
metadata: {name: design}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {namespace: design, name: design}
spec: {clusterQueue: design}
END
  kubectl get clusterqueue research -o json | jq 'del(.status) | .metadata = {name: "design"}
    | .spec.admissionChecksStrategy.admissionChecks[0].name = "licence"' | kubectl create -f -
  kubectl patch admissioncheck licence --subresource=status --type=merge -p "
status:
  conditions:
  - {type: Active, status: 'True', reason: ByHand, message: '', lastTransitionTime: '$(date -u +%FT%TZ)'}"
  kubectl wait --for=condition=Active clusterqueue/design
  for i in 1 2; do
    sed "s/name: train/name: draw-$i/; s/queue-name: research/queue-name: design/" job.yaml | kubectl -n design apply -f -
  done
  storm >/dev/null 2>&1 &
  STORM=$!
}

storm() {
  while sleep 0.2; do
    for name in $(kubectl -n design get workloads -o json | jq -r '.items[] | select(.status.admission)
        | select(any(.status.admissionChecks[]?; .state == "Pending")) | .metadata.name'); do
      kubectl -n design apply --server-side --force-conflicts --subresource=status --field-manager=licence -f - <<END || true
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: $name}
status:
  admissionChecks:
  - name: licence
    state: Retry
    message: No licence is free.
    lastTransitionTime: "$(date -u +%FT%TZ)"
END
    done
  done
}

end_storm() {
  kill $STORM
  kubectl -n design delete jobs --all
}

ask() {
  kubectl patch workload $workload --subresource=status --type=json --dry-run=$2 \
    -p '[{"op": "replace", "path": "/status/admissionChecks/0/requeueAfterSeconds", "value": '$1'}]'
}

say() {
  kubectl patch workload $workload --subresource=status --type=json \
    -p '[{"op": "replace", "path": "/status/admissionChecks/0/message", "value": "'"$1"'"}]'
}

# A delay from before the policy, which has to survive it.
long_delay() {
  kubectl wait --for=condition=QuotaReserved workload/$workload
  ask_for 3600
  ask 3000000 none
}

# The policy takes a moment. It must refuse what it says, and nothing else.
limit_holds() {
  for i in $(seq 50); do ask 2678401 server || break; sleep 0.2; done
  if ask 2678401 server; then return 1; fi
  say "Still the same delay."
  ask 2678400 server
}
