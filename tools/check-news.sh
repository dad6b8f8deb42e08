#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Run by `meson dist`: a release must have a section in NEWS.md. tools/check-news.sh VERSION
set -euo pipefail

version=${1:?version}
news=${MESON_SOURCE_ROOT:-$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/..}/NEWS.md

grep -qxF "# CHANGES WITH $version" <(sed 's/^##* */# /; s/:$//' "$news") || {
  echo "NEWS.md has no section 'CHANGES WITH $version': write it before a release" >&2
  exit 1
}
