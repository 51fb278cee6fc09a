"""The environment of our processes: one thread for arithmetic everywhere. Contract: recall.md 2."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

_KEPT = (
    "PATH", "HOME", "USERPROFILE", "SYSTEMROOT", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
    "TEMP", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
)  # fmt: skip
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}
_SET = {
    **_ONE_THREAD,
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # onnxruntime >= 1.32 on Linux otherwise keeps a device id in HOME and reports to its maker
    "ORT_DISABLE_TELEMETRY": "1",
}


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What is needed to start Python, plus one thread and no network; no secret of ours gets in."""
    return {name: environ[name] for name in _KEPT if name in environ} | _SET


def limit_arithmetic_threads(environ: MutableMapping[str, str]) -> None:
    """To be called before numpy is imported; what the user set is left alone.

    Products of a few hundred kilobytes, several times a search: threads that wait for the next one
    by spinning cost more than they save (100 000 rows, two cores: a third of all CPU time).
    """
    for name, value in _ONE_THREAD.items():
        environ.setdefault(name, value)
