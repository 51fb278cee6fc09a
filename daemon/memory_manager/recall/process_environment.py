"""The environment of the processes that run models. Contract: recall.md 2."""

from __future__ import annotations

from collections.abc import Mapping

_KEPT = (
    "PATH", "HOME", "USERPROFILE", "SYSTEMROOT", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
    "TEMP", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
)  # fmt: skip
_SET = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
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
