#!/bin/bash
STARROCKS_HOME="${STARROCKS_HOME:-$(cd "$(dirname "$0")/.." && pwd)}" exec "${PROCPROF:-procprof}" collect "$@"
