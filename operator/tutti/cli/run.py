"""`tutti run`: the operator itself, in the foreground, until a signal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal, NoReturn

import click

from tutti.api.configuration import ConfigurationError, TuttiConfiguration, load
from tutti.controller import logs
from tutti.controller.main import Launch, run
from tutti.kube.credentials import CredentialsError

_USAGE = 2
"""Exit code of what the caller has to mend, as click's own."""


@click.command("run")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="File that says how to reach the cluster.")
@click.option("--context", help="Context of the kubeconfig; its current one if not given.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="File with a TuttiConfiguration.")
@click.option("--journal", type=click.Path(path_type=Path), help="Record what is seen and decided, for `tutti replay`.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Port of /metrics and probes; 0 takes a free one.")
@click.option("--log-format", type=click.Choice(["json", "console"]), help="How log lines look.")
def command(
    *,
    kubeconfig: Path | None,
    context: str | None,
    file: Path | None,
    journal: Path | None,
    metrics_port: int | None,
    log_format: Literal["json", "console"] | None,
) -> None:
    """Run the scheduler: queue, admit, place and bind pods with `schedulerName: tutti`."""
    configuration = _configuration(file, metrics_port)
    logging = configuration.logging
    logs.configure(log_format or logging.format, level=logging.level)
    try:
        sys.exit(run(Launch(configuration, kubeconfig, context, journal)))
    except CredentialsError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"cannot start: {error}")


def _configuration(file: Path | None, metrics_port: int | None) -> TuttiConfiguration:
    """Return the configuration with what the command line says in its place."""
    try:
        configuration = TuttiConfiguration() if file is None else load(file.read_text("utf-8"), str(file))
    except OSError as error:
        _fail(f"configuration {file} cannot be read: {error.strerror}")
    except (ConfigurationError, UnicodeDecodeError) as error:
        _fail(f"configuration {error}")
    if metrics_port is None:
        return configuration
    host = configuration.metrics.bind_address.rpartition(":")[0]
    metrics = configuration.metrics.model_copy(update={"bind_address": f"{host}:{metrics_port}"})
    return configuration.model_copy(update={"metrics": metrics})


def _fail(message: str) -> NoReturn:
    """End with one line that says what is wrong."""
    click.echo(f"tutti run: {message}", err=True)
    sys.exit(_USAGE)
