"""How long a job takes that starts, meets once and ends."""

import launch

NAME = "init"
TITLE = "launch, init, one barrier and the end, wall time"
RANKS = [4, 16, 64]


def programs(build):
    """name -> (command for n ranks, settings as printed)."""
    return {
        "hvdrun": (
            lambda n: [f"{build}/hvdrun", "-np", str(n), "-H", f"localhost:{n}"]
            + [f"{build}/bench/init_barrier"],
            "hvd::init and hvd::barrier",
        ),
        "MPICH": (
            lambda n: ["mpiexec.hydra", "-n", str(n), f"{build}/bench/init_mpich"],
            "mpiexec.hydra -n N",
        ),
        "Open MPI": (
            lambda n: ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"]
            + ["--mca", "pml", "ob1", "--mca", "btl", "self,vader"]
            + ["-np", str(n), f"{build}/bench/init_openmpi"],
            "mpirun --bind-to none --mca pml ob1 --mca btl self,vader -np N",
        ),
    }


def measure(build, rounds, report):
    return launch.alternate(NAME, RANKS, programs(build), rounds, report)
