"""One box for all calls of a sandbox, opened again when it is gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from .box import Box
from .call import Call, Work
from .dispatch import leaving
from .faults import SandboxFault, startup_fault
from .lending import Lender

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .engine import Engine
    from .launch import Launch
    from .verdict import Evidence

SETUP_OUTPUT_BYTES = 1 << 16


class SetupFailed(Exception):
    """The setup code failed in a new box; `said` is what it printed to stderr."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said

    def fault(self) -> SandboxFault:
        """Give the fault of the call that never began."""
        last = self.said.strip().splitlines()[-1:] or ["no message"]
        return startup_fault(
            "setup_code", f"setup_code failed in a new box: {last[0][:200]}"
        )


class SessionBox(Lender):
    """The box of a sandbox in `resident` or `kernel` mode; one call at a time.

    Args:
        engine: Where it lives.
        launch: Gives the launch of a new box that may take a call of so many seconds.
        setup_code: Run first in every new box.
        setup_timeout_s: How long that may take.
        max_age_s: An older box is replaced between two calls.
        on_gone: Told when nothing is left of a box.
    """

    takes_turns = True

    def __init__(
        self,
        engine: Engine,
        *,
        launch: Callable[[float], Launch],
        setup_code: str | None,
        setup_timeout_s: float,
        max_age_s: float,
        on_gone: Callable[[Box], None],
    ) -> None:
        super().__init__(engine, max_running=1, on_gone=on_gone)
        self._launch = launch
        self._setup_code = setup_code
        self._setup_timeout_s = setup_timeout_s
        self._max_age_s = max_age_s
        self._box: Box | None = None
        self._opened_s = 0.0
        self._had_calls = False
        self._closed = False

    # -- the carrier

    def begin(self, call: Call) -> None:
        """Have the box take up the call, or a new one if it is gone or old."""
        box = self._usable(call)
        if box is None:
            call.state_new = self._had_calls
            self._when_startable(partial(self._start, call))
        else:
            self._had_calls = True
            box.serve(call)

    def close(self) -> None:
        """Kill the box."""
        self._closed = True
        for box in list(self._boxes):
            box.kill()

    def lend(self, call: Call) -> Box | None:
        """Lend a kernel's box; a resident one serves a call in a child of its own."""
        box = self._box
        if box is None or box.launch.mode != "kernel":
            return None
        if self._is_too_old(box, call):
            return None
        return box if box.lend(call) else None

    def leave(self) -> None:
        """Have the next call in a new box; any thread may ask."""
        box = self._box
        if box is not None:
            box.retired = True
        self._engine.post(self.forget)

    def forget(self) -> None:
        """End the box; the next call has a new one."""
        box, self._box = self._box, None
        if box is not None:
            box.retired = True
            box.when_returned(partial(self._end_if_idle, box))

    def _end_if_idle(self, box: Box) -> None:
        if box.idle:
            box.kill()  # a busy one ends after its call

    # -- boxes

    def _usable(self, call: Call) -> Box | None:
        box = self._box
        if box is None or box.ended:
            return None
        if self._is_too_old(box, call):
            self.forget()
            return None
        return box

    def _is_too_old(self, box: Box, call: Call) -> bool:
        age_s = time.monotonic() - self._opened_s
        return age_s > self._max_age_s or age_s + call.timeout_s > box.launch.life_s

    def _start(self, call: Call) -> None:
        if call.done.done() or self._closed:  # ended while it waited for its slot
            self._engine.started()
            return
        try:
            call.cold = True
            launch = self._launch(call.timeout_s)
            box = Box(self._engine, launch, self._on_box_change, self.begin)
        except Exception as error:
            self._engine.started()
            call.fail(error)
            return
        self._box = box
        self._boxes.add(box)
        self._opened_s = time.monotonic()
        self._had_calls = True
        if self._setup_code is None:
            box.start(call)
        else:
            self._set_up(box, self._setup_code, call)

    def _set_up(self, box: Box, code: str, call: Call) -> None:
        setup = Call(
            Work(language="python", code=code),
            timeout_s=self._setup_timeout_s,
            cap_bytes=SETUP_OUTPUT_BYTES,
        )

        def go_on(done: Future[Evidence]) -> None:
            error = done.exception()
            if error is not None:
                call.fail(error)
                return
            seen = done.result()
            ended_by = seen.ended_by
            if ended_by in ("cancel", "close"):
                call.fail(leaving(ended_by))
            elif not seen.ran:  # no box to set up: that is the call's own outcome
                call.notes = setup.notes
                call.finish(seen)
                box.kill()
            elif setup.exit_code != 0 or ended_by is not None:
                call.fail(SetupFailed(setup.stderr.text()[0]))
                box.kill()
            else:
                box.serve(call)

        box.start(setup)
        call.service = setup.service  # ending the call ends the box it waits for
        # After the box has let go of the setup call, which its future precedes.
        setup.done.add_done_callback(lambda f: self._engine.post(lambda: go_on(f)))

    def _on_box_change(self, box: Box) -> None:
        if box is self._box and box.ended:
            self._box = None
        elif box is not self._box and box.idle and box.ready:
            box.kill()  # forgotten while it had a call
        if box.disposed:
            self._let_go_of(box)
