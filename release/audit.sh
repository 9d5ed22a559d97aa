#!/usr/bin/env bash
# Asks a public database for known vulnerabilities of the packages in the image, by name and version. The tool and what it
# asks both need the network: exits 3 where not every package could be asked about, and 1 where something is known.
set -euo pipefail
cd "$(dirname "$0")/.."
lock=${1:-requirements-runtime.lock}
python=${PYTHON:-$(command -v python3.11 || command -v python3)}
tools=${AUDIT_TOOLS:-build/audit}

missing() { echo "audit: $1" >&2; exit 3; }
if [ ! -x "$tools/bin/pip-audit" ]; then
  "$python" -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check "pip-audit>=2.7,<3" >&2 \
    || { rm -rf "$tools"; missing "pip-audit cannot be installed: is the network there?"; }
fi
# What it says goes on; "I could not ask" has to be told from "there is nothing".
status=0
said=$("$tools/bin/pip-audit" --require-hashes --disable-pip --progress-spinner off -r "$lock" 2>&1) || status=$?
printf '%s\n' "$said"
if [ "$status" -ne 0 ] && ! grep -q '^Found ' <<< "$said"; then missing "pip-audit failed; nothing is known of these packages"; fi
if [ "$status" -eq 0 ] && grep -q 'could not be audited' <<< "$said"; then
  missing "$(grep -c 'could not be audited' <<< "$said") packages are unknown to the database that answered"
fi
exit "$status"
