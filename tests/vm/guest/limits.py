"""Runs the contract of limits where they bind, and prints one JSON object a clause."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from kern_tools.conformance import run_contracts
from kern_tools.host_image import host_reference

subprocess.run(
    ["kern", "tag", os.environ["IMAGE"], host_reference()],
    check=True,
    capture_output=True,
)
ran = run_contracts(
    adapters=["none"],
    expression="limits",
    tell=lambda line: print(line, file=sys.stderr, flush=True),
)
for row in ran.to_dict()["clauses"]:
    print(json.dumps(row), flush=True)
