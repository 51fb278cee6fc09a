"""What can go wrong with a model on disk. Import-light; never holds text of a memory."""

from __future__ import annotations

from memory_manager.base.errors import MemlocketError, Outcome

INSTALL_COMMAND = "memlocket embeddings install"
PREPARE_COMMAND = "memlocket model prepare"


class ModelDamaged(MemlocketError):
    """A file of a model is not what its manifest or our pin says; nothing of it is loaded."""

    code = "model_damaged"
    title = "Embedding model damaged"
    outcome = Outcome.ASK_USER
    exit_code = 5
    default_message = "A file of the embedding model is damaged; it was not loaded."
    default_hint = f"Run: {PREPARE_COMMAND}"

    def __init__(
        self, message: str | None = None, *, file: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.file = file  # its name in the manifest


class ModelUnknown(MemlocketError):
    """No model of that name, or a folder that holds none we can run."""

    code = "model_unknown"
    title = "Embedding model unknown"
    outcome = Outcome.ASK_USER
    exit_code = 4
    default_message = "There is no embedding model of that name."


class ModelSourceMissing(MemlocketError):
    """The package or folder that brings the weights is not there."""

    code = "model_source_missing"
    title = "Embedding model not available"
    outcome = Outcome.ASK_USER
    exit_code = 4
    default_message = "The weights of the embedding model are not on this machine."
    default_hint = f"Run: {INSTALL_COMMAND}"


class RuntimeMissing(MemlocketError):
    """sentence-transformers, torch or onnxruntime is not installed."""

    code = "embedding_runtime_missing"
    title = "Embedding runtime missing"
    outcome = Outcome.ASK_USER
    exit_code = 4
    default_message = "The libraries that run embedding models are not installed."
    default_hint = f"Run: {INSTALL_COMMAND}"


class ModelRefused(MemlocketError):
    """A model that would run foreign code, or a weight format that can."""

    code = "model_refused"
    title = "Embedding model refused"
    outcome = Outcome.ASK_USER
    exit_code = 5
    default_message = "Only models with safetensors or ONNX weights and no code are loaded."


class PreparationFailed(MemlocketError):
    """The subprocess that prepares a model ended without a result."""

    code = "model_preparation_failed"
    title = "Preparing the embedding model failed"
    outcome = Outcome.RETRY_LATER
    exit_code = 1
    default_message = "The embedding model could not be prepared."
    default_hint = f"Run: {PREPARE_COMMAND}"


class InstallFailed(MemlocketError):
    """The libraries of recall by meaning could not be installed; words go on answering."""

    code = "embedding_install_failed"
    title = "Embeddings not installed"
    outcome = Outcome.ASK_USER
    exit_code = 4
    default_message = "The libraries that run embedding models could not be installed."
