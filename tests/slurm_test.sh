#!/usr/bin/env bash
# Runs under Slurm, whose daemons it starts on this machine: the same bits as one process with srun --mpi=pmix, an error
# without it, and the batch script of examples/cluster, which saves at its time limit, enters the queue again and resumes.
#
#   slurm_test.sh PROGRAM     `make cluster-test` runs it; about 90 s
#
# The namespaces of processes, mounts and networks are its own, so the daemons and their jobs end with it.
set -euo pipefail
if [ "${1:-}" != --inside ]; then
  inside="unshare --net --mount --uts --ipc --pid --fork --kill-child --mount-proc"
  if [ "$(id -u)" != 0 ] || ! $inside sh -c 'mount -t tmpfs tmpfs /run && hostname node && ip link add bridge0 type bridge' 2>/dev/null; then
    echo "slurm_test: skipped: it needs root, and a kernel with namespaces and network bridges"
    exit 0
  fi
  for daemon in munged slurmctld slurmd; do
    command -v $daemon >/dev/null || { echo "slurm_test: skipped: it needs $daemon (tools/cluster_packages.txt)"; exit 0; }
  done
  exec $inside "$0" --inside "$(realpath "$1")"
fi
program=$2
shared=$(realpath "$(dirname "$0")/cluster_run.sh")
script=$(realpath "$(dirname "$0")/../examples/cluster/train.sbatch")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'echo "slurm_test: line $LINENO failed: $BASH_COMMAND" >&2; tail -n 5 "$folder"/daemons/*.log >&2' ERR
cd "$folder"
. "$shared"

# One machine, named node. Slurm's libraries look for an address that is not the loopback's.
mount -t tmpfs tmpfs /run
hostname node
ip link set lo up
ip link add bridge0 type bridge
ip address add 10.77.1.1/24 dev bridge0
ip link set bridge0 up
printf '127.0.0.1 localhost\n10.77.1.1 node\n' >hosts
mount --bind hosts /etc/hosts
mkdir -p daemons/state daemons/spool
chmod 755 "$folder" daemons
cd daemons
(umask 077 && head -c 1024 /dev/urandom >key)
munged --force --key-file "$PWD/key" --socket "$PWD/munge" --pid-file "$PWD/munged.pid" --log-file "$PWD/munged.log" \
  --seed-file "$PWD/seed" 2>/dev/null
cat >slurm.conf <<END_OF_CONF
ClusterName=test
SlurmctldHost=node
SlurmUser=root
AuthInfo=socket=$PWD/munge,cred_expire=5
StateSaveLocation=$PWD/state
SlurmdSpoolDir=$PWD/spool
SlurmctldPidFile=$PWD/slurmctld.pid
SlurmdPidFile=$PWD/slurmd.pid
SlurmctldLogFile=$PWD/slurmctld.log
SlurmdLogFile=$PWD/slurmd.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
KillWait=5
NodeName=node CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
END_OF_CONF
echo "PMIxCliTmpDirBase=$PWD" >mpi.conf
export SLURM_CONF=$PWD/slurm.conf
slurmctld
slurmd
cd ..
for _ in $(seq 60); do
  if timeout 5 sinfo --noheader --states=idle 2>/dev/null | grep -q node; then break; fi
  sleep 0.5
done
timeout 5 sinfo --noheader --states=idle | grep -q node || { failed "Slurm does not start"; tail -n 20 daemons/*.log >&2; exit 1; }

# The bits of one process; without PMIx an error, and nothing is written.
write_config one 10 4
"$program" train one.toml --threads 1 >/dev/null 2>&1
write_config several 10 4
srun --mpi=none -n 2 "$program" train several.toml --threads 1 >out.txt 2>err.txt && failed "srun without PMIx trains"
n_run=$((n_run + 1))
grep -q '^vitrine: error: .*srun --mpi=pmix' err.txt || failed "srun without PMIx: $(cat err.txt)"
[ ! -e several ] || failed "srun without PMIx wrote a folder"
srun --mpi=pmix -n 2 "$program" train several.toml --threads 1 --shard optimizer >out.txt 2>err.txt || failed "srun: $(tail -5 err.txt)"
same_checkpoint one several

# A rank that dies: srun names it, and --kill-on-bad-exit ends the others.
write_config dies 100000 4
srun --mpi=pmix --kill-on-bad-exit=1 -n 2 "$program" train dies.toml --threads 1 >out.txt 2>err.txt &
launcher=$!
for _ in $(seq 300); do [ ! -e dies/checkpoints/step-000050 ] || break; sleep 0.1; done
for pid in $(pgrep -f "^$program train dies.toml"); do
  if tr '\0' '\n' <"/proc/$pid/environ" | grep -q '^PMIX_RANK=1$'; then kill -KILL "$pid"; fi
done
begun=$SECONDS
wait $launcher && failed "the run survives the loss of a rank"
n_run=$((n_run + 1))
[ $((SECONDS - begun)) -le 15 ] || failed "it took $((SECONDS - begun)) s to end without a rank"
grep '^srun: error: node' err.txt | head -1 | grep -q 'node: task 1: Killed' || failed "a dead rank: $(tail -5 err.txt)"

# The batch script. At its time limit of a minute, Slurm sends SIGUSR1 early; the job saves and enters the queue again.
write_config run 1000000 4
mv run.toml config.toml
mkdir bin
ln -s "$program" bin/vitrine
PATH=$folder/bin:$PATH
job=$(sbatch --parsable --nodes=1 --ntasks-per-node=2 --cpus-per-task=1 --time=1 --signal=USR1@25 --output=job.txt "$script")
restarts() { scontrol show job "$job" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p'; }
for _ in $(seq 75); do [ "$(restarts)" = 0 ] || break; sleep 1; done
n_run=$((n_run + 1))
[ "$(restarts)" = 1 ] || failed "the job has not entered the queue again: $(scontrol show job "$job"; tail -5 job.txt)"
saved=$(basename "$(readlink -f run/last)")
cp -r run alone
last=$((10#${saved#step-} + 100))
write_config run $last 4
mv run.toml config.toml
for _ in $(seq 60); do
  scontrol show job "$job" | grep -q 'JobState=COMPLETED' && break
  sleep 1
done
n_run=$((n_run + 1))
scontrol show job "$job" | grep -q 'JobState=COMPLETED' || failed "the job has not ended: $(scontrol show job "$job"; tail -5 job.txt)"
grep -q "resuming after step $((last - 100))" job.txt || failed "the job has not resumed: $(tail -5 job.txt)"
write_config alone $last 4
"$program" train alone.toml --threads 1 --resume >/dev/null 2>err.txt || failed "$(tail -3 err.txt)"
same_checkpoint alone run

finish
