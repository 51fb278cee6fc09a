"""Tokens of vendors that the contract's catalogue does not list, and values only a label tells.

The prefixes come from the vendors' own documentation; they test the breadth of the registry and
the general mechanisms, so nothing here may be copied into a rule without its own source.
"""

from __future__ import annotations

from secrets_generator_draw import Shape, shapes

BREADTH = """
adafruit key: aio|_{a:28}
alibaba id: LTAI|5t{a:18}
buildkite token: bkua|_{h:40}
circleci token: CCIPAT|_‹{a:22}_{h:40}›
clojars token: CLOJARS|_{h:60}
contentful token: CFPAT|-{w:43}
dynatrace token: dt0c01|.{3:24}.{3:64}
duffel token: duffel|_<test/live>_{w:43}
easypost key: <EZAK/EZTK>|{a:54}
flutterwave key: FLWSECK|_TEST-{h:32}-X
frameio token: fio|-u-{w:64}
harness token: pat|.{w:22}.{h:24}.{a:20}
hubspot app: pat|-<na1/eu1>-{uuid}
infracost key: ico|-{a:32}
jfrog key: AKCp|{a:69}
launchdarkly sdk: <sdk/api>|-{uuid}
lob key: <live/test>|_{h:35}
maxmind key: {a:6}_{a:29}_mmk|
octopus key: API|-{u:26}
plaid token: access|-<sandbox/production>-{uuid}
prefect key: pnu|_{a:36}
scalingo token: tk|-us-{w:48}
shippo token: shippo|_<live/test>_{h:40}
sonar token: <sqp/squ/sqa>|_{h:40}
typeform token: tfp|_{w:44}_{a:14}
wakatime key: waka|_{uuid}
yandex key: AQVN|{w:36}
elevenlabs key: sk|_{h:48}
fireworks key: fw|_{a:24}
jina key: jina|_{a:60}
firecrawl key: fc|-{h:32}
e2b key: e2b|_{h:40}
langfuse key: sk|-lf-{uuid}
deepseek key: sk|-{h:32}
resend key: re|_‹{a:8}_{a:24}›
inngest key: signkey|-prod-{h:64}
deno token: ddp|_{a:36}
honeycomb key: hcaik|_{l:58}
axiom token: xaat|-{uuid}
posthog key: phx|_{a:43}
onesignal key: os|_v2_app_{l:100}
mailersend token: mlsn|.{h:64}
linear hook: lin|_wh_{a:32}
paystack key: sk|_live_{h:40}
braintree token: access_token|$production${l:16}${h:32}
voyage key: pa|-{w:43}
wandb key: wandb|_v1_{a:24}_{a:20}
context7 key: ctx7sk|-{uuid}
zuplo key: zpka|_{h:32}_{h:8}
xata key: xau|_{a:38}
triggerdev key: tr|_prod_{a:24}
"""

# ``label``: names of the value in files and prose; the shape follows
LABEL_ONLY = """
datadog api|DD_API_KEY,datadog api key,datadog_api_key: {h:32}
datadog app|DD_APP_KEY,datadog app key,datadog_app_key: {h:40}
cloudflare token|CLOUDFLARE_API_TOKEN,cloudflare api token,cloudflare_api_token: {w:40}
cloudflare global|CLOUDFLARE_API_KEY,cloudflare api key,cf_global_api_key: {h:37}
vault legacy|VAULT_TOKEN,vault token,vault_token: s.{a:24}
vercel legacy|VERCEL_TOKEN,vercel token,vercel_token: {a:24}
railway token|RAILWAY_TOKEN,railway token,railway_api_token: {uuid}
heroku key|HEROKU_API_KEY,heroku api key,heroku_api_key: {uuid}
okta token|OKTA_API_TOKEN,okta api token,okta_token: ‹00{w:40}›
confluent secret|CONFLUENT_API_SECRET,confluent api secret,confluent_cloud_api_secret: {b:64}
twilio auth|TWILIO_AUTH_TOKEN,twilio auth token,twilio_auth_token: {h:32}
postmark token|POSTMARK_SERVER_TOKEN,postmark server token,postmark_api_token: {uuid}
paypal secret|PAYPAL_CLIENT_SECRET,paypal client secret,paypal_secret: ‹E{w:79}›
twitter secret|TWITTER_API_SECRET,twitter api secret,x_access_token_secret: {a:45..50}
algolia key|ALGOLIA_ADMIN_KEY,algolia admin api key,algolia_api_key: {h:32}
deepgram key|DEEPGRAM_API_KEY,deepgram api key,deepgram_key: {h:40}
mistral key|MISTRAL_API_KEY,mistral api key,mistral_key: {a:32}
cohere key|COHERE_API_KEY,cohere api key,cohere_token: {a:40}
fastly token|FASTLY_API_TOKEN,fastly api token,fastly_key: {w:32}
bitbucket secret|BITBUCKET_CLIENT_SECRET,bitbucket client secret,bitbucket_secret: {w:32}
snyk token|SNYK_TOKEN,snyk token,snyk_api_token: {uuid}
jenkins token|JENKINS_API_TOKEN,jenkins api token,jenkins_token: ‹11{h:32}›
gitea token|GITEA_TOKEN,gitea access token,gitea_token: {h:40}
azure-devops pat|AZURE_DEVOPS_PAT,azure devops pat,azure_devops_token: {l:52}
binance secret|BINANCE_SECRET_KEY,binance secret key,binance_api_secret: {a:64}
django secret|DJANGO_SECRET_KEY,django secret key,secret_key: {a:50}
nextauth secret|NEXTAUTH_SECRET,nextauth secret,nextauth_secret: {b:43}
jwt secret|JWT_SECRET,jwt signing secret,jwt_secret: {a:40}
client secret|OAUTH_CLIENT_SECRET,client secret,client_secret: {w:32}
access token|ACCESS_TOKEN,access token,access_token: {a:36}
refresh token|REFRESH_TOKEN,refresh token,refresh_token: {w:48}
api key|ACME_API_KEY,api key,api_key: {a:32}
private token|PRIVATE_TOKEN,private token,private_token: {w:20}
encryption key|ENCRYPTION_KEY,encryption key,encryption_key: {b:43}
webhook secret|WEBHOOK_SECRET,webhook secret,webhook_secret: {h:40}
smtp password|SMTP_PASSWORD,smtp password,smtp_password: {pw}
db password|DB_PASSWORD,database password,db_password: {pw}
root password|MYSQL_ROOT_PASSWORD,root password,mysql_root_password: {pw}
admin passwd|ADMIN_PASSWD,admin passwd,admin_passwd: {pw}
wifi passphrase|WIFI_PASSPHRASE,wifi passphrase,wifi_passphrase: {pw}
redis pass|REDIS_PASS,redis password,redis_pass: {pw}
unknown vendor|ZORBLAX_API_KEY,zorblax api key,zorblax_api_key: {a:28..40}
unknown vendor-hex|QUILLTOP_TOKEN,quilltop token,quilltop_token: {h:32..48}
unknown vendor-uuid|FENWICK_SECRET,fenwick secret,fenwick_secret: {uuid}
"""


def breadth_shapes() -> list[Shape]:
    """Self-identifying tokens beyond the contract's list."""
    return shapes(BREADTH, prefix="breadth:")


def label_only_shapes() -> list[tuple[Shape, tuple[str, str, str]]]:
    """Values that only a label tells, each with its env, prose and snake-case label."""
    found = []
    for line in LABEL_ONLY.strip().splitlines():
        title, rest = line.split("|", 1)
        labels, written = rest.split(": ", 1)
        env, prose, snake = labels.split(",")
        (shape,) = shapes(f"label {title.replace(' ', '-')}: {written}")
        found.append((shape, (env, prose, snake)))
    return found
