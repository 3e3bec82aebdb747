"""Whether code can still run in a box, long before all of its memory is let go.

The end of a process takes a millisecond or two, most of which goes to its memory. By
then it has run no code of its own for all that time: what a caller waits for is that
nothing can happen any more, and the kernel tells this at the beginning of the end.
"""

from __future__ import annotations

import os

_EXITING = 0x4
_MOST_BYTES = 512


class Vitals:
    """The signs of life of the first process in a box.

    Args:
        pid: That process, alive now; what is opened here stays with it.

    Raises:
        OSError: They cannot be seen here: it has ended, `/proc` hides it, or the
            kernel was built without lists of children.
    """

    def __init__(self, pid: int) -> None:
        self._stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        self._children = -1
        try:
            path = f"/proc/{pid}/task/{pid}/children"
            self._children = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.close()
            raise

    def have_ceased(self) -> bool:
        """Tell whether no code in the box will run any more.

        The process has begun to exit, as the only one of its threads, and no other is
        left below it: there all others of its namespace would be, since orphans become
        its children. False says nothing: another look may tell, or its end.

        Source: `children` in
        https://man7.org/linux/man-pages/man5/proc_tid_children.5.html
        """
        try:
            ends = is_ending(os.pread(self._stat, _MOST_BYTES, 0))
            return ends and not os.pread(self._children, 1, 0)
        except ProcessLookupError:  # it has ended altogether
            return True

    def close(self) -> None:
        """Look no more."""
        held = (self._stat, self._children)
        self._stat = self._children = -1  # first: an interrupt may come in between
        for descriptor in held:
            if descriptor >= 0:
                os.close(descriptor)


def is_ending(stat: bytes) -> bool:
    """Tell from a process's `stat` whether it will run no code any more.

    Source: `flags` and `num_threads` in
    https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html, and `PF_EXITING` of
    `include/linux/sched.h`
    """
    fields = stat[stat.rindex(b")") + 2 :].split()  # the name is the code's
    return bool(int(fields[6]) & _EXITING) and fields[17] == b"1"
