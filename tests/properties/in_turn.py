"""An executor without threads, so that the order of calls can be repeated."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class _Task(Future[Any]):
    """Runs at once, or when somebody asks for its result."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self._work = work

    def run(self) -> None:
        """Run it, unless it ran or was cancelled."""
        if self.done() or not self.set_running_or_notify_cancel():
            return
        try:
            self.set_result(self._work())
        except BaseException as error:  # noqa: BLE001 (the process may die in a worker, and whoever asks must know)
            self.set_exception(error)

    def result(self, timeout: float | None = None) -> Any:
        """As a Future's."""
        self.run()
        return super().result(timeout)


class InTurn(Executor):
    """Runs what it is given in the thread that gives it.

    At once: whatever is done ahead is ahead as far as it can be. Lazy: it is not ahead at all.
    """

    def __init__(self, *, lazy: bool) -> None:
        self._lazy = lazy
        self._tasks: list[_Task] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As an Executor's."""
        task = _Task(lambda: fn(*args, **kwargs))
        self._tasks.append(task)
        if not self._lazy:
            task.run()
        return task

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As an Executor's: what was not cancelled runs."""
        for task in self._tasks:
            if cancel_futures:
                task.cancel()
            task.run()
