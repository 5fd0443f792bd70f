#!/bin/sh
# Put everything on the Prefect server at PREFECT_API_URL, for workers: from the root of the checkout
#   ANSWERKEY_HOME=/srv/answerkey sh deployments/deploy.sh [process | docker | kubernetes]
#   prefect worker start --pool answerkey
# The home is a folder of the workers' machine, or s3://BUCKET/PREFIX. With docker or kubernetes each run has a container
# of its own, by the template in the pool.yaml of that folder. Started again, it brings all but automations up to date.
set -eu
kind=${1:-process}
export ANSWERKEY_HOME="${ANSWERKEY_HOME:-.answerkey}"

set -- --overwrite --type "$kind"
if [ "$kind" != process ]; then
    template=$(mktemp)
    python -c 'import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)["base_job_template"]))' \
        < "deployments/$kind/pool.yaml" > "$template"
    set -- "$@" --base-job-template "$template"
fi
prefect work-pool create answerkey "$@"
# Runs that share a machine queue up: that is faster than to compete.
[ "$kind" = kubernetes ] || prefect work-queue set-concurrency-limit default 1 --pool answerkey
prefect --no-prompt deploy --all --prefect-file deployments/prefect.yaml
for name in crashed dead-runs; do
    file=deployments/automations/$name.yaml
    automation=$(sed -n 's/^  - name: //p' "$file")
    prefect automation inspect "$automation" > /dev/null 2>&1 || prefect automation create --from-file "$file"
done
