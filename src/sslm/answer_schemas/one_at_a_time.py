"""Work that several threads may ask for at once, and that one of them does."""

import sys
import time
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakValueDictionary

from sslm.runtime.turns import POLL_S, Turns
from sslm.threads import new_lock

_T = TypeVar("_T")


class OneAtATime:
    """Lets calls of equal keys run one after the other; others do not wait for them."""

    def __init__(self) -> None:
        # Held by whoever works or waits, so that it keeps no key any longer.
        self._turns: WeakValueDictionary[object, Turns] = WeakValueDictionary()
        self._lock = new_lock()

    def run(self, key: object, call: Callable[[], _T], wait: Callable[[], None]) -> _T:
        """Run *call* when no other thread runs one of this key, and return what it returns.

        Args:
            key: What it works on.
            call: Looks first whether another thread has done it.
            wait: Called again and again until then; raises to give up.

        Raises:
            BaseException: What *call* or *wait* raises.
        """
        with self._lock:
            turns = self._turns.setdefault(key, Turns())
        while (turn := turns.turn_at_once(sys._getframe())) is None:
            if turns.is_this_threads():
                # A call that comes to itself, or a signal's handler, would wait for ever.
                return call()
            wait()
            time.sleep(POLL_S)
        try:
            return call()
        finally:
            turn.leave()
