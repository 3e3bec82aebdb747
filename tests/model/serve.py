"""Serve a model on loopback until stdin ends: `serve.py WEIGHTS TEMPLATE`.

A program of its own: it runs with the server's package on its path and nothing of ours.
It prints one line, the URL.
"""

# Only the server's folder has the package.
# mypy: disable-error-code="import-not-found"
# pyright: reportMissingImports=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import sys
from pathlib import Path

import xllamacpp

_CONTEXT_TOKENS = 8192
# With two, a machine that does anything else beside it comes to a crawl.
_THREADS = 1

parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
parameters.chat_template = Path(sys.argv[2]).read_text(encoding="utf-8")
parameters.use_jinja = True
parameters.hostnames = ["127.0.0.1"]
parameters.port = 0
parameters.ui = False
parameters.n_ctx = _CONTEXT_TOKENS
parameters.n_parallel = 1
parameters.cpuparams.n_threads = _THREADS
parameters.cpuparams_batch.n_threads = _THREADS

server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
sys.stdin.read()
