#!/usr/bin/env bash
# The stories of e2e/ on kind: makes a cluster, runs them, and deletes it. Exits 3 where kind cannot run.
set -euo pipefail
cd "$(dirname "$0")/.."
cluster=${KIND_CLUSTER:-tutti-e2e}

missing() { echo "e2e-kind: $1" >&2; exit 3; }
command -v kind >/dev/null || missing "kind is not installed (https://kind.sigs.k8s.io); the same stories run with: make e2e"
command -v docker >/dev/null || missing "docker is not installed, and kind needs it; the same stories run with: make e2e"
docker info >/dev/null 2>&1 || missing "no Docker engine answers, and kind needs one; the same stories run with: make e2e"

work=$(mktemp -d)
cleanup() {
  status=$?
  if [ "$status" -ne 0 ]; then kind export logs --name "$cluster" "$work/logs" >&2 || true; echo "logs: $work/logs" >&2; fi
  [ -n "${KEEP:-}" ] || kind delete cluster --name "$cluster" >&2
  exit "$status"
}
trap cleanup EXIT

kind create cluster --name "$cluster" --config e2e/kind.yaml --kubeconfig "$work/kubeconfig" --wait 120s
KUBECONFIG="$work/kubeconfig" python -m pytest e2e --cluster kind "$@"
