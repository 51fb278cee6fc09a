"""Shapes of redaction.md 13.3: model providers and memory services."""

from __future__ import annotations

from memory_manager.security.redact.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        "openai-key",
        ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-service-", "sk-none-"),
        r"sk-(?:proj|svcacct|admin|service|None)-[0-9A-Za-z_-]{20,}",
        window=400,
    ),
    Rule(
        "openai-legacy-key",
        ("t3blbkfj",),
        r"sk-[0-9A-Za-z_-]{16,}T3BlbkFJ[0-9A-Za-z_-]{16,}",
        lead=120,
    ),
    Rule(
        "anthropic-key",
        ("sk-ant-",),
        r"sk-ant-[a-z]{2,8}[0-9]{0,2}-[0-9A-Za-z_-]{30,}",
        window=400,
    ),
    Rule("openrouter-key", ("sk-or-",), r"sk-or-(?:v[0-9]-)?[0-9a-f]{48,}"),
    Rule(
        "secret-key-plain",
        ("sk-",),
        r"sk-[0-9A-Za-z_-]{20,}",
        validator="secret_key_body",
        window=400,
    ),
    Rule(
        "secret-key-kebab",
        ("sk-",),
        r"sk-[a-z]{2,12}-[0-9A-Za-z_-]{24,}",
        validator="secret_key_body",
    ),
    Rule("groq-key", ("gsk_",), r"gsk_[0-9A-Za-z]{40,}"),
    Rule("xai-key", ("xai-",), r"xai-[0-9A-Za-z_-]{60,}"),
    Rule("perplexity-key", ("pplx-",), r"pplx-[0-9A-Za-z]{40,}"),
    Rule("replicate-token", ("r8_",), r"r8_[0-9A-Za-z]{36,}"),
    Rule(
        "huggingface-token",
        ("hf_", "api_org_"),
        r"(?:hf|api_org)_[0-9A-Za-z]{32,}",
    ),
    Rule(
        "langsmith-key",
        ("lsv2_",),
        r"lsv2_(?:pt|sk)_[0-9A-Fa-f]{32}(?:_[0-9A-Fa-f]{8,})?",
    ),
    Rule("langfuse-key", ("sk-lf-",), r"sk-lf-[0-9A-Za-z-]{24,}"),
    Rule("together-key", ("tgp_v1_",), r"tgp_v1_[0-9A-Za-z_-]{40,}"),
    Rule("nvidia-key", ("nvapi-",), r"nvapi-[0-9A-Za-z_-]{50,}"),
    Rule("pinecone-key", ("pcsk_",), r"pcsk_[0-9A-Za-z]{4,8}_[0-9A-Za-z]{50,}"),
    Rule("cerebras-key", ("csk-",), r"csk-[0-9A-Za-z]{40,}"),
    Rule("tavily-key", ("tvly-",), r"tvly-(?:dev-|prod-)?[0-9A-Za-z_-]{24,}"),
    Rule("fireworks-key", ("fw_",), r"fw_[0-9A-Za-z]{22,}", validator="edges_mixed"),
    Rule("elevenlabs-key", ("sk_",), r"sk_[0-9a-f]{48}"),
    Rule(
        "voyage-key",
        ("pa-", "al-"),
        r"(?:pa|al)-[0-9A-Za-z_-]{40,}",
        validator="edges_mixed",
    ),
    Rule("jina-key", ("jina_",), r"jina_[0-9A-Za-z_-]{40,}", validator="random_body"),
    Rule("friendli-key", ("flp_",), r"flp_[0-9A-Za-z]{40,}"),
    Rule("firecrawl-key", ("fc-",), r"fc-[0-9a-f]{32}"),
    Rule("apify-token", ("apify_api_",), r"apify_api_[0-9A-Za-z]{30,}"),
    Rule("e2b-key", ("e2b_",), r"e2b_[0-9a-f]{40}"),
    Rule("weights-and-biases-key", ("wandb_v1_",), r"wandb_v1_[0-9A-Za-z_]{40,}"),
    Rule(
        "memory-service-key",
        ("mos_", "mem_os_", "mem0_", "xmemo_"),
        r"(?:mos|mem_os|mem0|xmemo)_[0-9A-Za-z_-]{20,}",
        validator="random_body",
    ),
    Rule("mem0-key", ("m0-",), r"m0-[0-9A-Za-z]{24,}", validator="mixed_digits"),
    Rule(
        "memory-plugin-key",
        ("hsk-", "brv_", "retaindb_"),
        r"(?:hsk-|brv_|retaindb_)[0-9A-Za-z_-]{20,}",
        validator="random_body",
    ),
)
