"""`tutti cluster`: an embedded cluster to try things on, until it is interrupted."""

from __future__ import annotations

import asyncio
import gc
import signal
from pathlib import Path

import click
import uvloop

from tutti_sim.cluster import EmbeddedCluster
from tutti_sim.controllers import roster
from tutti_sim.controllers.roster import ALL, Timing
from tutti_sim.data_folder import NoDataFile
from tutti_sim.faults.rules import load_faults
from tutti_sim.hollow.nodes import Fleet
from tutti_sim.hollow.shapes import load_shapes

GC_THRESHOLDS = (100_000, 50, 1000)
DEFAULTS = Timing()
FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command(name="cluster")
@click.option("--nodes", default=20, show_default=True, help="Hollow nodes.")
@click.option("--gpus", default=8, show_default=True, help="nvidia.com/gpu of each node.")
@click.option("--cpu", default="64", show_default=True, help="CPU of each node.")
@click.option("--memory", default="512Gi", show_default=True, help="Memory of each node.")
@click.option("--pods", default=110, show_default=True, help="Pods that fit on a node.")
@click.option("--nodes-per-rack", default=4, show_default=True, help="Nodes that share a topology.tutti.dev/rack.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=0, show_default=True, help="Port to listen on; 0 takes a free one.")
@click.option("--tls/--no-tls", default=True, help="Serve HTTPS; kubectl sends no token over plain HTTP.")
@click.option("--token", help="Bearer token of the administrator; a random one if not given.")
@click.option("--shapes", type=FILE, help="YAML file of node shapes, in place of the options above that tell of nodes.")
@click.option("--controllers", default="all", show_default=True, help=f"Controllers to run, or none: {','.join(ALL)}.")
@click.option("--without", multiple=True, metavar="NAME", help="Controller not to run; may be given several times.")
@click.option("--node-grace", default=DEFAULTS.node_grace, show_default=True, help="Seconds a node may be silent.")
@click.option("--event-ttl", default=DEFAULTS.event_ttl, show_default=True, help="Seconds that events are kept.")
@click.option("--faults", type=FILE, help="YAML file of what goes wrong; changed later at /_tutti/faults.")
@click.option("--stale", is_flag=True, help="Listen on a second port, whose reads lag as the faults say.")
@click.option("--pod-groups", is_flag=True, help="Serve Kubernetes' own PodGroups (scheduling.k8s.io), too.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Folder to keep everything in.")
@click.option("--kubeconfig", type=click.Path(path_type=Path, dir_okay=False), help="File to write, once it answers.")
def command(
    *,
    nodes: int,
    gpus: int,
    cpu: str,
    memory: str,
    pods: int,
    nodes_per_rack: int,
    host: str,
    port: int,
    tls: bool,
    token: str | None,
    shapes: Path | None,
    controllers: str,
    without: tuple[str, ...],
    node_grace: float,
    event_ttl: float,
    faults: Path | None,
    stale: bool,
    pod_groups: bool,
    data: Path | None,
    kubeconfig: Path | None,
) -> None:
    """Run a Kubernetes API server in memory, with hollow nodes that pretend to run pods."""
    fleet = Fleet(nodes=nodes, gpus=gpus, cpu=cpu, memory=memory, pods=pods, per_rack=nodes_per_rack)
    try:
        names = () if controllers == "none" else ALL if controllers == "all" else controllers.split(",")
        chosen = roster.chosen(names, without)
        shaped = load_shapes(shapes) if shapes else None
        wrong = load_faults(faults) if faults else None
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    try:
        cluster = EmbeddedCluster(
            fleet=shaped or fleet,
            host=host,
            port=port,
            tls=tls,
            token=token,
            controllers=chosen,
            timing=Timing(node_grace=node_grace, event_ttl=event_ttl),
            faults=wrong,
            stale=stale,
            data=data,
            pod_groups=pod_groups,
        )
    except NoDataFile as error:
        raise click.ClickException(str(error)) from None
    # Stored objects live long and hold no rings: looking for rings among them would cost more than all else.
    gc.set_threshold(*GC_THRESHOLDS)
    uvloop.run(_serve(cluster, kubeconfig))


async def _serve(cluster: EmbeddedCluster, kubeconfig: Path | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with cluster:
        if kubeconfig is not None:
            cluster.write_kubeconfig(kubeconfig)
        where = f", kubeconfig in {kubeconfig}" if kubeconfig else f", token {cluster.token}"
        click.echo(f"listening on {cluster.url}{where}")
        if cluster.stale_url:
            click.echo(f"reading late on {cluster.stale_url}")
        serving = asyncio.create_task(cluster.serve())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if serving.done():
            serving.result()
        serving.cancel()
