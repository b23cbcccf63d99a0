#!/bin/sh
# One step for any CI: fails when the repository is not sound. Under GitHub Actions each finding
# becomes an annotation; everywhere else there is a JUnit report besides the text.
#
#     REPO=s3://my-bucket/weather LEVEL=chunks ci-validate.sh
set -eu
: "${REPO:?the repository: a URL, a path or a name from the config file}"
: "${LEVEL:=manifests}"
: "${REPORT:=icectl-validate.xml}"

if [ "${GITHUB_ACTIONS:-}" = true ]; then set -- --github; else set --; fi
exec icectl validate -r "$REPO" --level "$LEVEL" --junit "$REPORT" --quiet "$@"
