# syntax=docker/dockerfile:1
# Two stages: what builds the environment stays behind, and only the environment is shipped.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
RUN python -m venv /opt/tutti
WORKDIR /src
# The dependencies first and by hash: this layer changes only with the lock file.
COPY requirements-runtime.lock ./
RUN /opt/tutti/bin/pip install --require-hashes --only-binary :all: -r requirements-runtime.lock
COPY pyproject.toml README.md LICENSE ./
COPY operator ./operator
COPY crds ./crds
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install "hatchling>=1.27" \
 && /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheel . \
 && /opt/tutti/bin/pip install --no-deps /wheel/*.whl \
 && /opt/tutti/bin/python -m compileall -q /opt/tutti/lib \
 && /opt/tutti/bin/pip uninstall --yes pip setuptools

FROM python:${PYTHON}
# A number, so that runAsNonRoot can be checked without reading the image's passwd.
RUN useradd --uid 65532 --no-create-home --shell /usr/sbin/nologin tutti
COPY --from=build /opt/tutti /opt/tutti
ENV PATH=/opt/tutti/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8080 9443
ENTRYPOINT ["tutti"]
CMD ["run", "--log-format", "json"]
