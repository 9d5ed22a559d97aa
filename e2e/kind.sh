#!/usr/bin/env bash
# The stories of e2e/ on kind, with the image and the manifests as a user installs them. Exits 3 where kind cannot run.
#
#   KEEP=1        keeps the cluster          KWOK_NODES=n  pretended nodes for the stories of scale (100; 0: none)
#   LOGS=folder   where logs go to           KIND_CLUSTER  the cluster's name
set -euo pipefail
cd "$(dirname "$0")/.."
cluster=${KIND_CLUSTER:-tutti-e2e}
nodes=${KWOK_NODES:-100}
kwok=https://github.com/kubernetes-sigs/kwok/releases/download/${KWOK_VERSION:-v0.6.1}
image=tutti:$(sed -n 's/^  newTag: *//p' manifests/base/kustomization.yaml)

missing() { echo "e2e-kind: $1" >&2; exit 3; }
for tool in kind docker kubectl; do
  command -v "$tool" >/dev/null || missing "$tool is not installed; the same stories run with: make e2e"
done
docker info >/dev/null 2>&1 || missing "no Docker engine answers, and kind needs one; the same stories run with: make e2e"

work=$(mktemp -d)
logs=${LOGS:-$work/logs}
export KUBECONFIG="$work/kubeconfig"

collect() {
  mkdir -p "$logs"
  kind export logs --name "$cluster" "$logs" >&2
  kubectl get pods,nodes,events -A -o wide > "$logs/objects.txt"
  kubectl get workloads.scheduling.tutti.dev,podgroups.scheduling.tutti.dev,clusterqueues -A -o yaml > "$logs/tutti.yaml"
  kubectl logs -n tutti-system -l app.kubernetes.io/name=tutti --tail=-1 --prefix > "$logs/operator.txt"
}
finish() {
  status=$?
  trap - EXIT
  if [ "$status" -ne 0 ]; then (set +e; collect); echo "logs: $logs" >&2; fi
  [ -n "${KEEP:-}" ] || kind delete cluster --name "$cluster" >&2
  exit "$status"
}
trap finish EXIT

docker build --tag "$image" .
kind create cluster --name "$cluster" --config e2e/kind.yaml --kubeconfig "$KUBECONFIG" --wait 120s
kind load docker-image "$image" --name "$cluster"

kubectl apply --server-side -k manifests/overlays/ha
kubectl wait --for=condition=Established crd --all --timeout=60s
kubectl rollout status deployment/tutti --namespace tutti-system --timeout=180s

if [ "$nodes" -gt 0 ]; then
  kubectl apply --server-side -f "$kwok/kwok.yaml" -f "$kwok/stage-fast.yaml"
  kubectl rollout status deployment/kwok-controller --namespace kube-system --timeout=180s
  python -m e2e.harness.pretended "$nodes" | kubectl apply --server-side -f -
fi

# First with the operator that was installed; then by itself, because the other stories start and kill their own, and count
# nodes.
python -m pytest e2e -m kind --cluster kind
kubectl delete nodes -l type=kwok
kubectl scale deployment/tutti --namespace tutti-system --replicas=0
kubectl wait --for=delete pod --namespace tutti-system -l app.kubernetes.io/name=tutti --timeout=60s
python -m pytest e2e -m "not kind" --cluster kind "$@"
