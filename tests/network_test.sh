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
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'echo "network_test: line $LINENO failed: $BASH_COMMAND" >&2' ERR
cd "$folder"
n_failed=0 n_run=0
failed() { echo "network_test: $1" >&2; n_failed=$((n_failed + 1)); }

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
# on_hosts HOSTS ARGUMENTS…: mpirun at host a; the word -q makes it silent about ranks that die, so only vitrine speaks
on_hosts() { exec ./on a mpirun -q --bind-to none --host "$1" --wdir "$folder" "$program" "${@:2}"; }

# write_config NAME STEPS
write_config() {
  printf '%s\n' '[model.config]' 'model_type = "vitrine"' 'd_model = 48' 'n_layers = 3' 'n_heads = 4' 'd_ff = 128' \
    'vocab_size = 64' 'max_seq_len = 64' 'positions = "rope"' 'norm = "rms"' 'activation = "silu"' 'gated = true' \
    'tied = true' '[data]' 'train = "tokens"' 'validation_fraction = 0.1' '[train]' "steps = $2" 'batch = 8' \
    'micro_batches = 4' 'seq_len = 32' 'seed = 1' '[schedule]' 'name = "constant"' 'lr = 1e-3' '[log]' 'save_every = 50' '[out]' \
    "folder = \"$1\"" >"$1.toml"
}
same() {
  n_run=$((n_run + 1))
  cmp "$1/last/model.safetensors" "$2/last/model.safetensors" || failed "$2: other weights than $1"
  cmp "$1/last/trainer_state.safetensors" "$2/last/trainer_state.safetensors" || failed "$2: other moments than $1"
}
seq 4000 | awk '{ printf "%c%c%c\n", 97 + $1 % 26, 97 + ($1 * 7) % 26, 97 + int($1 / 3) % 26 }' >text.txt
"$program" tokenizer train text.txt --model char --out characters.json >/dev/null
"$program" data pack text.txt --tokenizer characters.json --out tokens >/dev/null 2>&1

# The bits of one process, over links of 1 Gbit/s.
speed 1gbit 128kb
write_config one 10
"$program" train one.toml --threads 1 >/dev/null 2>&1
write_config several 10
for shard in none optimizer gradients parameters; do
  rm -rf several
  (on_hosts a,b,c train several.toml --threads 1 --shard $shard --json) >out.txt 2>err.txt || failed "$shard: $(tail -3 err.txt)"
  same one several
  grep -q '"hosts":\["a","b","c"\]' out.txt || failed "$shard: other hosts: $(tail -1 out.txt)"
done
speed

# A rank is lost: all end within 15 s, one line names the rank and its host, and another number of ranks continues from
# the last checkpoint to the same bytes.
write_config whole 100000
write_config parts 100000
# until_step N: waits until parts has learned step N, 60 s at most
until_step() {
  for _ in $(seq 600); do
    if [ -e parts/metrics.jsonl ] && tail -1 parts/metrics.jsonl | awk -F '[:,]' -v n="$1" '{ exit !($2 >= n) }'; then return; fi
    sleep 0.1
  done
  failed "no step $1 in 60 s: $(tail -3 err.txt)"
}
# rank_at HOST: the process of the rank there
rank_at() { ip netns pids "$1" | while read -r pid; do [ "$(cat /proc/"$pid"/comm)" != vitrine ] || echo "$pid"; done | tail -1; }
all_hosts=(a,b a,b,c b,a c,b,a)
step=0
# lose HOW HOST HOSTS TEXT: starts the run on HOSTS, where the rank at HOST is then lost
lose() {
  local launcher begun resume=
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
  wait $launcher && failed "$1 $2: the run survives"
  n_run=$((n_run + 1))
  [ $((SECONDS - begun)) -le 15 ] || failed "$1 $2 of $3: it took $((SECONDS - begun)) s to end"
  # Now and then Open MPI fails at the closed connection, and fills stderr, before the launcher asks the ranks to end.
  grep -q 'btl_tcp_endpoint' err.txt ||
    [ "$(grep "^vitrine: error" err.txt | sed 's/.*rank [0-9]* on //; s/ for .*//')" = "$4" ] || failed "$1 $2 of $3: not one line with \"$4\": $(tail -8 err.txt)"
  if [ "$1" = cut ]; then ip link set "cable-$2" up; fi
  for host in "${hosts[@]}"; do
    for _ in $(seq 50); do [ -n "$(rank_at "$host")" ] || break; sleep 0.1; done
    [ -z "$(rank_at "$host")" ] || failed "$1 $2 of $3: a rank at $host is left"
  done
}
lose freeze b a,b "b has been silent"
[ "$n_kills" = 1 ] || lose cut c a,b,c "c has been silent"
for i in $(seq "$n_kills"); do
  names=${all_hosts[i % 4]}
  victims=(${names//,/ })
  victim=${victims[RANDOM % ${#victims[@]}]}
  lose kill "$victim" "$names" "$victim has died or does not answer"
done
last=$(($(tail -1 parts/metrics.jsonl | awk -F '[:,]' '{ print $2 + 0 }') + 100))
sed -i "s/^steps.*/steps = $last/" whole.toml parts.toml
"$program" train parts.toml --threads 1 --resume >/dev/null 2>err.txt || failed "$(tail -3 err.txt)"
"$program" train whole.toml --threads 1 >/dev/null 2>&1
same whole parts

echo "network_test: $n_run checks, $n_failed failed, $SECONDS s"
[ $n_failed = 0 ]
