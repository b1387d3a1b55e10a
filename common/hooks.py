"""One list of callbacks that apps above fill, so that the app below need not import them."""

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Hook(Generic[P, R]):
    """Calls what was registered, in that order, and returns what each said.

    Filled in ``AppConfig.ready``. Where the hook is called inside the transaction of an act, a
    callback writes rows only (intent); the world follows by the engine.
    """

    def __init__(self) -> None:
        self._callbacks: list[Callable[P, R]] = []

    def register(self, callback: Callable[P, R]) -> Callable[P, R]:
        """Add ``callback`` once, however often it is registered; a decorator too."""
        if callback not in self._callbacks:
            self._callbacks.append(callback)
        return callback

    def unregister(self, callback: Callable[P, R]) -> None:
        self._callbacks.remove(callback)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> list[R]:
        return [callback(*args, **kwargs) for callback in self._callbacks]
