# What docs/authors-without-go.md needs to be run, and a reader need not do.

by_http() {
  kubectl apply -f - <<'END'
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: by-http}
spec: {controllerName: example.com/by-http}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: by-http}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: by-http}
spec:
  namespaceSelector: {}
  admissionChecksStrategy: {admissionChecks: [{name: by-http}]}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: by-http, resources: [{name: cpu, nominalQuota: 1}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {namespace: default, name: by-http}
spec: {clusterQueue: by-http}
END
  sed 's/name: job/name: by-http/; s/queue-name: queue/queue-name: by-http/' job.yaml | kubectl apply -f -
  kubectl proxy --port=0 >proxy.log 2>&1 &
  until grep -q 'Starting to serve' proxy.log; do sleep 0.1; done
  PORT=$(sed -n 's/.*127.0.0.1:\([0-9]*\).*/\1/p' proxy.log)
  until WORKLOAD=$(kubectl get workloads -o name | sed -n 's,.*/\(job-by-http-.*\),\1,p') && [ -n "$WORKLOAD" ]; do sleep 0.1; done
  version() { kubectl get "$1" -o jsonpath='{.metadata.resourceVersion}'; }
  # Sends the request in the file, to what there is here, and puts the answer into the
  # file "answer". The first argument is the status that it has to have.
  send() {
    local status=$1 version=$2
    local request=$(sed -e 1d -e 's,HTTP/1.1$,HTTP/1.0,' -e "s/job-job-8a61d/$WORKLOAD/; s/maintenance\b/by-http/g; s/8001/$PORT/; s/4711/$version/" -e "s/2026-11-21T10:00:00Z/$(date -u +%FT%TZ)/" -e "${4-}" "$3")
    local head=${request%%$'\n\n'*} body=${request#*$'\n\n'}
    [ "$body" != "$request" ] || body=
    exec 3<>"/dev/tcp/127.0.0.1/$PORT"
    printf '%s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' "${head//$'\n'/$'\r\n'}" "${#body}" "$body" >&3
    cat <&3 >answer
    exec 3<&-
    if [[ $(head -1 answer) != "HTTP/1."?" $status "* ]]; then cat answer; return 1; fi
  }
}

list_and_watch() {
  send 200 "" list.http
  grep -q "$WORKLOAD" answer
  VERSION=$(sed -n 's/.*"kind":"WorkloadList","metadata":{[^}]*"resourceVersion":"\([0-9]*\)".*/\1/p' answer)
  send 200 "$VERSION" watch.http 's/timeoutSeconds=300/timeoutSeconds=1/'
  send 200 1 watch.http
  grep -q '"type":"ERROR".*"code":410' answer
}

active() {
  send 200 "" active.http
  kubectl wait --for=condition=Active admissioncheck/by-http clusterqueue/by-http --timeout=30s
  kubectl wait --for=condition=QuotaReserved workload/$WORKLOAD --timeout=30s
}

answer() {
  send 200 "$(version workload/$WORKLOAD)" answer.http
  kubectl wait --for=condition=Evicted workload/$WORKLOAD --timeout=30s
  kubectl wait --for=condition=QuotaReserved=False workload/$WORKLOAD --timeout=30s
  [ "$(kubectl get workload $WORKLOAD -o jsonpath='{.status.admissionChecks[0].state} {.status.admissionChecks[0].requeueAfterSeconds}')" = "Retry 3600" ]
  send 409 "$VERSION" answer.http
  send 422 "$(version workload/$WORKLOAD)" answer.http 's/3600/-1/'
  send 404 "$(version workload/$WORKLOAD)" answer.http "s/$WORKLOAD/gone/"
}

try_python() {
  # No garbage collector here.
  kubectl delete jobs,workloads --all
  cp -r "$DOCS/../examples" examples
  kubectl() { [ "$1" = proxy ] || command kubectl "$@"; }
  python3() { command python3 "${@/8001/$PORT}" 2>python.log; }
}

end_python() {
  unset -f kubectl python3
}
