#!/bin/bash
#SBATCH --nodes=4 --ntasks-per-node=1 --cpus-per-task=16 --exclusive --time=08:00:00
source .venv/bin/activate
export RAY_worker_niceness=0 RAY_AUTH_MODE=token    # ~/.ray is shared between the nodes
(umask 077 && ray get-auth-token --generate > /dev/null)
head=$(hostname --ip-address | cut -d' ' -f1)
ray start --head --node-ip-address "$head" --port 6379
others=$((SLURM_NNODES - 1))
srun --nodes=$others --ntasks=$others --exclude="$(hostname)" \
  ray start --address "$head:6379" --block &
sleep 30
live-eval run run.toml --out recordings/big --ray "$head:6379"    # add --resume to continue it
ray stop
