"""Tokens that say what they are: the shapes of redaction.md 13.1 to 13.4, a line each."""

from __future__ import annotations

import base64
import string
import zlib

from secrets_generator_draw import Draw, Shape, Value, shapes

CODE_HOSTS = """
github fine: github|_pat_‹{a:22}_{a:59}›
github app: gh<u/s/r>|_{a:36}
github long: gh|s_{a:60..90}
gitlab pat: glpat|-{w:20}
gitlab pat-instance: ACME-|glpat|-{w:20}
gitlab routable: glpat|-‹{w:27..60}.{l:2}{l:7}›
gitlab routable-2: glpat|-‹{w:27..60}.01.{l:9}›
gitlab deploy: gldt|-{w:20}
gitlab runner: glrt|-{w:20}
gitlab runner-t1: glrt|-t1_{w:20}
gitlab trigger: glptt|-{h:40}
gitlab ci: glcbt|-{h:2}_{w:20}
gitlab scim: glsoat|-{w:20}
gitlab mail: glimt|-{w:25}
gitlab agent: glagent|-{w:50}
gitlab oauth: gloas|-{h:64}
gitlab feed: glft|-{w:20}
gitlab flags: glffct|-{w:20}
gitlab registration: GR|1348941{w:20}
pypi upload: pypi|-AgEIcHlwaS5vcmc{w:120..170}
pypi test: pypi|-AgENdGVzdC5weXBpLm9yZw{w:120..170}
rubygems key: rubygems|_{h:48}
nuget key: oy|2{l:43}
crates key: cio|{a:32}
dockerhub pat: dckr|_pat_{w:27}
dockerhub oat: dckr|_oat_{w:32}
"""

CLOUD = """
aws key-id: <AKIA/ASIA/ABIA/ACCA>{3:16}
aws bedrock: ABSK|{b:109..269}
aws bedrock-short: bedrock-api-key-|YmVkcm9jay5{b:120..200}
google api: AIza|{w:35}
google access: ya29.|{w:120..180}
google refresh: 1//0|{w:95..105}
google client: GOCSPX|-{w:28}
google gemini: AQ.|Ab8RN6{w:44}
azure ad: ‹{a:3}{d:1}Q~{w:31..34}›
digitalocean token: <doo/dop/dor>|_v1_{h:64}
cloudflare origin: v1.0-|{h:24}-{h:146}
databricks token: dapi|{h:32}
databricks token-2: dapi|{h:32}-<2/3>
vault service: hvs|.{w:90..120}
vault batch: hvb|.{w:138..300}
terraform token: {a:14}.atlasv1.|{w:60..70}
doppler personal: dp.|pt.{a:40..44}
doppler service: dp.|st.<dev/prd/stg>.{a:40..44}
doppler other: dp.|<ct/sa/scim/audit>.{a:40..44}
onepassword service: ops|_eyJ{b:250..400}
tailscale auth: tskey|-auth-‹{a:12}CNTRL-{a:32}›
tailscale api: tskey|-<api/client>-‹{a:12}CNTRL-{a:32}›
fly v1: FlyV1 fm2|_{b:160..300}
fly macaroon: fm1r|_{b:120..200}
supabase access: sbp|_{h:40}
supabase secret: sb|_secret_‹{w:22}_{a:8}›
neon key: napi|_{l:64}
planetscale token: pscale|_<tkn/pw/oauth>_{w:32..64}
vercel token: <vcp/vci/vca/vcr/vck>|_{a:56}
netlify token: nfp|_{a:36}
heroku token: HRKU|-AA{w:58}
pulumi token: pul|-{h:40}
"""

AI = """
openai project: sk|-<proj/svcacct/admin>-{w:74}T3Blbk|FJ{w:74}
openai short: sk|-<proj/svcacct/admin>-{w:20}T3Blbk|FJ{w:20}
openai middle: sk|-<proj/svcacct/admin>-{w:58}T3Blbk|FJ{w:58}
openai no-marker: sk|-proj-{w:140..160}
openai legacy: sk|-{a:20}T3Blbk|FJ{a:20}
anthropic key: sk|-ant-<api03/admin01>-{w:93}AA
anthropic session: sk|-ant-sid01-{w:86}-{w:6}AA
anthropic oauth: sk|-ant-<oat01/ort01>-{w:40..95}
openrouter key: sk|-or-v1-{h:64}
groq key: gsk|_{a:52}
xai key: xai|-{a:80}
perplexity key: pplx|-{a:48}
replicate token: r8|_{a:37}
huggingface user: hf|_{L:34}
huggingface org: api|_org_{L:34}
langsmith key: lsv2|_<pt/sk>_‹{h:32}_{h:10}›
together key: tgp|_v1_{w:43}
nvidia key: nvapi|-{w:60..70}
pinecone key: pcsk|_‹{a:6}_{a:63}›
cerebras key: csk|-{l:48}
tavily key: tvly|-{a:32}
tavily dev: tvly|-<dev/prod>-{a:32}
memory mos: <mos/mem_os>|_{a:32..48}
memory mem0: <m0-/mem0_>{a:40}
memory hsk: hsk|-{a:40}
memory brv: brv|_{a:36}
memory retaindb: retaindb|_{a:40}
"""

SAAS = """
slack bot: xoxb|-‹{d:12}-{d:13}-{a:24}›
slack user: xox<p/e>|-‹{d:11}-{d:12}-{d:13}-{h:32}›
slack client: xoxc|-‹{d:11}-{d:12}-{d:13}-{h:64}›
slack cookie: xoxd|-{b:90..140}
slack rotating: xoxe|.xoxp-1-{a:163}
slack app: xapp|-1-A{u:10}-{d:13}-{h:64}
stripe secret: <sk/rk>|_<live/test>_{a:24..99}
stripe webhook: whsec|_{a:32}
sendgrid key: SG|.{w:22}.{w:43}
mailgun key: key|-{h:32}
mailchimp key: ‹{h:32}›-|us<1/7/14/21>
brevo key: xkeysib|-‹{h:64}-{a:16}›
twilio key: SK|{h:32}
telegram bot: {d:10}:|AA{w:33}
shopify token: <shpat/shpca/shppa/shpss>|_{h:32}
square token: EAAA|{w:60}
square secret: sq0csp|-{w:43}
facebook token: <EAAM/EAAC>|{a:140..180}
linear key: lin|_api_{a:40}
figma token: figd|_{w:40}
postman key: PMAK|-‹{h:24}-{h:34}›
notion token: ntn|_‹{d:11}{a:35}›
notion legacy: secret|_{a:43}
asana pat: 2/{d:16}/{d:16}:|‹{h:32}›
airtable pat: pat|‹{a:14}.{h:64}›
mapbox secret: sk.|eyJ{a:80..100}.{w:22}
dropbox token: sl.|u.{w:130..180}
atlassian api: ATATT3|xFfGF0{w:170}=‹{H:8}›
atlassian repo: ATCTT3|xFfGN0{w:160..180}={H:8}
atlassian app: ATBB|{a:32}
grafana service: glsa|_‹{a:32}_{h:8}›
grafana cloud: glc|_eyJ{b:90..130}
grafana legacy: eyJ|rIjoi{a:72..92}
newrelic user: NRAK|-{u:27}
newrelic insert: NRII|-{w:32}
newrelic browser: NRJS|-{h:19}
sentry user: sntryu|_{h:64}
sentry org: sntrys|_eyJ{b:120..150}_{w:43}
sourcegraph token: sgp|_{h:40}
astra token: AstraCS|:{w:20..24}:{h:64}
mongodb service: mdb|_sa_sk_{w:40}
readme key: rdme|_{l:70}
intra secret: s-s4t2|ud-{h:64}
"""


def _checked(prefix: str, draw: Draw) -> Value:
    body = draw.of("a", 30)
    alphabet = string.digits + string.ascii_uppercase + string.ascii_lowercase
    number, tail = zlib.crc32(body.encode()), ""
    for _ in range(6):
        number, rest = divmod(number, 62)
        tail = alphabet[rest] + tail
    return Value(prefix + body + tail, (body + tail,))


def _grafana_checked(draw: Draw) -> Value:
    secret = draw.of("a", 32)
    prefix = "gl" + "sa_"
    check = zlib.crc32((prefix + secret).encode()).to_bytes(4, "little").hex()
    return Value(f"{prefix}{secret}_{check}", (secret,))


def _discord(draw: Draw) -> Value:
    user = base64.b64encode(("1" + draw.of("d", 17)).encode()).decode()
    rest = (draw.of("w", 6), draw.of("w", 38))
    return Value(".".join((user, *rest)), (rest[1],))


def vendor_shapes() -> list[Shape]:
    """Every self-identifying token of the contract's catalogue."""
    return [
        *shapes(CODE_HOSTS),
        Shape("github", "github-classic", lambda d: _checked("gh" + d.pick("po") + "_", d)),
        Shape("npm", "npm-token", lambda d: _checked("npm" + "_", d)),
        *shapes(CLOUD),
        *shapes(AI),
        *shapes(SAAS),
        Shape("grafana", "grafana-checked", _grafana_checked),
        Shape("discord", "discord-bot", _discord),
    ]
