"""More ways to write a labelled secret down, and harmless texts of the same build.

``%`` is the label (password, api_key, ...), ``#`` the label in words, ``@`` its upper case and
``§`` the value; ``¶`` is a line break.
"""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
from collections.abc import Callable, Iterator

from secrets_generator_draw import Draw, Sample

LABELS = ("password", "api_key", "client_secret", "access_token", "secret", "passphrase")

WRITTEN = """
markup bold|**%**: §
markup bold-code|**%:** `§`
markup italic|_%_ = _§_
markup list|- % — §
markup heading|## #¶¶§¶
markup row|* # = §
markup table-row|| % | § |
markup table-column|| user | % |¶|---|---|¶| bob | § |
markup xml|<%>§</%>
markup cdata|<%><![CDATA[§]]></%>
markup plist|<key>%</key>¶<string>§</string>
markup html|<td>%</td><td>§</td>
lines next|%:¶§¶
lines next-indent|%:¶    §¶
lines block|%: |¶  §¶next: 1
lines folded|%: >-¶  §¶next: 1
lines csv|user,%¶bob,§¶
lines question|Q: what is the #?¶A: §
code triple|% = '''§'''
code tuple|("%", "§")
code array|["%", "§"]
code arrow|'%' => '§',
code put|config.put("%", "§");
code setter|client.set_%("§")
code keyword|login(user="bob", %="§")
code environ|os.environ['@'] = '§'
code repr|{'%': '§', 'n': 1}
code bytes|% = b'§'
code symbol|:% => "§"
code option|.option("%", "§")
code log|time=1 msg="login" body="{\\"%\\":\\"§\\"}"
code index|settings["%"] = "§"
shell setenv|setenv @ §
shell fish|set -x @ §
shell batch|set @=§
shell dockerfile|ENV @ §
shell arg|ARG @=§
shell helm|helm install x --set auth.%=§
shell option|deploy --% § --now
shell option-quoted|deploy --% '§' --now
shell read|@='§' ./deploy.sh
config colon|% : §
config thin-arrow|% -> §
config parentheses|(%: §)
config full-width|%＝§
config comment|# %: §
phrase for|# for bob: §
phrase changed|the # was changed from old1 to §
phrase change|please change the # to §
phrase use-as|use § as the #
phrase with|log in with # §
phrase should|the # should be §
phrase now|the # is now §
phrase remember|Remember that the # of the shop is §
phrase new|new #: §, old one is void
phrase dash|the # - §
phrase equals|# equals §
phrase set|I set the # as "§"
"""
SPOKEN = """
phrase:pt server|a palavra-passe do servidor é §
phrase:pt wifi|lembra-te: a password do wifi é §
phrase:pt changed|mudei a senha para §
phrase:es server|la contraseña del wifi es §
phrase:es plain|contrasena: §
phrase:es changed|cambié la contraseña a §
phrase:fr server|le mot de passe du serveur est §
phrase:fr colon|mdp du serveur : §
phrase:de of|Passwort vom Server: §
phrase:it of|la password del server: §
phrase:ru of|пароль администратора: §
phrase:ar of|كلمة مرور الخادم: §
phrase:fr short|mdp: §
phrase:de server|Passwort für den Server: §
phrase:de new|Das neue Passwort ist §
phrase:pl base|hasło do bazy: §
phrase:ru wifi|пароль от wifi — §
phrase:ru pair|логин/пароль: bob / §
phrase:ru changed|сменил пароль на §
phrase:zh changed|数据库密码改成了§
phrase:zh quoted|密码：「§」
phrase:zh is|管理员密码为§，请保密
phrase:ja changed|パスワードを§に変更した
phrase:ja quoted|パスワード「§」
phrase:ja server|サーバーのパスワードは§
phrase:ko changed|비밀번호를 §(으)로 바꿨다
phrase:ko server|서버 비밀번호는 §입니다
phrase:tr server|sunucu şifresi: §
phrase:nl server|het wachtwoord van de server is §
phrase:ar server|كلمة مرور الخادم هي §
"""
HARMLESS = """
prose should|the password should be changed every quarter
prose was-changed|the password was changed from the old one to the new one
prose now|the token is now valid for all services
prose change-to|we changed the password to comply with the policy
prose use-as|use email as the password hint and phone as the secret question
prose with|log in with password authentication or token exchange
prose remember|Remember that the password of the shop is stored in the vault
prose heading|## Token¶¶A token is a short-lived credential.
prose heading-2|# Password¶¶See the wiki.
prose question|Q: what is the secret?¶A: patience
prose next-line|Password:¶¶Enter your new password below.
prose pt|mudei a senha para algo mais simples
prose de|Das neue Passwort ist sicher und das alte gesperrt
prose fr|le mot de passe du serveur est expiré
prose zh|数据库密码改成了更安全的方式
prose ja|パスワードを忘れずに変更してください
prose ko|비밀번호를 자주 바꾸는 것이 좋다
prose ru|пароль от сервера — у администратора
config csv|user,password,role¶bob,yes,admin
config table|| name | token | secret |¶|---|---|---|¶| bob | yes | no |
config xml|<password>required</password><token>optional</token>
config plist|<key>PasswordRequired</key>¶<true/>
config block|description: |¶  The password is not stored.¶next: 1
code setter|client.set_token(token); client.set_password(None)
code tuple|("password", "token", "secret", "api_key")
code array|["password", "passwd", "secret", "token", "authorization"]
code enum|PASSWORD = "password"¶TOKEN = "token"¶CLIENT_SECRET = "client_secret"
code fields|fields = {"password": "Password", "api_key": "API key"}
code choices|choices=["password", "token", "oauth2"]
"""


def _value(draw: Draw) -> str:
    return draw.password() if draw.random.random() < 0.5 else draw.of("a", 28)


def _lines(table: str) -> Iterator[tuple[str, str, str]]:
    for line in table.strip().splitlines():
        title, written = line.split("|", 1)
        family, name = title.rsplit(" ", 1)
        yield family, name, written.replace("¶", "\n")


def _written(written: str, label: str, value: str) -> str:
    words = label.replace("_", " ")
    text = written.replace("%", label).replace("#", words).replace("@", label.upper())
    return text.replace("§", value)


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")


# (label, value) to the text and the form that must be gone
CODED: dict[str, Callable[[str, str], tuple[str, str]]] = {
    "base64": lambda k, v: (f"data {(c := _coded(f'{k}: {v}'))} end", c),
    "base64-json": lambda k, v: ((c := _coded(json.dumps({k: v, "user": "bob"}))), c),
    "hex": lambda k, v: ((c := f"{k}={v}".encode().hex()), c),
    "percent": lambda k, v: ("body=" + _quoted(f"{k}={v}&a=1"), _quoted(v)),
    "percent-twice": lambda k, v: ("body=" + _quoted(_quoted(f"{k}={v}")), _quoted(_quoted(v))),
    "form": lambda k, v: (f"grant=x&{k}={_quoted(v)}&scope=a", _quoted(v)),
    "html": lambda k, v: (f"<p>{k}=&quot;{html.escape(v)}&quot;</p>", html.escape(v)),
    "unicode-quotes": lambda k, v: (f"{{\\u0022{k}\\u0022:\\u0022{v}\\u0022}}", v),
    "json-thrice": lambda k, v: (json.dumps(json.dumps(json.dumps({k: v}))), v),
    "zero-width-label": lambda k, v: (f"{k[:3]}\u200b{k[3:]}: {v}", v),
    "zero-width-value": lambda k, v: (f"{k}: {v[:4]}\u200b{v[4:]}", v[4:]),
    "homoglyph-label": lambda k, v: (k.translate(str.maketrans("aceops", "асеорѕ")) + ": " + v, v),
}


def phrase_samples(draw: Draw, rounds: int) -> Iterator[Sample]:
    """``rounds`` labelled secrets in each way of writing."""
    for family, name, written in (*_lines(WRITTEN), *_lines(SPOKEN)):
        for _ in range(rounds):
            label, value = draw.pick(LABELS), _value(draw)
            if name in ("option", "option-quoted"):
                label = label.replace("_", "-")
            text = _written(written, label, value)
            if "</" in written and "CDATA" not in written:
                value = html.escape(value)
                text = _written(written, label, value)
            family = family if ":" in family else f"written:{family}"
            yield Sample(text, (value,), (), "credential", family, name)


def coded_samples(draw: Draw, rounds: int) -> Iterator[Sample]:
    """``rounds`` labelled secrets in each encoding; the coded form must go."""
    for name, code in CODED.items():
        for _ in range(rounds):
            text, form = code(draw.pick(LABELS), _value(draw))
            yield Sample(text, (form,), (), "credential", f"disguise:label-{name}", "labelled")


def harmless_phrases() -> list[tuple[str, str]]:
    """(category, text): harmless texts of the same build."""
    return [(f"{family}:phrase-{name}", text) for family, name, text in _lines(HARMLESS)]
