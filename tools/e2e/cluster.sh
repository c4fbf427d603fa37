#!/usr/bin/env bash
# Usage: cluster.sh up | load ARCHIVE | run COMMAND... | down
# up: a cluster with what build/dist has installed, as the README says it.
# Its kubeconfig is E2E_DIR/kubeconfig. load brings images to its nodes. run runs
# a command that tests the cluster, and keeps in E2E_ARTIFACTS what its managers
# log; if it fails, also what else tells why. down deletes the cluster. The
# Makefile sets the variables:
#   BIN, DIST, VERSION        where programs and archives are, and their version
#   E2E_DIR, E2E_ARTIFACTS    for our files; for logs
#   E2E_CLUSTER               the name of kind's cluster
#   E2E_NODE_IMAGE            its node image; without one E2E_BUILT_IMAGE, if Docker
#                             has it, and otherwise kind's own, from a registry
#   E2E_KUBECONFIG            use this cluster instead, and start none
set -euo pipefail

kind=$BIN/kind
kubectl=$BIN/kubectl
kubeconfig=$E2E_DIR/kubeconfig
say() { echo "==> $*"; }
fail() { echo "error: $*" >&2; exit 1; }

exists() { "$kind" get clusters --quiet | grep -qxF "$E2E_CLUSTER"; }

create() {
  local image=$E2E_NODE_IMAGE
  if [ -z "$image" ] && docker image inspect "$E2E_BUILT_IMAGE" >/dev/null 2>&1; then image=$E2E_BUILT_IMAGE; fi
  say "cluster $E2E_CLUSTER with ${image:-the node image of kind}"
  if ! "$kind" create cluster --name "$E2E_CLUSTER" ${image:+--image "$image"} --kubeconfig "$kubeconfig" --wait 180s --retain; then
    if exists; then
      "$kind" export logs --name "$E2E_CLUSTER" "$E2E_ARTIFACTS/kind" >/dev/null 2>&1 || true
      "$kind" delete cluster --name "$E2E_CLUSTER" --kubeconfig "$kubeconfig" || true
      fail "the cluster did not start; its logs are in $E2E_ARTIFACTS/kind"
    fi
    fail "no cluster. If the node image cannot be pulled here: make e2e-node-image"
  fi
}

load() { # archive
  [ -z "$E2E_KUBECONFIG" ] || return 0
  say "loading $1"
  "$kind" load image-archive --name "$E2E_CLUSTER" "$1"
}

up() {
  local running= version answer
  mkdir -p "$E2E_DIR"
  if [ -n "$E2E_KUBECONFIG" ]; then
    say "the cluster of $E2E_KUBECONFIG"
    cp "$E2E_KUBECONFIG" "$kubeconfig"
  else
    if exists; then
      running=yes
      "$kind" export kubeconfig --name "$E2E_CLUSTER" --kubeconfig "$kubeconfig" --quiet
    else
      create
    fi
  fi
  load "$DIST/kueue-$VERSION.tar"
  load "$E2E_DIR/examples/images.tar"
  export KUBECONFIG=$kubeconfig
  say "installing $DIST/manifests.yaml"
  "$kubectl" apply --server-side -f "$DIST/manifests.yaml" | awk '{count++} END {print count " objects"}'
  # The image may be another one under the same tag.
  [ -z "$running" ] || "$kubectl" --namespace kueue-system rollout restart deployment/kueue-controller-manager
  "$kubectl" --namespace kueue-system rollout status deployment/kueue-controller-manager --timeout 180s ||
    { "$kubectl" --namespace kueue-system get pods,events >&2; fail "Kueue does not become available"; }
  # Available is the pod; a new Service takes some seconds more to lead to it.
  # The newest version of the API is the last one of the CRD.
  version=$("$kubectl" get crd resourceflavors.kueue.x-k8s.io --output 'jsonpath={.spec.versions[-1:].name}')
  for _ in $(seq 60); do
    if answer=$("$kubectl" create --dry-run=server -f - 2>&1 <<<'{"apiVersion": "kueue.x-k8s.io/'$version'", "kind": "ResourceFlavor", "metadata": {"name": "e2e-ready"}}'); then
      say "Kueue is ready: export KUBECONFIG=$kubeconfig"
      return
    fi
    sleep 1
  done
  fail "Kueue's webhooks do not answer: $answer"
}

down() {
  [ -z "$E2E_KUBECONFIG" ] || fail "the cluster of $E2E_KUBECONFIG is not ours to delete"
  "$kind" delete cluster --name "$E2E_CLUSTER" --kubeconfig "$kubeconfig"
}

# The log of a pod is gone with the pod, and tests replace the managers.
follow() {
  # A watch ends after some time.
  while sleep 1; do
    "$kubectl" --namespace kueue-system get pods --selector control-plane=controller-manager --watch \
      --output jsonpath='{.metadata.name} {.status.phase}{"\n"}' || true
  done |
    while read -r pod phase; do
      if [ "$phase" = Running ] && [ ! -e "$E2E_ARTIFACTS/$pod.log" ]; then
        "$kubectl" --namespace kueue-system logs --follow "$pod" >"$E2E_ARTIFACTS/$pod.log" &
      fi
    done
}

run() {
  export KUBECONFIG=$kubeconfig
  rm -rf "$E2E_ARTIFACTS"
  mkdir -p "$E2E_ARTIFACTS"
  set -m # a process group for what follows logs
  follow 2>"$E2E_ARTIFACTS/follow.log" &
  set +m
  # shellcheck disable=SC2064 # this process group
  trap "kill -- -$! 2>/dev/null || true" EXIT
  if ! "$@"; then
    logs
    exit 1
  fi
}

logs() {
  "$kubectl" get events --all-namespaces --sort-by .lastTimestamp >"$E2E_ARTIFACTS/events.txt" || true
  "$kubectl" get --all-namespaces --output yaml workloads,clusterqueues,localqueues,resourceflavors,admissionchecks,jobs,pods,deployments,configmaps >"$E2E_ARTIFACTS/objects.yaml" || true
  [ -n "$E2E_KUBECONFIG" ] || "$kind" export logs --name "$E2E_CLUSTER" "$E2E_ARTIFACTS/kind" >/dev/null 2>&1 || true
  say "logs, events and objects are in $E2E_ARTIFACTS"
}

case ${1:-} in
up | load | run | down) "$@" ;;
*) fail "usage: cluster.sh up | load ARCHIVE | run COMMAND... | down" ;;
esac
