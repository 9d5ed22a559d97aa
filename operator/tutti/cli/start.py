"""What `tutti run` does once a signal can no longer be missed: it loads the operator, and runs it."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NoReturn

from tutti.api.configuration import TuttiConfiguration
from tutti.api.configuration import load_configuration as read
from tutti.api.problems import ConfigurationError
from tutti.api.shards import DEFAULT_SHARD
from tutti.cli.terminal import echo
from tutti.controller import logs
from tutti.controller.main import Launch, run_operator
from tutti.controller.plugins import load_plugins, read_policies
from tutti.engine.records.plugins import Plugins
from tutti.kube.credentials import CredentialsError

_PORT = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
"""What it says of a port that is taken, and of an address that is not this machine's."""
_USAGE = 2
"""Exit code of what the caller has to mend, as click's own."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What was said on the command line; None where nothing was."""

    kubeconfig: Path | None
    context: str | None
    file: Path | None
    journal: Path | None
    metrics_port: int | None
    log_format: Literal["json", "console"] | None
    shard: str = DEFAULT_SHARD


def start(options: RunOptions) -> NoReturn:
    """Run the operator until a signal, and end the process."""
    configuration = _configuration(options.file, options.metrics_port)
    _check_shard(options.shard, configuration)
    logging = configuration.logging
    logs.configure(options.log_format or logging.format, level=logging.level)
    try:
        plugins = partial(load_plugins, configuration, read_policies(configuration))
        sys.exit(run_operator(_launch(options, configuration, plugins)))
    except ConfigurationError as error:
        _fail(f"configuration {error}")
    except CredentialsError as error:
        _fail(str(error))
    except OSError as error:
        _fail(_why_not(error, configuration))


def _launch(options: RunOptions, configuration: TuttiConfiguration, plugins: Callable[[], Plugins]) -> Launch:
    return Launch(
        configuration, options.kubeconfig, options.context, options.journal, plugins=plugins, shard=options.shard
    )


def _check_shard(shard: str, configuration: TuttiConfiguration) -> None:
    """End where a shard is meant that is not there: its process would schedule nothing."""
    names = [DEFAULT_SHARD, *(one.name for one in configuration.shards)]
    if shard not in names:
        _fail(f"--shard {shard}: the configuration has no such shard; it has {', '.join(names)}")


def _why_not(error: OSError, configuration: TuttiConfiguration) -> str:
    """Say what the operating system did not let us have, and where another is named."""
    if error.errno not in _PORT:
        return f"cannot start: {error}"
    metrics, fields = configuration.metrics, "metrics.bindAddress"
    ports = [metrics.bind_address.rpartition(":")[2]]
    if metrics.secure_bind_address is not None:
        ports.append(metrics.secure_bind_address.rpartition(":")[2])
        fields += " and metrics.secureBindAddress"
    return (
        f"port {' or '.join(ports)} for metrics and probes cannot be listened on: {os.strerror(error.errno).lower()}; "
        f"give another with --metrics-port, or {fields} in the configuration"
    )


def _configuration(file: Path | None, metrics_port: int | None) -> TuttiConfiguration:
    """Return the configuration with what the command line says in its place."""
    try:
        configuration = TuttiConfiguration() if file is None else read(file.read_text("utf-8"), str(file))
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
    echo(f"tutti run: {message}", err=True)
    sys.exit(_USAGE)
