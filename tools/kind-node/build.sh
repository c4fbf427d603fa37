#!/usr/bin/env bash
# Usage: build.sh IMAGE AGNHOST BIN KIND_FILES DIR
# Makes the node image IMAGE for kind without a registry: Debian packages, kind's
# own files, and the programs in BIN, built from Go modules. KIND_FILES is
# images/base/files of kind's module. The images that kubeadm wants are in it, and
# agnhost under the name AGNHOST. Works in DIR, and keeps the root file system
# there. Needs Docker, debootstrap and root.
set -euo pipefail
image=$1 agnhost=$2 bin=$3 kind_files=$4 dir=$5
here=$(cd "$(dirname "$0")" && pwd)

packages=systemd,systemd-sysv,containerd,runc,containernetworking-plugins,conntrack,iptables,nftables
packages=$packages,iproute2,ethtool,socat,mount,kmod,procps
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
suite=bookworm

say() { echo "==> $*"; }
fail() { echo "error: $*" >&2; exit 1; }

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
