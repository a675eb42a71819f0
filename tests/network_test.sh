#!/usr/bin/env bash
# Runs over a network: hosts are network namespaces on a bridge, and mpirun starts ranks there over TCP. The same bits as
# one process, links that are slow or cut, ranks that are killed or frozen.
#
#   network_test.sh PROGRAM [KILLS]     `make cluster-test` runs it
#
# KILLS (1) says how often a random rank is killed. If it is more than 1, a link is cut, too: then mpirun itself may wait
# for as long as TCP does.
#
# The namespaces of processes, mounts and networks are its own, so everything that it starts and makes ends with it.
set -euo pipefail
if [ "${1:-}" != --inside ]; then
  inside="unshare --net --mount --uts --ipc --pid --fork --kill-child --mount-proc"
  [ "$(id -u)" = 0 ] || inside="${inside/unshare/unshare --user --map-root-user}"
  if ! $inside sh -c 'mount -t tmpfs tmpfs /run && mkdir /run/netns && ip netns add probe &&
      ip -n probe link add veth0 type veth peer name veth1 && ip link add bridge0 type bridge &&
      tc -n probe qdisc add dev veth0 root tbf rate 1gbit burst 128kb latency 50ms' 2>/dev/null; then
    echo "network_test: skipped: it needs root, and a kernel with network namespaces, bridges and tc's tbf"
    exit 0
  fi
  exec $inside "$0" --inside "$(realpath "$1")" "${2:-1}"
fi
program=$2 n_kills=$3
shared=$(realpath "$(dirname "$0")/cluster_run.sh")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'echo "network_test: line $LINENO failed: $BASH_COMMAND" >&2' ERR
cd "$folder"
. "$shared"

# Hosts a, b and c at 10.77.0.1 to 3, each on its cable to the bridge.
hosts=(a b c)
mount -t tmpfs tmpfs /run
mkdir /run/netns
ip link set lo up
ip link add bridge0 type bridge
ip link set bridge0 up
for i in 0 1 2; do
  host=${hosts[i]}
  ip netns add "$host"
  ip link add "cable-$host" type veth peer name eth0 netns "$host"
  ip link set "cable-$host" master bridge0 up
  ip -n "$host" address add 10.77.0.$((i + 1))/24 dev eth0
  ip -n "$host" link set lo up
  ip -n "$host" link set eth0 up
done
printf '%s\n' '#!/bin/bash' 'host=$1' 'shift' \
  'exec ip netns exec "$host" unshare --uts bash -c "hostname $host && exec $*"' >on
chmod +x on
# speed RATE BURST: of all cables in both directions; without arguments as fast as the machine
speed() {
  for host in "${hosts[@]}"; do
    tc -n "$host" qdisc delete dev eth0 root 2>/dev/null || true
    [ $# = 0 ] || tc -n "$host" qdisc add dev eth0 root tbf rate "$1" burst "$2" latency 50ms
  done
}

export OMPI_MCA_plm_rsh_agent=$folder/on OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
# Without these, mpirun itself waits for a host whose link is cut, for up to a quarter of an hour.
export OMPI_MCA_oob_tcp_keepalive_time=1 OMPI_MCA_oob_tcp_keepalive_intvl=1 OMPI_MCA_oob_tcp_keepalive_probes=2
# on_hosts HOSTS ARGUMENTS…: mpirun at host a
on_hosts() { exec ./on a mpirun --bind-to none --host "$1" --wdir "$folder" "$program" "${@:2}"; }

# The bits of one process, over links of 1 Gbit/s.
speed 1gbit 128kb
write_config one 10 4
"$program" train one.toml --threads 1 >/dev/null 2>&1
write_config several 10 4
for shard in none optimizer gradients parameters; do
  rm -rf several
  (on_hosts a,b,c train several.toml --threads 1 --shard $shard --json) >out.txt 2>err.txt || failed "$shard: $(tail -3 err.txt)"
  same_checkpoint one several
  grep -q '"hosts":\["a","b","c"\]' out.txt || failed "$shard: other hosts: $(tail -1 out.txt)"
done
speed

# A rank is lost: all end within 15 s, one line names the rank and its host, and another number of ranks continues from
# the last checkpoint to the same bytes.
write_config whole 100000 4
write_config parts 100000 4
# rank_at HOST: the process of the rank there
rank_at() { ip netns pids "$1" | while read -r pid; do [ "$(cat /proc/"$pid"/comm)" != vitrine ] || echo "$pid"; done | tail -1; }
all_hosts=(a,b a,b,c b,a c,b,a)
step=0
# lose HOW HOST HOSTS: starts the run on HOSTS, where the rank at HOST is then lost
lose() {
  local launcher begun status=0 resume=
  [ ! -e parts/metrics.jsonl ] || step=$(tail -1 parts/metrics.jsonl | awk -F '[:,]' '{ print $2 + 0 }')
  step=$((step + 100))
  [ ! -e parts ] || resume=--resume
  (on_hosts "$3" train parts.toml --threads 1 $resume --peer-timeout 4) >out.txt 2>err.txt &
  launcher=$!
  until_step $step
  sleep 0.$((RANDOM % 10))
  begun=$SECONDS
  case $1 in
    kill) kill -KILL "$(rank_at "$2")" ;;
    freeze) kill -STOP "$(rank_at "$2")" ;;
    cut) ip link set "cable-$2" down ;;
  esac
  wait $launcher || status=$?
  [ $status != 0 ] || failed "$1 $2: the run survives"
  n_run=$((n_run + 1))
  [ $((SECONDS - begun)) -le 15 ] || failed "$1 $2 of $3: it took $((SECONDS - begun)) s to end"
  # mpirun names a rank that was killed, if it does not crash itself (a signal in libpmix, as it loses a daemon). So does
  # vitrine, if Open MPI does not hang at the closed connection.
  [ "$1" != kill ] || [ $status -gt 128 ] || grep -q "^mpirun noticed that process rank [0-9]* with PID [0-9]* on node $2 exited on signal 9" err.txt ||
    failed "kill $2 of $3: mpirun does not name it: $(tail -8 err.txt)"
  [ "$1" = kill ] && grep -q 'mca/btl/tcp\|Open MPI failed to TCP connect\|unexpectedly disconnected' err.txt ||
    [ "$(grep '^vitrine: error' err.txt | sed 's/.*rank [0-9]* on \([abc]\) .*/\1/')" = "$2" ] ||
    failed "$1 $2 of $3: not one line that names it: $(tail -8 err.txt)"
  if [ "$1" = cut ]; then
    ip link set "cable-$2" up
    for _ in $(seq 100); do ip netns exec "$2" timeout 1 bash -c ': </dev/tcp/10.77.0.1/9' 2>&1 | grep -q refused && break; sleep 0.1; done
  fi
  for host in "${hosts[@]}"; do
    for _ in $(seq 50); do [ -n "$(rank_at "$host")" ] || break; sleep 0.1; done
    [ -z "$(rank_at "$host")" ] || failed "$1 $2 of $3: a rank at $host is left"
  done
}
lose freeze b a,b
[ "$n_kills" = 1 ] || lose cut c a,b,c
for i in $(seq "$n_kills"); do
  names=${all_hosts[i % 4]}
  victims=(${names//,/ })
  victim=${victims[RANDOM % ${#victims[@]}]}
  lose kill "$victim" "$names"
done
last=$(($(tail -1 parts/metrics.jsonl | awk -F '[:,]' '{ print $2 + 0 }') + 100))
sed -i "s/^steps.*/steps = $last/" whole.toml parts.toml
"$program" train parts.toml --threads 1 --resume >/dev/null 2>err.txt || failed "$(tail -3 err.txt)"
"$program" train whole.toml --threads 1 >/dev/null 2>&1
same_checkpoint whole parts

finish
