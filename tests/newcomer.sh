#!/bin/bash
# Performs the steps of a new user on a bare Debian 12: make run, make test, the README's commands, install, examples,
# packages.
#   newcomer.sh ROOT|BASE.tar[.gz]        as root
#
# ROOT is a folder made by `debootstrap --variant=minbase bookworm ROOT`; the script makes it if it does not exist.
# BASE.tar is an archive of such a folder. The script works in a copy with its own /proc and /dev, which it removes at
# the end. It builds vitrine and runs all tests in the copy; because this takes long, it is not part of `make test`.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
[ "$(id -u)" = 0 ] || { echo "newcomer: expected to run as root" >&2; exit 1; }
source=$(cd "$(dirname "$0")/.." && pwd)
base="$1"
work=$(mktemp -d /var/tmp/vitrine_newcomer_XXXXXX)
root="$work/root"
clean_up() {
  if mountpoint -q "$root/proc"; then umount "$root/proc"; fi
  if ! mountpoint -q "$root/proc"; then rm -rf --one-file-system "$work"; fi
}
trap clean_up EXIT

step() { printf '\n=== %s (%ds)\n' "$1" "$SECONDS"; }
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
  http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" DEBIAN_FRONTEND=noninteractive \
  bash -euc "cd /root; $1"; }

step "a bare Debian 12"
mkdir "$root"
if [ -f "$base" ]; then
  tar -C "$root" -xf "$base"
else
  [ -d "$base/usr" ] || debootstrap --variant=minbase bookworm "$base"
  cp -a --one-file-system "$base/." "$root"
fi
mount -t proc proc "$root/proc"
rm -rf "$root/dev" && mkdir -p "$root/dev"
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/zero" c 1 5
mknod -m 666 "$root/dev/full" c 1 7
mknod -m 666 "$root/dev/random" c 1 8
mknod -m 666 "$root/dev/urandom" c 1 9
mknod -m 666 "$root/dev/tty" c 5 0
ln -s /proc/self/fd "$root/dev/fd"
mkdir -m 1777 "$root/dev/shm"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
for file in /etc/apt/apt.conf.d/*proxy*; do
  if [ -f "$file" ]; then cp "$file" "$root/etc/apt/apt.conf.d/"; fi
done

step "apt install make git; the repository"
inside 'apt-get update -q && apt-get install -q -y --no-install-recommends make git ca-certificates >/dev/null'
git -C "$source" archive --prefix=vitrine/ HEAD | tar -C "$root/root" -xf -
inside 'cd vitrine; git init -q; git add -A; git -c user.name=n -c user.email=n@localhost commit -qm newcomer'

step "make run"
inside 'cd vitrine; make run'
step "make test"
inside 'cd vitrine; make test'
step "the commands of the README"
inside 'cd vitrine; tests/docs_test.sh $PWD $PWD/build README.md'
step "make install, the examples"
inside 'cd vitrine; make install >/dev/null; cd /root; vitrine --version; man -w vitrine 2>/dev/null || true
  cmake -S vitrine/examples -B examples -G Ninja >/dev/null; cmake --build examples
  examples/predict /usr/local/share/vitrine/models/default Once
  examples/generate /usr/local/share/vitrine/models/default Once
  examples/read_site /usr/local/share/vitrine/models/default Hi "*.attn.hook_pattern"
  g++ -std=c++20 vitrine/examples/predict.cpp $(pkg-config --cflags --libs vitrine) -o predict
  ./predict /usr/local/share/vitrine/models/default Once'
step "make package, dpkg -i"
inside 'rm -rf /usr/local/bin/vitrine /usr/local/share/vitrine /usr/local/lib/cmake/vitrine /usr/local/include/vitrine
  rm -f /usr/local/lib/libvitrine.a /usr/local/lib/pkgconfig/vitrine.pc
  cd vitrine; make package; dpkg -i build/packages/*.deb; cd /; hash -r; command -v vitrine; vitrine --version
  vitrine generate Hi --max-tokens 4 --json; rm -rf /root/examples
  cmake -S /usr/share/doc/libvitrine-dev/examples -B /root/examples -G Ninja >/dev/null; cmake --build /root/examples'
step "done"
