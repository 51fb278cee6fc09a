"""Addresses that are secrets: incoming webhooks and intake URLs. Contract: redaction.md 13.4."""

from __future__ import annotations

from memory_manager.security.redact.rule import Rule

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

RULES: tuple[Rule, ...] = (
    Rule(
        "teams-webhook",
        ("outlook.office.com/webhook", "outlook.office365.com/webhook"),
        r"outlook\.office(?:365)?\.com/webhook(?:b2)?/[0-9a-fA-F@-]{36,80}/[0-9A-Za-z]{3,40}/"
        r"([0-9A-Za-z]{20,}(?:/[0-9A-Za-z/_-]{8,120})?)",
        group=1,
        since="4",
    ),
    Rule(
        "zapier-mcp-url",
        ("mcp.zapier.com/",),
        r"mcp\.zapier\.com/api/mcp/s/([0-9A-Za-z_=%-]{20,})",
        group=1,
        since="2",
    ),
    Rule(
        "slack-workflow-url",
        ("hooks.slack.com/",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[0-9A-Za-z_]{3,20}/[0-9A-Za-z_]{3,20}/(?:[0-9]{6,24}/)?([0-9A-Za-z]{16,})",
        group=1,
        since="2",
    ),
    Rule(
        "discord-canary-webhook",
        ("/webhooks/",),
        r"/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{15,21}/([0-9A-Za-z_-]{50,})",
        group=1,
        since="2",
    ),
    Rule(
        "n8n-webhook",
        ("/webhook/", "/webhook-test/"),
        r"/webhook(?:-test)?/(" + _UUID + r")",
        group=1,
        since="2",
    ),
    Rule(
        "pipedream-webhook",
        (".m.pipedream.net",),
        r"//([0-9a-z]{12,})\.m\.pipedream\.net",
        group=1,
        lead=24,
        since="2",
    ),
    Rule(
        "pagerduty-events-url",
        ("events.pagerduty.com/",),
        r"events\.pagerduty\.com/integration/([0-9a-f]{32})",
        group=1,
        since="2",
    ),
    Rule(
        "opsgenie-url",
        ("api.opsgenie.com/",),
        r"apiKey=(" + _UUID + r")",
        group=1,
        lead=1,
        since="2",
    ),
    Rule(
        "datadog-intake-url",
        ("datadoghq.com/",),
        r"/v1/input/([0-9a-f]{32})",
        group=1,
        window=120,
        lead=1,
        since="2",
    ),
    Rule(
        "feishu-webhook",
        ("/open-apis/bot/v2/hook/",),
        r"/open-apis/bot/v2/hook/(" + _UUID + r"|[0-9A-Za-z-]{24,})",
        group=1,
        since="2",
    ),
    Rule(
        "dingtalk-webhook",
        ("oapi.dingtalk.com/robot/send",),
        r"access_token=([0-9a-f]{40,})",
        group=1,
        lead=1,
        since="2",
    ),
    Rule(
        "wecom-webhook",
        ("qyapi.weixin.qq.com/",),
        r"[?&]key=(" + _UUID + r")",
        group=1,
        window=200,
        lead=1,
        since="2",
    ),
    Rule(
        "mattermost-webhook",
        ("/hooks/",),
        r"/hooks/([0-9a-z]{26})",
        group=1,
        validator="mixed_digits",
        since="2",
    ),
    Rule(
        "rocketchat-webhook",
        ("/hooks/",),
        r"/hooks/[0-9A-Za-z]{17,24}/([0-9A-Za-z]{32,})",
        group=1,
        since="2",
    ),
    Rule(
        "ifttt-v3-webhook",
        ("maker.ifttt.com/use/",),
        r"maker\.ifttt\.com/use/([0-9A-Za-z_-]{20,})",
        group=1,
        since="2",
    ),
    Rule(
        "healthchecks-ping",
        ("hc-ping.com/",),
        r"hc-ping\.com/(" + _UUID + r"|[0-9A-Za-z_-]{22})",
        group=1,
        since="2",
    ),
    Rule(
        "logtail-source-url",
        ("in.logs.betterstack.com",),
        r"[?&]source_token=([0-9A-Za-z]{20,})",
        group=1,
        lead=1,
        since="2",
    ),
)
