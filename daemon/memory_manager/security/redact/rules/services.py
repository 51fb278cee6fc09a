"""Shapes of redaction.md 13.4: messaging, payment and other hosted services."""

from __future__ import annotations

from memory_manager.security.redact.rule import Rule

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

RULES: tuple[Rule, ...] = (
    Rule("slack-bot-token", ("xoxb-",), r"xoxb-[0-9A-Za-z-]{20,}"),
    Rule(
        "slack-token",
        ("xoxp-", "xoxe-", "xoxc-", "xoxd-", "xoxa-", "xoxr-", "xoxs-", "xoxo-"),
        r"xox[pecdarso]-[0-9A-Za-z%/+=-]{20,}",
        window=500,
    ),
    Rule(
        "slack-rotating-token", ("xoxe.xox",), r"xoxe\.xox[bp]-[0-9]-[0-9A-Za-z]{100,}", window=500
    ),
    Rule("slack-app-token", ("xapp-",), r"xapp-[0-9]-[0-9A-Z]{6,}-[0-9]{6,}-[0-9a-f]{40,}"),
    Rule(
        "slack-webhook",
        ("hooks.slack.com/",),
        r"hooks\.slack\.com/(?:services|workflows"
        r"|triggers)/[0-9A-Za-z/_-]{1,60}/([0-9A-Za-z]{16,})",
        group=1,
    ),
    Rule(
        "stripe-key",
        ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_org_"),
        r"[sr]k_(?:live|test|org)_[0-9A-Za-z_]{10,}",
    ),
    Rule("stripe-webhook-secret", ("whsec_",), r"whsec_[0-9A-Za-z+/=]{24,}"),
    Rule("sendgrid-key", ("sg.",), r"SG\.[0-9A-Za-z_-]{16,}\.[0-9A-Za-z_-]{32,}"),
    Rule("mailgun-key", ("key-",), r"key-[0-9a-f]{32}"),
    Rule("mailchimp-key", ("-us",), r"[0-9a-f]{32}-us[0-9]{1,2}", lead=32),
    Rule(
        "brevo-key", ("xkeysib-", "xsmtpsib-"), r"x(?:key|smtp)sib-[0-9a-f]{60,}-[0-9A-Za-z]{10,}"
    ),
    Rule("resend-key", ("re_",), r"re_[0-9A-Za-z]{6,10}_[0-9A-Za-z]{20,}", validator="edges_mixed"),
    Rule("twilio-key", ("sk",), r"SK[0-9a-f]{32}", validator="word_edges"),
    Rule("telegram-bot-token", (":aa",), r"[0-9]{8,12}:AA[0-9A-Za-z_-]{32,}", lead=12),
    Rule(
        "discord-webhook",
        ("/api/webhooks/",),
        r"/api/webhooks/[0-9]{15,21}/([0-9A-Za-z_-]{50,})",
        group=1,
    ),
    Rule(
        "teams-webhook",
        ("/incomingwebhook/",),
        r"/IncomingWebhook/([0-9a-f]{32}/" + _UUID + r"[0-9A-Za-z/_-]{0,80})",
        group=1,
    ),
    Rule(
        "zapier-webhook",
        ("hooks.zapier.com/hooks/catch/",),
        r"hooks\.zapier\.com/hooks/catch/[0-9]{4,}/([0-9A-Za-z]{5,})",
        group=1,
    ),
    Rule(
        "make-webhook",
        (".make.com/", ".integromat.com/"),
        r"hook\.[0-9a-z.]{0,10}(?:make|integromat)\.com/([0-9a-z]{24,})",
        group=1,
        lead=12,
    ),
    Rule(
        "ifttt-webhook",
        ("maker.ifttt.com/trigger/",),
        r"maker\.ifttt\.com/trigger/[^/\s]{1,80}/(?:json/)?with/key/([0-9A-Za-z_-]{16,})",
        group=1,
    ),
    Rule(
        "google-chat-webhook",
        ("chat.googleapis.com/v1/spaces/",),
        r"[?&]token=([0-9A-Za-z_%=-]{30,})",
        group=1,
        window=300,
        lead=1,
    ),
    Rule(
        "power-automate-webhook",
        ("/triggers/manual/paths/invoke",),
        r"[?&]sig=([0-9A-Za-z_%-]{30,})",
        group=1,
        window=300,
        lead=1,
    ),
    Rule(
        "apprise-telegram-url", ("tgram://",), r"tgram://([0-9]{8,12}:[0-9A-Za-z_-]{30,})", group=1
    ),
    Rule(
        "shopify-token",
        ("shpat_", "shpca_", "shppa_", "shpss_", "shpua_"),
        r"shp(?:at|ca|pa|ss|ua)_[0-9A-Fa-f]{32,}",
    ),
    Rule("square-token", ("eaaa",), r"EAAA[0-9A-Za-z_-]{60}", validator="edges_mixed"),
    Rule("square-secret", ("sq0csp-", "sq0atp-"), r"sq0(?:csp|atp)-[0-9A-Za-z_-]{22,}"),
    Rule(
        "facebook-token",
        ("eaam", "eaac", "eaaa", "eaab", "eaad", "eaag"),
        r"EAA[A-Z][0-9A-Za-z]{100,}",
        validator="edges_mixed",
        window=500,
    ),
    Rule(
        "linear-key",
        ("lin_api_", "lin_oauth_", "lin_wh_"),
        r"lin_(?:api|oauth|wh)_[0-9A-Za-z]{32,}",
    ),
    Rule(
        "figma-token",
        ("figd_", "figdr_", "figuh_", "figur_"),
        r"fig(?:d|dr|uh|ur)_[0-9A-Za-z_-]{32,}",
    ),
    Rule("postman-key", ("pmak-",), r"PMAK-[0-9a-f]{20,}-[0-9a-f]{30,}"),
    Rule("postman-collection-key", ("pmat-",), r"PMAT-[0-9A-Z]{26}"),
    Rule("notion-token", ("ntn_",), r"ntn_[0-9]{9,}[0-9A-Za-z]{30,}"),
    Rule("notion-legacy-token", ("secret_",), r"secret_[0-9A-Za-z]{43}", validator="random_body"),
    Rule("asana-token", ("2/",), r"2/[0-9]{14,}/[0-9]{14,}:[0-9a-f]{32}"),
    Rule("airtable-token", ("pat",), r"pat[0-9A-Za-z]{14}\.[0-9a-f]{60,}"),
    Rule("mapbox-token", ("sk.eyj",), r"sk\.eyJ[0-9A-Za-z_-]{20,}\.[0-9A-Za-z_-]{16,}", window=400),
    Rule("dropbox-token", ("sl.u.", "sl.b"), r"sl\.(?:u\.)?[0-9A-Za-z_-]{100,}", window=1600),
    Rule(
        "atlassian-token",
        ("atatt3", "atctt3", "atstt3"),
        r"AT[ACS]TT3[0-9A-Za-z_=-]{60,}",
        window=500,
    ),
    Rule("grafana-service-token", ("glsa_",), r"glsa_[0-9A-Za-z]{24,}_?[0-9A-Fa-f]{0,8}"),
    Rule("grafana-cloud-token", ("glc_eyj",), r"glc_eyJ[0-9A-Za-z+/=_-]{30,}", window=600),
    Rule("grafana-legacy-key", ("eyjrijoi",), r"eyJrIjoi[0-9A-Za-z+/_-]{40,}={0,2}", window=600),
    Rule(
        "new-relic-key",
        ("nrak-", "nrii-", "nrjs-", "nriq-", "nrra-"),
        r"NR(?:AK|II|JS|IQ|RA)-[0-9A-Za-z_-]{19,}",
    ),
    Rule("new-relic-license", ("nral",), r"[0-9a-f]{36}NRAL", lead=36),
    Rule("sentry-user-token", ("sntryu_",), r"sntryu_[0-9A-Za-z]{50,}"),
    Rule("sentry-org-token", ("sntrys_eyj",), r"sntrys_eyJ[0-9A-Za-z+/=_-]{40,}", window=600),
    Rule("logfire-token", ("pylf_v",), r"pylf_v[0-9]_[a-z]{2}_[0-9A-Za-z]{40,}"),
    Rule("posthog-personal-key", ("phx_",), r"phx_[0-9A-Za-z_-]{38,}"),
    Rule("launchdarkly-key", ("sdk-", "api-", "mob-"), r"(?:sdk|api|mob)-" + _UUID),
    Rule("intercom-token", ("dg9r",), r"dG9r[0-9A-Za-z+/]{50,}={0,2}"),
    Rule("hubspot-token", ("pat-na", "pat-eu"), r"pat-(?:na|eu)[0-9]-" + _UUID),
    Rule("flutterwave-key", ("flwseck",), r"FLWSECK(?:_TEST|_LIVE)?-[0-9A-Za-z]{12,}(?:-X)?"),
    Rule("razorpay-key", ("rzp_live_", "rzp_test_"), r"rzp_(?:live|test)_[0-9A-Za-z]{14,}"),
    Rule(
        "braintree-token",
        ("access_token$production$", "access_token$sandbox$"),
        r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}",
    ),
    Rule(
        "adyen-key",
        ("aqe",),
        r"AQE[0-9A-Za-z+/]{40,}[0-9A-Za-z+/=]*-[0-9A-Za-z+/=]{30,}-[!-~]{8,20}",
        window=200,
    ),
    Rule(
        "duffel-token",
        ("duffel_live_", "duffel_test_"),
        r"duffel_(?:live|test)_[0-9A-Za-z_=-]{40,}",
    ),
    Rule("easypost-key", ("ezak", "eztk"), r"EZ[AT]K[0-9A-Za-z]{54,}"),
    Rule(
        "shippo-token", ("shippo_live_", "shippo_test_"), r"shippo_(?:live|test)_[0-9A-Fa-f]{36,}"
    ),
    Rule("frameio-token", ("fio-u-",), r"fio-u-[0-9A-Za-z_=-]{60,}"),
    Rule("contentful-token", ("cfpat-",), r"CFPAT-[0-9A-Za-z_-]{40,}"),
    Rule("typeform-token", ("tfp_",), r"tfp_[0-9A-Za-z_.=-]{40,}"),
    Rule("clickup-token", ("pk_",), r"pk_[0-9]{5,10}_[0-9A-Z]{30,}"),
    Rule("onesignal-key", ("os_v2_",), r"os_v2_(?:app|org)_[0-9a-z]{60,}"),
    Rule("pagerduty-token", ("pdus+_",), r"pdus\+_[0-9A-Z]{1,4}_[0-9a-z-]{30,}"),
    Rule("lob-key", ("live_", "test_"), r"(?:live|test)_[0-9a-f]{35}", validator="edges"),
    Rule(
        "plaid-token",
        ("access-production-", "access-sandbox-", "access-development-"),
        r"access-(?:production|sandbox|development)-" + _UUID,
    ),
    Rule("courier-key", ("pk_prod_", "dk_prod_"), r"[pd]k_prod_[0-9A-Z]{28}"),
    Rule("asaas-key", ("$aact_",), r"\$aact_(?:prod_|hmlg_)?[0-9A-Za-z+/=:_-]{40,}", window=400),
    Rule(
        "mercadopago-token",
        ("app_usr-", "test-"),
        r"(?:APP_USR|TEST)-[0-9]{12,20}-[0-9]{6}-[0-9a-f]{32}(?:__[A-Z]{2}_[A-Z]{2}__)?(?:-[0-9]{5"
        r",})?",
    ),
    Rule("canva-secret", ("cnvca",), r"cnvca[0-9A-Za-z_-]{36,}"),
)
