#!/usr/bin/env bash
# Usage: build.sh IMAGE AGNHOST DIR KUBE_LDFLAGS
# Makes the node image IMAGE for kind without a registry: Debian packages, kind's
# own files, and programs from Go modules; KUBE_LDFLAGS stamp those of Kubernetes.
# The images that kubeadm wants are in it, and agnhost under the name AGNHOST. Works
# in DIR, and keeps the root file system there. Needs Docker, debootstrap, root, Go.
set -euo pipefail
image=$1 agnhost=$2 dir=$3 kube_ldflags=$4
here=$(cd "$(dirname "$0")" && pwd)
bin=$dir/bin

packages=systemd,systemd-sysv,containerd,runc,containernetworking-plugins,conntrack,iptables,nftables
packages=$packages,iproute2,ethtool,socat,mount,kmod,procps
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
suite=bookworm

say() { echo "==> $*"; }
fail() { echo "error: $*" >&2; exit 1; }

say "building Kubernetes, etcd, coredns, pause and agnhost (about 8 minutes when nothing is cached)"
cd "$here"
go build -ldflags "$kube_ldflags" -o "$bin/kube" ./kube
go build -ldflags "-s -w" -o "$bin/" ./pause k8s.io/kubernetes/test/images/agnhost
(cd coredns && go build -ldflags "-s -w" -o "$bin/coredns" .)
(cd ../etcd && go build -ldflags "-s -w" -o "$bin/etcd" go.etcd.io/etcd/server/v3)
kind_files=$(go list -m -f '{{.Dir}}' sigs.k8s.io/kind)/images/base/files

context=$dir/context
mkdir -p "$context"
wanted="$suite $mirror $packages"
if [ "$(cat "$dir/root.packages" 2>/dev/null)" != "$wanted" ]; then
  say "root file system of Debian $suite (about 1.5 minutes)"
  rm -rf "$dir/root" "$dir/root.packages"
  debootstrap --variant=minbase --include="$packages" "$suite" "$dir/root" "$mirror" >"$dir/debootstrap.log" 2>&1 ||
    { tail -20 "$dir/debootstrap.log" >&2; fail "debootstrap failed; its log is $dir/debootstrap.log"; }
  tar -C "$dir/root" --numeric-owner --one-file-system \
    --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./dev/*' \
    --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' \
    -cf "$context/root.tar" .
  rm -rf "$dir/root"
  echo "$wanted" >"$dir/root.packages"
fi

rm -rf "$context"/{bin,links,kind,files}
mkdir "$context/bin" "$context/links"
cp "$bin"/{kube,etcd,coredns,pause,agnhost} "$context/bin/"
for name in kube-apiserver kube-controller-manager kube-scheduler kube-proxy; do ln -s kube "$context/links/$name"; done
# Go's module cache is read-only, and nothing there is executable.
cp -r "$kind_files" "$context/kind"
chmod -R u+w "$context/kind"
chmod 755 "$context"/kind/usr/local/bin/* "$context"/kind/kind/bin/*
cp -r "$here/files" "$context/files"

build() { # target, [tag]; prints the image
  docker build --quiet --file "$here/Dockerfile" --target "$1" ${2:+--tag "$2"} "$context" 2>"$dir/docker-build.log" ||
    { tail -20 "$dir/docker-build.log" >&2; fail "docker build of $1 failed"; }
}

say "node image $image"
base=$(build node)
container=$(docker run --detach --network none --entrypoint sleep "$base" infinity)
trap 'docker rm --force --volumes "$container" >/dev/null' EXIT
names="$(docker exec "$container" cat /kind/images) $agnhost"
for name in $names; do
  target=${name##*/}
  build "${target%%:*}" "$name" >/dev/null
done
docker exec --detach "$container" containerd
for _ in $(seq 50); do docker exec "$container" ctr version >/dev/null 2>&1 && break; sleep 0.2; done
# shellcheck disable=SC2086 # one word each
docker save $names | docker exec --interactive "$container" ctr --namespace k8s.io images import --all-platforms --no-unpack - >/dev/null
docker exec "$container" sh -c 'kill "$(pidof containerd)"; while pidof containerd >/dev/null; do sleep 0.1; done; rm -rf /run/containerd/*'
docker commit --change 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]' --change 'CMD []' "$container" "$image" >/dev/null
# shellcheck disable=SC2086
docker rmi $names >/dev/null
say "$image has $(docker image inspect --format '{{.Size}}' "$image" | awk '{printf "%d MB", $1 / 1000000}')"
