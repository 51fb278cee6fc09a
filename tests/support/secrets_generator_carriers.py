"""Texts that carry a secret in a known place: URLs, headers, configuration files, command lines.

Shapes of redaction.md 13.4 (webhooks) and 13.6; ``¶`` is a line break.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

from secrets_generator_draw import Draw, Shape, Value, shapes

WEBHOOKS = """
webhook slack: «https://hooks.slack.com/services/»T{u:9}/B{u:10}/‹{a:24}›
webhook slack-workflow: «https://hooks.slack.com/workflows/»T{u:9}/A{u:10}/{d:18}/‹{a:24}›
webhook slack-trigger: «https://hooks.slack.com/triggers/»T{u:9}/{d:13}/‹{h:32}›
webhook discord: «https://discord.com/api/webhooks/»{d:18}/‹{w:68}›
webhook discord-old: «https://discordapp.com/api/webhooks/»{d:18}/‹{w:68}›
webhook teams: https://acme.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/‹{h:32}›/{uuid}
webhook zapier: «https://hooks.zapier.com/hooks/catch/»{d:7}/‹{l:7}›/
webhook telegram: «https://api.telegram.org/»bot{d:10}:|AA‹{w:33}›/sendMessage
webhook tgram: tgram://{d:10}:|AA‹{w:33}›/12345678
"""
URLS = """
url userinfo-postgres: «postgres://app:»‹{a:16}›«@db.internal:5432/main»
url userinfo-redis: «redis://:»‹{a:20}›«@cache.internal:6379/0»
url userinfo-mongo: «mongodb+srv://root:»‹{a:18}›«@cluster0.abcde.mongodb.net/?w=majority»
url userinfo-at: «mysql://root:»‹{a:5}@{a:6}›«@10.0.0.5/shop»
url userinfo-words: «amqp://worker:»‹velvet-harbor-{c:5}›«@mq.internal:5672//»
url userinfo-git: git clone «https://»bob:‹{a:22}›«@git.acme.io/team/app.git»
url query-token: «https://api.acme.io/v1/items?access_token=»‹{a:32}›«&page=2»
url query-key: «https://maps.acme.io/tiles?key=»‹{a:36}›«&z=3»
url query-apikey: GET «/v2/weather?city=Porto&apikey=»‹{h:32}› «HTTP/1.1»
url fragment: «https://app.acme.io/cb#access_token=»‹{w:40}›«&state=ok»
url reset: «https://app.acme.io/reset?token=»‹{w:32}›
url secret: «https://app.acme.io/hook?client_secret=»‹{w:28}›«&v=1»
signed aws: «https://b.s3.amazonaws.com/k?X-Amz-Date=20250101T000000Z»&X-Amz-Signature=‹{h:64}›
signed aws-session: https://b.s3.amazonaws.com/k?X-Amz-Security-Token=‹{b:120}›&X-Amz-Signature=‹{h:64}›
signed google: «https://storage.googleapis.com/b/o?X-Goog-Expires=60»&X-Goog-Signature=‹{h:256}›
signed sas: «https://acc.blob.core.windows.net/c?sv=2023-01-03»&sig=‹{a:43}%3D›«&se=2025-01-01»
signed cloudfront: «https://d1.cloudfront.net/a.mp4?Expires=1735787045»&Signature=‹{a:120}›&Key-Pair-Id=K2JCJMDEHXQW5F
otpauth uri: «otpauth://totp/Acme:me?secret=»‹{3:32}›«&issuer=Acme»
otpauth seed: «TOTP seed:» {3:32}
url wifi: «WIFI:T:WPA;S:office;P:»‹{a:14}›«;;»
"""
HEADERS = """
header bearer: «Authorization: Bearer» {w:40}
header bearer-lower: authorization: bearer {a:32}
header bearer-json: {"«Authorization»": "«Bearer» ‹{a:40}›"}
header bearer-code: headers = {"«Authorization»": f"Bearer ‹{a:36}›"}
header token: «Authorization: token» {h:40}
header apikey: «Authorization: ApiKey» {b:44}
header ssws: «Authorization: SSWS» 00{w:40}
header digest: Authorization: Digest «username="bob"», response="‹{h:32}›"
header x-key: «X-Api-Key:» {a:32}
header x-token: curl -H "«X-Auth-Token:» ‹{a:36}›" «https://acme.io»
header x-vendor: «X-Zorblax-Key:» {h:40}
header private-token: curl --header "«PRIVATE-TOKEN:» ‹{w:20}›" «https://git.acme.io»
header cookie: «Cookie:» sessionid=‹{a:32}›; «lang=en»
header set-cookie: «Set-Cookie:» sid=‹{w:40}›; «Path=/; HttpOnly»
header cookie-auth: Cookie: «theme=dark»; auth_token=‹{w:43}›
"""
CONNECTIONS = """
connection jdbc: «jdbc:postgresql://db:5432/app?user=app»&password=‹{a:16}›
connection jdbc-oracle: jdbc:oracle:thin:scott/‹{a:14}›«@//db.acme.io:1521/ORCL»
connection odbc: «Driver={SQL Server};Server=db;UID=sa»;PWD=‹{a:14}›;
connection dotnet: «Server=db;Database=app;User Id=sa»;Password=‹{a:6}!{a:8}›;«Encrypt=true»
connection libpq: «host=db user=app» password=‹{a:16}› «dbname=main»
connection azure-storage: «DefaultEndpointsProtocol=https;AccountName=stacc»;AccountKey=‹{b:86}›==;«EndpointSuffix=core.windows.net»
connection azure-bus: «Endpoint=sb://bus.servicebus.windows.net/;SharedAccessKeyName=Root»;SharedAccessKey=‹{b:43}›=
connection azure-cosmos: «AccountEndpoint=https://a.documents.azure.com:443/»;AccountKey=‹{b:86}›==;
"""  # noqa: E501
FILES = """
file netrc: «machine api.acme.io login bob» password ‹{pw}›
file netrc-token: «machine api.acme.io login token password» ‹{a:16}›
file yaml-anchor: password: «&shop» ‹{a:14}›¶«other: *shop»
file django: «SECRET_KEY» = 'django-insecure-‹{a:8}(({a:6}$@{a:8}&!{a:6}›'
file netrc-lines: «machine api.acme.io»¶  login bob¶  password ‹{c:14}›
file pgpass: «db.acme.io:5432:main:bob:»‹{a:14}›
file npmrc: «//registry.npmjs.org/:_authToken=»‹{uuid}›
file npmrc-old: «//npm.acme.io/:_password=»‹{b:24}›
file pypirc: «[pypi]¶username = bob»¶password = ‹{pw}›
file kubeconfig: «users:¶- name: dev¶  user:»¶    token: ‹{w:60}›
file kubeconfig-key: «client-certificate-data: LS0tLS1CRUdJTiBDRVJU»¶    client-key-data: ‹{b:200}›
file htpasswd-env: «PGPASSWORD=»‹{a:14}› «psql -h db»
file k8s-env: - «name: API_TOKEN»¶  value: ‹{a:30}›
file xml: <«add key="ApiSecret"» value="‹{a:28}›"/>
file xml-element: <«password»>‹{a:14}›</password>
file xml-attribute: <server «id="nexus"» username="ci" password="‹{a:16}›" />
file properties: «spring.datasource.password»=‹{pw}›
file toml: [api]¶«token» = "‹{a:36}›"¶«retries = 3»
file terraform: «variable "db_password"» { default = "‹{a:18}›" }
file tfvars: «db_password» = "‹{pw}›"
file wpconfig: define( '«DB_PASSWORD»', '‹{a:18}›' );
file ruby: config.«secret_key_base» = '‹{h:128}›'
file php: $«apiKey» = "‹{a:32}›";
file go: «APIKey:» "‹{a:32}›",
file rust: let «api_token» = "‹{a:36}›";
file csharp: private const string «ClientSecret» = "‹{w:34}›";
file ansible: «ansible_become_pass»: ‹{pw}›
file gradle: «signing.password»=‹{pw}›
file travis: «docker_password:» "‹{a:20}›"
file sql: CREATE USER app «IDENTIFIED BY» '‹{a:16}›';
file sql-postgres: ALTER ROLE app WITH «PASSWORD» '‹{a:16}›';
"""
COMMANDS = """
command flag: tool «--api-key» {a:24} «--verbose»
command flag-equals: tool «--token=»{a:30} «run»
command password: mytool login «--username bob» --password ‹{pw}›
command mysql: mysql «-u root» -p‹{a:14}› «shop»
command curl-user: curl -u admin:‹{a:14}› «https://acme.io»
command curl-user-long: curl --user ci:‹{a:18}› «https://acme.io/api»
command sshpass: sshpass -p ‹{a:12}› «ssh bob@host»
command docker: docker login «-u bob» -p ‹{a:24}› «registry.acme.io»
command export: «export GITEA_TOKEN=»{h:40} && «make release»
command set: «set API_SECRET» {a:28}
command setx: setx «API_TOKEN» "‹{a:28}›"
command heroku: heroku config:set «STRIPE_SECRET=»{a:28}
command redis: redis-cli «-h cache» -a ‹{a:20}› ping
command kubectl: kubectl create secret generic db «--from-literal=password=»‹{a:16}›
command powershell: $env:«API_TOKEN» = "‹{a:32}›"
command unzip: unzip -P ‹{a:12}› «a.zip»
command htpasswd: htpasswd -b «.htpasswd bob» ‹{a:12}›
command expect: expect "Password:"¶send "‹{a:14}›\\r"
command pexpect: child.expect('assword:')¶child.sendline('‹{a:14}›')
command inline: DB_PASSWORD=‹{a:16}› «python manage.py migrate»
"""
PROSE = """
prose password-is: «The password is» {pw} «for now»
prose possessive: my «bank password's» ‹{pw}›
prose mail: «Hi, your new password is:»¶¶‹{pw}›¶¶«Regards»
prose prompt: «Password:»¶‹{l:7}{d:3}{c:3}›
prose password-to: please set the «API_TOKEN to» `‹{a:28}›` «in production»
prose user-and: log in with «user bob» and password ‹{a:6}7{a:5}›
prose change: I changed the «admin password to» ‹{a:5}4{a:6}›, «tell nobody»
prose secret-was: «the client secret was» ‹{w:32}› «until May»
prose key-for: «api key for zorblax:» {a:32}
prose login: «login:» bob / password: ‹{pw}›
prose wifi: «wifi password is» "‹{pw}›"
prose codes: «Recovery codes»:¶‹{l:5}-{l:5}›¶‹{l:5}-{l:5}›¶‹{l:5}-{l:5}›
prose codes-numbers: «Backup codes»¶1. ‹{d:8}›¶2. ‹{d:8}›¶3. ‹{d:8}›
prose otp: «TOTP secret»: ‹{3:32}›
prose passphrase: «passphrase»: "‹correct {c:6} battery {c:5} staple›"
"""


def _broken(shape: Shape) -> Shape:
    def draw(source: Draw) -> Value:
        value = shape.draw(source)
        return Value(
            value.text.replace("¶", "\n"),
            value.secrets,
            tuple(part.replace("¶", "\n") for part in value.keep),
        )

    return Shape(shape.family, shape.name, draw, shape.severity)


def _basic(draw: Draw) -> Value:
    coded = base64.b64encode(f"bob:{draw.password()}".encode()).decode()
    return Value(f"Authorization: Basic {coded}", (coded.rstrip("="),), ("Basic ",))


def _docker(draw: Draw) -> Value:
    coded = base64.b64encode(f"ci:{draw.of('a', 20)}".encode()).decode()
    host = "https://index.docker.io/v1/"
    text = json.dumps({"auths": {host: {"auth": coded}}}, indent=draw.pick((None, 2)))
    return Value(text, (coded.rstrip("="),), (host,))


def _k8s_secret(draw: Draw) -> Value:
    coded = base64.b64encode(draw.of("a", 18).encode()).decode()
    text = f"kind: Secret\nmetadata:\n  name: db\ndata:\n  password: {coded}\n"
    return Value(text, (coded,), ("name: db", "password:"))


def _leaf(draw: Draw) -> Value:
    secret = draw.of("a", 16)
    text = json.dumps({"db": {"host": "db.acme.io", "password": secret, "port": 5432}})
    return Value(text, (secret,), ("db.acme.io", "5432"))


def carrier_shapes() -> list[Shape]:
    """Every text with a secret in a known place."""
    tables = (WEBHOOKS, URLS, HEADERS, CONNECTIONS, FILES, COMMANDS, PROSE)
    special: tuple[tuple[str, str, Callable[[Draw], Value]], ...] = (
        ("header", "basic", _basic),
        ("file", "docker-auth", _docker),
        ("file", "k8s-secret", _k8s_secret),
        ("file", "json-leaf", _leaf),
    )
    return [
        *(_broken(shape) for table in tables for shape in shapes(table)),
        *(Shape(family, f"{family}-{name}", draw) for family, name, draw in special),
    ]
