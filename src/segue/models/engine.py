"""llama.cpp in this process, through xllamacpp: one engine per file of weights, one thread per engine.

The thread owns the weights and runs one job after the other, without the GIL. It must be gone before the
interpreter is: a thread that comes back from C++ into a finalizing interpreter aborts the process. So at exit
the running job is told to stop, which it notices at the next token or the next batch of the prompt, and the
thread is joined.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import queue
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import xllamacpp

from segue.errors import BadModelRequest, ModelError, NoModel

CONTEXT_TOKENS = 4096
"""Prompt and reply together. A larger one costs memory from the start (SmolLM2: 23 KB a token)."""
BATCH_TOKENS = 128
"""Between two batches of the prompt a job can be stopped: at most a second or so with a small model."""
THREADS = 1
"""More are slower as soon as anything else runs on the machine."""
EXIT_SECONDS = 20.0

Event = dict[str, Any] | ModelError | None
"""What a job delivers: chat completion chunks as llama.cpp makes them, or an error; None is always the
last."""


class Job:
    """One completion. `deliver` is called from the engine's thread; setting `stop` ends it soon."""

    def __init__(self, body: dict[str, Any], deliver: Callable[[Event], None]) -> None:
        self.body, self._deliver = body, deliver
        self.stop = threading.Event()

    def event(self, event: Event) -> None:
        try:
            self._deliver(event)
        except RuntimeError:  # the loop that waited for it is closed
            self.stop.set()


class Engine:
    """The weights in `path`, loaded at the first job."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.server: Any = None
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._lock = threading.Lock()

    @property
    def started(self) -> bool:
        return self._thread is not None

    def submit(self, job: Job) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"segue-{self.path.name}", daemon=True)
                self._thread.start()
        self._jobs.put(job)

    def close(self) -> None:
        """At exit: stop the running job, drop the waiting ones, free the weights. Nobody is told any more."""
        self._closing.set()
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(EXIT_SECONDS)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not self._stopped(job):
                self._complete(job)
            if not self._closing.is_set():
                job.event(None)
        if _in_fork:
            _never_free(self.server)
        self.server = None

    def _stopped(self, job: Job) -> bool:
        return job.stop.is_set() or self._closing.is_set()

    def _complete(self, job: Job) -> None:
        def take(event: dict[str, Any]) -> bool:
            """True ends the completion."""
            job.event(event)
            return self._stopped(job)

        try:
            if self.server is None:
                self.server = _load(self.path)
            self.server.handle_chat_completions(job.body, take)
        except ModelError as error:
            job.event(error)
        except Exception as error:  # whatever the binding makes of C++ exceptions
            job.event(BadModelRequest(f"llama.cpp refused the request: {error}"))


_lock = threading.Lock()
_engines: dict[tuple[int, Path], Engine] = {}
_in_fork = False
"""This process was forked from one that had an engine: threads that llama.cpp would wait for are not here."""


def engine_of(path: Path) -> Engine:
    """The one engine of this process for these weights. They stay loaded until the process ends."""
    key = (os.getpid(), path.resolve())
    with _lock:
        if not _engines:
            atexit.register(_close_all)
        if key not in _engines:
            _engines[key] = Engine(key[1])
        return _engines[key]


def _load(path: Path) -> Any:
    """Load weights, quietly. llama.cpp's server insists on an address to listen on: it gets a socket that
    nobody can reach, in a private folder that is removed at once, and a key that nobody knows."""
    if not path.is_file():
        raise NoModel(
            f"{path} is not there: `segue models add local` fetches weights, or name another GGUF file"
        )
    folder = tempfile.mkdtemp(prefix="segue-")
    try:
        return xllamacpp.Server(_parameters(path, f"{folder}/llama.sock"))
    except RuntimeError as error:
        raise BadModelRequest(
            f"{path} cannot be loaded: not a GGUF file of a chat model, or damaged"
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parameters(path: Path, address: str) -> Any:
    made = xllamacpp.CommonParams()
    made.model.path = str(path)
    made.hostnames, made.api_keys, made.endpoint_slots = [address], [secrets.token_hex(32)], False
    made.n_ctx, made.n_parallel, made.ctx_shift, made.cache_ram_mib = CONTEXT_TOKENS, 1, False, 0
    made.n_batch = made.n_ubatch = BATCH_TOKENS
    made.cpuparams.n_threads = made.cpuparams_batch.n_threads = THREADS
    made.warmup, made.verbosity = False, -1
    return made


def _close_all() -> None:
    for (pid, _), engine in list(_engines.items()):
        if pid == os.getpid():
            engine.close()


def _after_fork() -> None:
    """The parent's engines have no threads here: never used, and never freed either, for that waits for
    those."""
    global _lock, _in_fork
    _lock = threading.Lock()
    for engine in _engines.values():
        _never_free(engine.server)
    if any(engine.started for engine in _engines.values()) and not _in_fork:
        _in_fork = True
        _skip_destructors()


def _never_free(server: Any) -> None:
    if server is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))


def _skip_destructors() -> None:
    """A static object of xllamacpp joins, at exit, a thread that this child does not have: it would hang for
    ever. `on_exit` calls `_exit` with the status before that; Python has finalized and flushed by then."""
    libc = ctypes.CDLL(None)
    with suppress(AttributeError):  # glibc has it
        libc.on_exit(libc._exit, None)


os.register_at_fork(after_in_child=_after_fork)
