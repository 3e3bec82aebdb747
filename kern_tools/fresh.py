"""A new box for every call, some of them started before their call is there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from .box import Box
from .imports import READ_CHARS, imported_modules
from .lending import Lender

if TYPE_CHECKING:
    from .call import Call
    from .engine import Engine
    from .launch import Launch

IDLE_S = 60.0
"""A warm box that no call has taken by then is let go."""
REFILL_AFTER_S = 0.05
"""The next warm box is started when no call runs, or this long after one began."""
BREATH_S = 0.005
"""How long the caller has for itself before its next warm box is started."""
WARM_PER_PROCESS = 2 * (os.cpu_count() or 1)
PRELOAD = ("_ast", "atexit", "os", "traceback", "linecache")
_warm: set[Box] = set()  # added to in the engine thread only
os.register_at_fork(after_in_child=_warm.clear)  # they are the parent's


class FreshBoxes(Lender):
    """The boxes of a sandbox whose calls share nothing but files.

    Args:
        engine: Where they live.
        cold: Gives the launch for a call.
        warm: Gives the launch for a box that waits, and imports these modules while
            it does; None where none wait.
        max_running: How many calls may run at once.
        prewarm: How many boxes wait; more than one is kept whatever the process holds.
        timeout_s: The longest call that a waiting box may take.
        is_own: Tells whether a module would be found in the workspace.
        on_gone: Told when nothing is left of a box.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        cold: Callable[[Call], Launch],
        warm: Callable[[tuple[str, ...]], Launch] | None,
        max_running: int,
        prewarm: int,
        timeout_s: float,
        is_own: Callable[[str], bool] = lambda name: False,
        on_gone: Callable[[Box], None],
    ) -> None:
        super().__init__(engine, max_running, on_gone)
        self._is_own = is_own
        self._cold = cold
        self._warm = warm
        self._prewarm = prewarm if warm is not None else 0
        self._timeout_s = timeout_s
        self._spares: list[Box] = []
        self._closed = False
        self._calls: set[Call] = set()
        self._last_cell = ""
        self._noticed: set[str] = set()
        self._waiters: list[Future[bool]] = []

    # -- the carrier

    def begin(self, call: Call) -> None:
        """Give the call a waiting box, or start one."""
        spare = self._take_spare(call)
        self._note_call(call)
        if spare is not None:
            spare.serve(call)
            self._refill_later()
        else:
            self._start_cold(call)

    def lend(self, call: Call) -> Box | None:
        """Lend a warm box, for a call that it ends with."""
        spare = self._take_spare(call)
        if spare is None:
            return None
        if not spare.lend(call):
            self._engine.post(spare.see_off)
            return None
        call.done.add_done_callback(lambda _: self._engine.post(spare.see_off))
        self._note_call(call)
        return spare

    def take_back(self, call: Call) -> None:
        """Go on with a call whose caller was lent a box."""
        super().take_back(call)
        self._refill_later()

    def close(self) -> None:
        """Kill every box; none is started any more."""
        self._closed = True
        for box in list(self._boxes):
            box.kill()
        self._tell_ready()

    # -- warm boxes

    def refill(self) -> None:
        """Start the warm boxes that are missing."""
        while not self._closed and len(self._spares) < self._prewarm:
            if self._prewarm == 1 and len(_warm) >= WARM_PER_PROCESS:
                break
            assert self._warm is not None
            launch = self._warm(self._worth_importing())
            box = Box(self._engine, launch, self._on_box_change, self._start_cold)
            self._boxes.add(box)
            self._spares.append(box)
            _warm.add(box)
            self._when_startable(box.start)
            self._engine.at(time.monotonic() + IDLE_S, partial(self._let_go, box))
        self._tell_ready()

    def _note_call(self, call: Call) -> None:
        """Count a call; any thread may do so."""
        if call.work.is_cell and call.work.code is not None:
            self._last_cell = call.work.code[:READ_CHARS]
        self._calls.add(call)
        after = partial(self._after_call, call)
        call.done.add_done_callback(lambda _: self._engine.post(after))

    def _after_call(self, call: Call) -> None:
        self._calls.discard(call)
        if not self._calls and not self._closed:
            self._engine.at(time.monotonic() + BREATH_S, self._refill_in_peace)

    def _refill_in_peace(self) -> None:
        if not self._calls:
            self.refill()

    def _refill_later(self) -> None:
        self._engine.at(time.monotonic() + REFILL_AFTER_S, self.refill)

    def when_ready(self) -> Future[bool]:
        """Give a future of whether as many boxes wait as were asked for.

        It resolves once none of them is still being built.
        """
        ready: Future[bool] = Future()

        def wait() -> None:
            self._waiters.append(ready)
            self.refill()

        self._engine.post(wait)
        return ready

    def _take_spare(self, call: Call) -> Box | None:
        """Take a box that is ready; one that is still built could be stuck.

        Any thread may do so.
        """
        if call.timeout_s > self._timeout_s:
            return None
        for box in list(self._spares):
            fits = box.settled and box.lives() and not self._is_shadowed(box)
            if fits and self._claim(box):
                return box
        return None

    def _claim(self, box: Box) -> bool:
        """Have a warm box wait no longer; False where another thread was quicker."""
        try:
            self._spares.remove(box)
        except ValueError:
            return False
        _warm.discard(box)
        return True

    def _is_shadowed(self, box: Box) -> bool:
        """The workspace has a module by now of a name that the box has imported."""
        return any(map(self._is_own, box.launch.wanted))

    def _worth_importing(self) -> tuple[str, ...]:
        """Give what the last cell imported, for the next is often like it."""
        return tuple(
            name
            for name in imported_modules(self._last_cell)
            if name not in self._noticed and not self._is_own(name)
        )

    def _let_go(self, box: Box) -> None:
        if self._claim(box):
            box.kill()

    def _drop_spare(self, box: Box) -> None:
        """Do without a box that ended, or that a call could tell from a new one."""
        self._let_go(box)
        if box.launch.wanted:  # the next one is started without what was the trouble
            self._noticed |= set(box.noticed if box.settled else box.launch.wanted)
            self.refill()

    def _tell_ready(self) -> None:
        if all(box.settled for box in self._spares):
            for waiter in self._waiters:
                waiter.set_result(len(self._spares) == self._prewarm)
            self._waiters.clear()

    # -- boxes

    def _start_cold(self, call: Call) -> None:
        self._when_startable(partial(self._start, call))

    def _start(self, call: Call) -> None:
        if call.done.done():  # ended while it waited for a starting slot
            self._engine.started()
            return
        try:
            call.cold = True
            launch = self._cold(call)
            box = Box(self._engine, launch, self._on_box_change, self._start_cold)
        except Exception as error:
            self._engine.started()
            call.fail(error)
            return
        self._boxes.add(box)
        box.start(call)

    def _on_box_change(self, box: Box) -> None:
        if box in self._spares and (box.ended or box.noticed):
            self._drop_spare(box)
        if box.disposed:
            self._let_go_of(box)
        self._tell_ready()
