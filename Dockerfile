# syntax=docker/dockerfile:1
# Two stages: what builds the environment stays behind, and only the environment is shipped. What it runs on is pinned to the
# index of all platforms, so that the same commit makes the same image; for another one:
#   docker build --build-arg PYTHON=3.11-slim-bookworm@sha256:... -t tutti .
ARG PYTHON=3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM python:${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
RUN python -m venv /opt/tutti && python -m venv /opt/build
WORKDIR /src
# The dependencies first and by hash: these layers change only with the lock files.
COPY requirements-runtime.lock requirements.lock ./
RUN /opt/tutti/bin/pip install --require-hashes --only-binary :all: -r requirements-runtime.lock
# Of what developers have, only what makes a wheel.
RUN awk '/^[^ #]/ { keep = /^(hatchling|packaging|pathspec|pluggy|tomlkit|trove-classifiers)==/ } keep' requirements.lock > build.lock \
 && /opt/build/bin/pip install --require-hashes --only-binary :all: -r build.lock
COPY pyproject.toml README.md LICENSE ./
# The operator alone: the embedded cluster, the demo and the bench beside it are another distribution.
COPY operator/tutti ./operator/tutti
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheel . \
 && /opt/tutti/bin/pip install --no-deps /wheel/*.whl \
 && find /opt/tutti/lib -type d \( -name tests -o -path '*/kubernetes/aio' \) -prune -exec rm -rf {} + \
 && /opt/tutti/bin/python -m compileall -q /opt/tutti/lib \
 && /opt/tutti/bin/pip uninstall --yes pip setuptools

FROM python:${PYTHON}
# A number, so that runAsNonRoot can be checked without reading the image's passwd.
RUN useradd --uid 65532 --no-create-home --shell /usr/sbin/nologin tutti
COPY --from=build /opt/tutti /opt/tutti
# Nothing is written but to /tmp: run it with a read-only root.
ENV PATH=/opt/tutti/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
USER 65532:65532
EXPOSE 8080 9443
# For Docker alone; Kubernetes asks the probes of the Deployment.
HEALTHCHECK --start-period=30s --interval=10s --timeout=3s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["tutti"]
CMD ["run", "--log-format", "json"]
