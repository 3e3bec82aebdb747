"""A real registry on loopback, and images that exist only there."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
import threading
import urllib.request
from collections import deque
from pathlib import Path
from typing import IO, Self

from tests.debian import carried

_CONFIG = """\
version: 0.1
log: {level: info, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: %s}}
http: {addr: "127.0.0.1:0"}
"""
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_TYPE = "application/vnd.oci.image"
# A proxy that the environment names does not reach this machine's own loopback.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Registry:
    """A `docker-registry` of its own, from construction to `close`.

    Attributes:
        host: `localhost:PORT`, which kern talks to without TLS.
    """

    def __init__(self, folder: Path) -> None:
        config = folder / "config.yml"
        config.write_text(_CONFIG % (folder / "storage"))
        program = carried("docker-registry", package="docker-registry")
        self._process = subprocess.Popen(
            [program, "serve", config],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        self.host = f"localhost:{_listening(self._process.stderr)}"
        self._drain = threading.Thread(
            target=deque, args=(self._process.stderr, 0), daemon=True
        )
        self._drain.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._drain.join()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def push(self, name: str, layer: bytes, *, tag: str = "1") -> str:
        """Store an image of one layer.

        Args:
            name: The repository.
            layer: A tar archive.
            tag: The tag to give it.

        Returns:
            The digest of its manifest.
        """
        stored = self._blob(name, layer)
        config = {
            "architecture": _MACHINES[platform.machine()],
            "os": "linux",
            "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [stored["digest"]]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_TYPE}.manifest.v1+json",
            "config": {
                "mediaType": f"{_TYPE}.config.v1+json",
                **self._blob(name, json.dumps(config).encode()),
            },
            "layers": [{"mediaType": f"{_TYPE}.layer.v1.tar", **stored}],
        }
        body = json.dumps(manifest).encode()
        url = f"http://{self.host}/v2/{name}/manifests/{tag}"
        _send("PUT", url, body, f"{_TYPE}.manifest.v1+json")
        return _digest(body)

    def _blob(self, name: str, data: bytes) -> dict[str, str | int]:
        start = _send("POST", f"http://{self.host}/v2/{name}/blobs/uploads/")
        digest = _digest(data)
        url = f"{start['Location']}&digest={digest}"
        _send("PUT", url, data, "application/octet-stream")
        return {"digest": digest, "size": len(data)}


def _listening(log: IO[str]) -> str:
    """Read the log up to the line that says which port the registry was given."""
    lines: list[str] = []
    for line in log:
        lines.append(line)
        found = re.search(r"listening on \S+:(\d+)", line)
        if found:
            return found[1]
    raise RuntimeError(f"the registry ended before it listened: {lines[-5:]!r}")


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _send(
    method: str, url: str, data: bytes | None = None, kind: str | None = None
) -> dict[str, str]:
    headers = {} if kind is None else {"Content-Type": kind}
    request = urllib.request.Request(url, data, headers, method=method)
    with _OPENER.open(request) as answer:
        return dict(answer.headers)
