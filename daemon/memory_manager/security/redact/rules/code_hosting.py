"""Shapes of redaction.md 13.1: code hosting and package registries."""

from __future__ import annotations

from memory_manager.security.redact.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        "github-token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        r"gh[pousr]_(?:[0-9]{1,12}_)?[0-9A-Za-z]{30,}",
    ),
    Rule(
        "github-fine-grained",
        ("github_pat_",),
        r"github_pat_[0-9A-Za-z_]{50,}",
        validator="random_body",
    ),
    Rule("npm-token", ("npm_",), r"npm_[0-9A-Za-z]{30,}"),
    Rule("gitlab-pat", ("glpat-",), r"glpat-[0-9A-Za-z_.-]{20,}"),
    Rule(
        "gitlab-token",
        (
            "gldt-",
            "glrt-",
            "glcbt-",
            "glsoat-",
            "glimt-",
            "glagent-",
            "gloas-",
            "glft-",
            "glffct-",
            "glrtr-",
            "glwt-",
        ),
        r"gl(?:dt|rt|cbt|soat|imt|agent|oas|ft|ffct|rtr|wt)-(?:t[0-9]_)?[0-9A-Za-z_.-]{16,}",
    ),
    Rule("gitlab-trigger", ("glptt-",), r"glptt-[0-9A-Za-z_-]{20,}"),
    Rule("gitlab-runner-registration", ("gr1348941",), r"GR1348941[0-9A-Za-z_-]{16,}"),
    Rule(
        "pypi-token",
        ("pypi-ageichlwas5vcmc", "pypi-agendgvzdc5wexbplm9yzw"),
        r"pypi-Ag(?:EIcHlwaS5vcmc|ENdGVzdC5weXBpLm9yZw)[0-9A-Za-z_-]{30,}",
        window=1200,
    ),
    Rule("rubygems-key", ("rubygems_",), r"rubygems_[0-9A-Za-z]{36,}"),
    Rule("nuget-key", ("oy2",), r"oy2[0-9a-z]{43,}", validator="mixed_digits"),
    Rule("crates-token", ("cio",), r"cio[0-9A-Za-z]{32}", validator="edges_mixed_case"),
    Rule(
        "docker-hub-token",
        ("dckr_pat_", "dckr_oat_"),
        r"dckr_(?:pat|oat)_[0-9A-Za-z_-]{20,}",
        validator="random_body",
    ),
    Rule("bitbucket-app-password", ("atbb",), r"ATBB[0-9A-Za-z]{28,}", validator="mixed"),
    Rule("jfrog-api-key", ("akcp",), r"AKCp[0-9A-Za-z]{60,}"),
    Rule("jfrog-reference-token", ("cmvmd",), r"cmVmd[0-9A-Za-z+/=]{55,}"),
    Rule("sourcegraph-token", ("sgp_",), r"sgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40,}"),
    Rule("clojars-token", ("clojars_",), r"(?i:CLOJARS_)[0-9a-z]{50,}"),
    Rule("buildkite-token", ("bkua_",), r"bkua_[0-9a-z]{36,}"),
    Rule(
        "circleci-token",
        ("ccipat_", "cciprj_"),
        r"CCIP(?:AT|RJ)_[0-9A-Za-z]{20,}_[0-9a-z]{36,}",
    ),
    Rule(
        "sonar-token",
        ("squ_", "sqp_", "sqa_"),
        r"sq[upa]_[0-9A-Za-z=_-]{36,}",
        validator="random_body",
    ),
    Rule("readme-key", ("rdme_",), r"rdme_[0-9a-z]{60,}"),
    Rule(
        "packagist-token",
        ("packagist_",),
        r"packagist_(?:ack|acs|oum|out|uut|ort)_[0-9a-f]{60,}",
    ),
    Rule(
        "snyk-token",
        ("snyk_",),
        r"snyk_[us]at\.[0-9A-Za-z_.-]{30,}",
        validator="random_body",
    ),
    Rule(
        "deno-deploy-token",
        ("ddp_", "ddw_"),
        r"dd[pw]_[0-9A-Za-z]{36}",
        validator="mixed_digits",
    ),
)
