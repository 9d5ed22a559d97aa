"""The Helm chart, made from what kustomize installs: `python -m release.chart manifests/chart`.

Rights, objects and the configuration are those of `manifests/`; what people may set is in `skeleton/values.yaml`. So
that nothing can be installed in one way and not in the other, a file of `manifests/` that goes into no template is an
error here, and a test renders the chart and compares it with kustomize.
"""
