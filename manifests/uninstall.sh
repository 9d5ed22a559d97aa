#!/usr/bin/env bash
# Takes Tutti out of the cluster that kubectl talks to, and leaves nothing behind: run it while the operator still runs.
#
#   manifests/uninstall.sh            waits until nothing runs in any queue
#   FORCE=1 manifests/uninstall.sh    does not: pods that run go on without quota, finalizers are taken off
#
# Nothing happens to pods; those that wait for a place wait on, for a scheduler that is no more. Exits 1 if something is
# left, and says what.
set -euo pipefail
group=scheduling.tutti.dev
namespace=${NAMESPACE:-tutti-system}
patience=${TIMEOUT:-120s}
label=app.kubernetes.io/part-of=tutti
held="clusterqueues.$group resourceflavors.$group topologies.$group"

served() { kubectl get crd "$1" --ignore-not-found -o name; }
existing() { for kind in "$@"; do if [ -n "$(served "$kind")" ]; then echo "$kind"; fi; done; }
say() { echo "uninstall: $*" >&2; }

# First of all, so that nothing that follows is held up by a webhook whose operator is going.
kubectl delete validatingwebhookconfigurations,mutatingwebhookconfigurations -l "$label" --ignore-not-found
policies=validatingadmissionpolicybindings,validatingadmissionpolicies
kubectl delete "$policies" -l "$label" --ignore-not-found

# Queues are held by finalizers until nothing uses them, which only the operator can tell; flavors and topologies by queues.
for kind in $(existing "localqueues.$group" $held "cohorts.$group"); do
  scope=$(kubectl get crd "$kind" -o 'jsonpath={.spec.scope}')
  everywhere=$([ "$scope" = Namespaced ] && echo --all-namespaces || true)
  if [ -n "${FORCE:-}" ]; then
    kubectl delete "$kind" --all $everywhere --wait=false
    for one in $(kubectl get "$kind" -o name); do
      kubectl patch "$one" --type=merge -p '{"metadata":{"finalizers":null}}' >/dev/null || true # gone by itself meanwhile
    done
  elif ! kubectl delete "$kind" --all $everywhere --timeout="$patience"; then
    say "something still runs in these queues; stop it, or give it up with FORCE=1:"
    kubectl get "$kind" $everywhere -o 'jsonpath={range .items[*]}{.metadata.name}: {.status.conditions[?(@.type=="Active")].message}{"\n"}{end}' >&2
    exit 1
  fi
done

# The operator with all that is its own, ConfigMaps of earlier configurations and the lease among it.
kubectl delete namespace "$namespace" --ignore-not-found --timeout="$patience"
# Gangs and workloads go with their definitions.
for kind in $(kubectl get crd -o name | grep "\.$group\$" || true); do kubectl delete "$kind" --timeout="$patience"; done
kubectl delete clusterroles,clusterrolebindings -l "$label" --ignore-not-found

left=$(
  kubectl get namespace "$namespace" --ignore-not-found -o name
  kubectl get crd -o name | grep "\.$group\$" || true
  kubectl get "clusterroles,clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations,$policies" -l "$label" -o name
)
if [ -n "$left" ]; then say "these are left:"; echo "$left" >&2; exit 1; fi
say "nothing is left"
