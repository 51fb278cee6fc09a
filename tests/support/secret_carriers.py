"""Carriers of secrets as people and programs write them, with values drawn at run time.

The list follows redaction.md 13.6 and the label languages of 4.3; each entry is one sample.
"""

# ruff: noqa: E501 - one carrier per line reads best

from __future__ import annotations

import base64
import json
import string

from secrets_generator import BASE32, Maker, Sample, pem


def carriers(m: Maker) -> dict[str, Sample]:
    """name -> sample."""
    found: dict[str, Sample] = {}

    def add(
        name: str, text: str, *cores: str, keep: tuple[str, ...] = (), hr: bool = False
    ) -> None:
        found[name] = Sample(text, cores, keep, "high_risk" if hr else "credential", False)

    p = m.password()
    k = m.an(32)
    h = m.hex(32)
    u = m.uuid()
    w = m.w(40)
    lower = m.of("abcdefghijklmnopqrstuvwxyz", 16)
    add("datadog", f"DD_API_KEY={h}", h)
    x = m.hex(40)
    add("dd3", f'datadog_app_key = "{x}"', x)
    add("cf", f"CLOUDFLARE_API_TOKEN={w}", w)
    x = m.hex(37)
    add("cf2", f"CF_API_KEY: {x}", x)
    add("heroku", f"HEROKU_API_KEY={u}", u)
    add("railway", f"RAILWAY_TOKEN={u}", u)
    add("postmark", f"POSTMARK_SERVER_TOKEN={u}", u)
    add("x-postmark", f"X-Postmark-Server-Token: {u}", u)
    add("twilio", f"TWILIO_AUTH_TOKEN={h}", h)
    add("okta", f"Authorization: SSWS 00{w}", w)
    add("okta2", f"okta api token = 00{w}", w)
    x = m.an(24)
    add("vercel2", f"vercel token: {x}", x)
    add("vault legacy", f"VAULT_TOKEN=s.{(x := m.an(24))}", x)
    add("paypal", f"PAYPAL_SECRET=E{(x := m.w(79))}", x)
    add("X", f"TWITTER_API_SECRET={(x := m.an(50))}", x)
    add("confluent", f"CONFLUENT_API_SECRET={(x := m.b64(64))}", x)
    add("x-key", f"X-Api-Key: {k}", k)
    add("x-auth", f"X-Auth-Token: {h}", h)
    add("curlh", f"curl -H 'X-API-Key: {k}' https://a.b", k, keep=("https://a.b",))
    add("hdr", f'-H "PRIVATE-TOKEN: {k}"', k)
    add("apikey hdr", f"Authorization: ApiKey {k}", k)
    add("token hdr", f"Authorization: token {h}", h)
    add("auth raw", f"authorization: {k}", k)
    add(
        "digest",
        f'Authorization: Digest username="bob", realm="r", nonce="{m.hex(32)}", response="{h}"',
        h,
    )
    add("setcookie", f"Set-Cookie: sid={k}; Path=/; HttpOnly", k, keep=("Path=/; HttpOnly",))
    add("cookie2", f"Cookie: theme=dark; auth_token={k}; _ga=GA1.2.3", k, keep=("theme=dark",))
    add(
        "frag",
        f"https://app.io/cb#access_token={k}&token_type=bearer",
        k,
        keep=("token_type=bearer",),
    )
    add("qkey", f"https://maps.io/api?key={k}&q=x", k)
    add("qapikey", f"https://x.io/?apikey={h}", h)
    add("qcode", f"https://x.io/?api_key={u}", u)
    add("q sig", f"https://x.io/d?Signature={(x := m.b64(40))}&Expires=1", x)
    add("userinfo", f"https://bob:{p}@x.io/", p)
    add("userinfo@", f"https://bob:p@{p}@x.io/", p)
    add("tok url", f"https://{k}@github.com/a/b", k)
    add("x-access", f"https://x-access-token:{k}@github.com/a", k)
    add("redis", f"redis://:{p}@r:6379/0", p)
    add("amqp", f"amqp://u:{k}@h/v", k)
    add("mongo", f"mongodb+srv://u:{p}@c.mongodb.net/d", p)
    add("smtp", f"smtps://me%40x.io:{k}@smtp.x.io", k)
    add("jdbc", f"jdbc:mysql://h/d?user=a&password={p}", p)
    add("odbc", f"Driver={{ODBC}};Server=s;Uid=sa;Pwd={p};", p)
    add("dotnet", f"Server=s;User Id=sa;Password={p};Trusted=1", p, keep=("Trusted=1",))
    add("libpq", f"host=h user=u password={p} dbname=d", p, keep=("dbname=d",))
    add("libpq q", f"host=h password='{p}' dbname=d", p)
    add(
        "sak",
        f"Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey={(x := m.b64(43))}=",
        x,
        keep=("SharedAccessKeyName=Root",),
    )
    add("cosmos", f"AccountEndpoint=https://a;AccountKey={(x := m.b64(86))}==;", x)
    add("flag1", f"app --password {p} run", p)
    add("flag2", f"app --password={p} run", p)
    add("flag3", f'app --token="{k}"', k)
    add("flag6", f"http --auth bob:{p} GET x.io", p)
    add("flag7", f"curl --user bob:{p} x", p)
    add("docker", f"docker login -u bob -p {p} r.io", p)
    add("sshpass", f"sshpass -p '{p}' ssh h", p)
    add("mysqldump", f"mysqldump -uroot -p{p} db", p)
    add("redis-cli", f"redis-cli -h h -a {p} ping", p)
    add("netrc", f"machine h\n  login bob\n  password {lower}\n", lower)
    add("netrc2", f"default login a password {p}", p)
    add("pgpass", f"*:5432:*:bob:{p}", p)
    add("pgpass2", f"localhost:*:db:bob:{p}", p)
    add("npmrc", f"//npm.x.io/:_authToken={k}", k)
    add(
        "npmrc2",
        f"_auth={base64.b64encode(('u:' + p).encode()).decode()}",
        base64.b64encode(("u:" + p).encode()).decode()[:-4],
    )
    add("npmset", f"npm config set //r.io/:_authToken {k}", k)
    a = base64.b64encode(f"bob:{p}".encode()).decode()
    add("docker cfg", json.dumps({"auths": {"r.io": {"auth": a}}}), a[:-2])
    add("docker cfg2", json.dumps({"auths": {"r.io": {"auth": a}}}, indent=2), a[:-2])
    add("kube", f"users:\n- name: a\n  user:\n    token: {k}\n", k)
    ck = base64.b64encode(pem(m).text.encode()).decode()
    add("kube key", f"    client-key-data: {ck}", ck[40:], hr=True)
    sd = base64.b64encode(p.encode()).decode()
    add(
        "k8s",
        f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n  password: {sd}\n  username: {base64.b64encode(b'administrator').decode()}\n",
        sd[:-2],
    )
    add("k8s2", f"kind: Secret\nstringData:\n  conn: {p}\n", p)
    add("set", f"set API_TOKEN {k}", k)
    add("setx", f'setx API_KEY "{k}"', k)
    add("ENV", f"ENV SECRET_KEY {k}", k)
    add("heroku set", f"heroku config:set SECRET_KEY={k}", k)
    add("git config", f"git config --global x.token {k}", k)
    add("export", f"export AWS_SESSION_TOKEN={(x := m.b64(300))}", x, hr=True)
    add("prose1", f"The database password is {p}.", p)
    add("prose2", f"my api key is {k}, keep it safe", k, keep=("keep it safe",))
    add("prose3", f'password for the admin account is "{p}"', p)
    add("prose4", f"set the token to {k}", k)
    add("prose5", f"use password {p} to log in", p)
    add("prose7", f"Password - {p}", p)
    add("prose9", f"pw: {p}", p)
    add("prose10", f"pass: {p}", p)
    add("pt2", f"Minha senha: {p}", p)
    add("pt3", f"a palavra-passe é {p}", p)
    add("pt4", f"chave da api: {k}", k)
    add("es2", f"la contraseña es {p}", p)
    add("es3", f"clave: {p}", p)
    add("fr2", f"le mot de passe est {p}", p)
    add("fr3", f"clé API : {k}", k)
    add("de2", f"Kennwort: {p}", p)
    add("de3", f"API-Schlüssel: {k}", k)
    add("pl2", f"hasło to {p}", p)
    add("pl3", f"klucz API: {k}", k)
    add("ru2", f"пароль — {p}", p)
    add("ru3", f"токен: {k}", k)
    add("zh2", f"密码是{p}", p)
    add("zh3", f"数据库密码为 {p}", p)
    add("zh4", f"密钥：{k}", k)
    add("zh5", f"令牌: {k}", k)
    add("ja2", f"パスワード：{p}", p)
    add("ja3", f"APIキー: {k}", k)
    add("ko2", f"비밀번호는 {p}", p)
    add("ko3", f"API 키: {k}", k)
    add("tr2", f"parola: {p}", p)
    add("nl2", f"het wachtwoord is {p}", p)
    add("ar2", f"كلمة السر هي {p}", p)
    add("it", f"la parola d'ordine: {p}", p)
    add("md", f"**Password:** {p}", p, keep=("**Password:**",))
    add("md2", f"- Password: `{p}`", p, keep=("- Password: `",))
    add("mdrow", f"| password | {p} |", p)
    add("code", f"```\nTOKEN={k}\n```", k)
    add("js", f"const apiKey = '{k}';", k)
    add("ts", f'apiKey: "{k}",', k)
    add("go", f'var Token = "{k}"', k)
    add("rb", f':password => "{p}"', p)
    add("php", f"'password' => '{p}',", p)
    add("ini", f"[db]\npassword = {p}\n", p)
    add("toml", f'token = "{k}"', k)
    add("prop", f"spring.datasource.password={p}", p)
    add("py", f'connect(password="{p}", user="u")', p)
    add("py2", f'config["password"] = "{p}"', p)
    add("xml", f"<api-key>{k}</api-key>", k)
    add("xmla", f'<user name="a" password="{p}"/>', p)
    add("xml2", f'<entry key="password">{p}</entry>', p)
    add("tf", f'password = "{p}"', p)
    add("yamlb", f"password: |\n  {p}\n", p)
    add("powershell", f'$Password = "{p}"', p)
    add("csharp", f'string token = "{k}";', k)
    add("c", f'#define API_KEY "{k}"', k)
    add("rust", f'let token: &str = "{k}";', k)
    add("java", f'private static final String SECRET = "{k}";', k)
    add("sql", f"ALTER USER bob WITH PASSWORD '{p}'", p)
    add("sql2", f"CREATE USER b IDENTIFIED BY '{p}'", p)
    add("esc", f'{{\\"token\\": \\"{k}\\"}}', k)
    add("log", f"2025-01-01 INFO token={k} user=3", k, keep=("user=3",))
    add("json nested", json.dumps({"name": "token", "value": k}), k)
    add("tuple", f'("password", "{p}")', p)
    add("urlenc", f"password%3D{k}", k)
    add("form", f"grant_type=password&username=a&password={k}", k)
    add("passphrase", 'passphrase: "correct horse battery staple"', "correct horse battery staple")
    add("passphrase2", "passphrase: correct horse battery staple", "correct horse battery staple")
    add("lower2", f"PASSWORD={lower}", lower)
    add("num", "password=48392017", "48392017")
    add("short", "pwd=abc12", "abc12")
    add(
        "jwk",
        json.dumps({"kty": "EC", "crv": "P-256", "x": m.w(43), "y": m.w(43), "d": (x := m.w(43))}),
        x,
        hr=True,
    )
    add("jwk oct", json.dumps({"kty": "oct", "k": (x := m.w(43))}), x, hr=True)
    add(
        "ppk",
        "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: x\nPublic-Lines: 2\n"
        + m.b64(64)
        + "\n"
        + m.b64(40)
        + "\nPrivate-Lines: 1\n"
        + (x := m.b64(48))
        + "\nPrivate-MAC: "
        + m.hex(64),
        x,
        hr=True,
    )
    add(
        "ppk trunc",
        "PuTTY-User-Key-File-2: ssh-rsa\nEncryption: none\nComment: x\nPublic-Lines: 2\n"
        + m.b64(64)
        + "\n"
        + m.b64(40)
        + "\nPrivate-Lines: 1\n"
        + (x := m.b64(48)),
        x,
        hr=True,
    )
    add(
        "wg",
        f"[Interface]\nPrivateKey = {(x := m.b64(43))}=\nAddress = 10.0.0.2/32\n[Peer]\nPublicKey = {(pk := m.b64(43))}=\nPresharedKey = {(y := m.b64(43))}=\nAllowedIPs = 0.0.0.0/0",
        x,
        y,
        keep=(pk, "AllowedIPs = 0.0.0.0/0"),
        hr=True,
    )
    add("eth2", f"deployer private key 0x{(x := m.hex(64))}", x, hr=True)
    add("eth3", f"wallet key: 0x{(x := m.hex(64))}", x, hr=True)
    add("rec", "Recovery codes\n1. " + (x := m.digits(8)) + "\n2. " + (y := m.digits(8)), x, y)
    add(
        "rec2",
        "Backup codes: "
        + (x := (m.digits(4) + " " + m.digits(4)))
        + ", "
        + (y := (m.digits(4) + " " + m.digits(4))),
        x,
        y,
    )
    add(
        "rec3",
        "2FA backup codes:\n"
        + (x := (m.an(5).lower() + "1-" + m.an(5).lower()))
        + "\n"
        + (y := (m.an(5).lower() + "2-" + m.an(5).lower())),
        x,
        y,
    )
    add(
        "jwe",
        ".".join(
            [
                base64.urlsafe_b64encode(b'{"alg":"dir","enc":"A256GCM"}').decode().rstrip("="),
                "",
                (x := m.w(16)),
                (y := m.w(60)),
                m.w(22),
            ]
        ),
        y,
    )
    add("lonejwt", f"eyJhbGciOiJIUzI1NiJ9.{(x := m.w(40))}.{(y := m.w(43))}", x, y)
    add("otp", f"totp secret: {(x := m.of(BASE32, 32))}", x)
    add("crates", f"cargo login cio{(x := m.an(32))}", x)
    add("square", f"EAAA{(x := m.w(60))}", x)
    add("facebook", f"EAAC{(x := m.an(180))}", x)
    add("slack cfg", f"xoxe.xoxp-1-{(x := m.an(163))}", x)
    add("xoxd", f"xoxd-{(x := m.b64(120))}", x)
    add(
        "teams",
        f"https://acme.webhook.office.com/webhookb2/{m.uuid()}@{m.uuid()}/IncomingWebhook/{(x := m.hex(32))}/{m.uuid()}",
        x,
    )
    add(
        "zapier",
        f"https://hooks.zapier.com/hooks/catch/123456/{(x := m.of('abcdefghijk123', 7))}/",
        x,
    )
    add("notion", f"secret_{(x := m.an(43))}", x)
    add("dropbox", f"sl.u.{(x := m.w(140))}", x)
    add("mapbox", f"sk.eyJ{(x := m.an(80))}.{m.w(22)}", x)
    add("glc", f"glc_eyJ{(x := m.an(80))}", x)
    add("grafana", f"eyJrIjoi{(x := m.an(80))}", x)
    add("sentrys", f"sntrys_eyJ{(x := m.an(90))}_{m.an(43)}", x)
    add("bedrock", f"ABSK{(x := m.b64(120))}", x)
    add("aws sess", f"IQoJb3JpZ2luX2Vj{(x := m.b64(300))}", x, hr=True)
    add("gem", f"AQ.Ab8RN6{(x := m.w(44))}", x)
    add("cf v1", f"v1.0-{m.hex(24)}-{(x := m.hex(146))}", x)
    add("routable", f"glpat-{(x := m.w(27))}.01.{m.of('0123456789abcdefghij', 9)}", x)
    add("mem0", f"m0-{(x := m.an(40))}", x)
    add("tgp", f"tgp_v1_{(x := m.w(43))}", x)
    add("apiorg", f"api_org_{(x := m.of('abcdefghijklmnopqrstuvwxyzABCDEFGH', 34))}", x)
    add("hf", f"hf_{(x := m.of(string.ascii_letters, 34))}", x)
    add("flyv1", f"FlyV1 fm2_{(x := m.b64(200))},fm2_{(y := m.b64(100))}", x, y)
    return found
