"""Passwords of words and a number, joined as in names, and names with a number behind the same
labels: only the words tell them apart (redaction.md 4.3, 12).

``§`` is the value, ``¶`` a line break.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from secrets_generator_draw import SYLLABLES, WORDS, Draw, Sample

MORE_WORDS = (
    "river maple otter tiger biscuit anchor bramble cobalt daisy fiddle gravel hazel icicle "
    "jasmine kettle lemon mango nutmeg opal parrot raven spruce tulip umbrella violin willow "
    "zephyr gaivota laranja montanha girassol cereja ventana tortuga naranja papillon citron "
    "montagne schnecke vogel regenbogen kaktus jablonka motyl vlinder fiets portakal kelebek"
).split()


def _word(draw: Draw) -> str:
    if draw.random.random() < 0.25:
        return "".join(draw.pick(SYLLABLES) for _ in range(draw.random.randint(2, 3))) + "na"
    return draw.pick((*WORDS, *MORE_WORDS))


def _number(draw: Draw, low: int, high: int) -> str:
    """Digits that are neither a year nor a known size."""
    while True:
        number = str(draw.random.randint(1, 9)) + draw.of("d", draw.random.randint(low, high) - 1)
        if not 1900 <= int(number) <= 2099:
            return number


CHOSEN: dict[str, Callable[[Draw], str]] = {
    "word-number_word": lambda d: f"{_word(d)}{_number(d, 1, 4)}_{_word(d)}",
    "Word-number_Word": lambda d: f"{_word(d).title()}{_number(d, 1, 3)}_{_word(d).title()}",
    "word_number_word": lambda d: f"{_word(d)}_{_number(d, 1, 3)}_{_word(d)}",
    "word_word_number": lambda d: f"{_word(d)}_{_word(d)}_{_number(d, 1, 3)}",
    "word_word-number": lambda d: f"{_word(d)}_{_word(d)}{_number(d, 1, 4)}",
    "word-number_word_word": lambda d: f"{_word(d)}{_number(d, 1, 3)}_{_word(d)}_{_word(d)}",
    "number_word_word": lambda d: f"{_number(d, 2, 3)}_{_word(d)}_{_word(d)}",
    "word.number.word": lambda d: f"{_word(d)}-{_number(d, 1, 3)}-{_word(d)}",
    "word-number.word": lambda d: f"{_word(d)}{_number(d, 1, 3)}-{_word(d)}",
}
STRONG = {
    "colon": "password: §", "yaml": "db:¶  user: app¶  password: §¶  port: 5432",
    "env": "PORT=80¶DB_PASSWORD=§¶DEBUG=1", "ini": "[db]¶passwd = §¶host = acme.io",
    "json": '{"user": "bob", "password": "§"}', "python": 'password = "§"',
    "xml": "<password>§</password>", "option": "deploy --password § --now",
    "compose": "environment:¶  - POSTGRES_PASSWORD=§", "table": "| password | § |",
    "pair": "- name: DB_PASSWORD¶  value: §", "log": "level=info user=bob password=§ status=200",
    "prose": "The password is § for now.", "stop": "the wifi password is §.",
    "changed": "I changed the password to §", "passphrase": "passphrase: §",
    "netrc": "machine acme.io login bob password §", "comment": "# password: §",
    "pt": "senha: §", "pt-prose": "a senha é §, guarda", "es": "contraseña: §",
    "es-prose": "la contraseña del wifi es §", "fr": "mot de passe : §",
    "de": "Das Passwort lautet §.", "pl": "hasło: §", "ru": "пароль: §", "zh": "密码：§，不要外传",
    "ja": "パスワードは § です", "ko": "비밀번호: §", "tr": "şifre: §", "nl": "wachtwoord = §",
    "ar": "كلمة المرور: §",
}  # fmt: skip
SECOND = {
    "env": "CLIENT_SECRET=§¶PORT=80", "export": 'export API_KEY="§"', "key": "api_key=§",
    "token": "TOKEN=§", "json": '{"client_secret": "§"}', "yaml": "secret: '§'",
}  # fmt: skip

# names with numbers; the parts are what names of things are made of
SERVICES = "billing shop ledger acme redis postgres nginx grafana backup web api auth mail".split()
PARTS = "user name field value input test form step page admin db old new default current".split()
NAMES: dict[str, Callable[[Draw], str]] = {
    "part_number_part": lambda d: f"{d.pick(PARTS)}_{d.of('d', 1)}_{d.pick(PARTS)}",
    "part-number_part": lambda d: f"{d.pick(PARTS)}{d.of('d', 1)}_{d.pick(PARTS)}",
    "label_part_number": lambda d: f"password_{d.pick(PARTS)}_{d.of('d', 1)}",
    "part_label_number": lambda d: f"{d.pick(PARTS)}_password_{d.of('d', 1)}",
    "part_label-number": lambda d: f"{d.pick(PARTS)}_password{d.of('d', 1)}",
    "my_label_version": lambda d: f"my_{d.pick(('secret', 'password'))}_v{d.of('d', 1)}",
    "service_label_version": lambda d: f"{d.pick(SERVICES)}_db_password_v{d.of('d', 1)}",
    "type": lambda d: d.pick(("uint8_t", "int32_t", "char16_t", "utf8_string", "base64_str")),
    "scheme": lambda d: d.pick(
        ("pbkdf2_sha256", "scram-sha-256", "bcrypt_sha256", "sha512_crypt", "argon2id_v19")
    ),
    "variable": lambda d: f"{d.pick(SERVICES)}_PASSWORD_{d.of('d', 1)}".upper(),
    "placeholder": lambda d: f"your_{d.pick(('password', 'secret', 'token'))}_{d.of('d', 1)}",
    "placeholder-2": lambda d: f"<{d.pick(PARTS)}_{d.of('d', 2)}>",
}
RESOURCES: dict[str, Callable[[Draw], str]] = {
    "service.secret.version": lambda d: f"{d.pick(SERVICES)}-secret-v{d.of('d', 1)}",
    "service.tls.year": lambda d: f"{d.pick(SERVICES)}-tls-202{d.of('d', 1)}",
    "service.credentials.number": lambda d: f"{d.pick(SERVICES)}-credentials-{d.of('d', 1)}",
    "service.db.credentials.number": lambda d: f"{d.pick(SERVICES)}-db-creds-{d.of('d', 2)}",
    "service.kind.key": lambda d: f"{d.pick(SERVICES)}-{d.pick(('s3', 'oauth2', 'k8s'))}-key",
}
NAMED_BY = ("password: §", "passwd = §", "db_password: §¶port: 80", "pwd = §", "senha: §",
            "пароль: §", "contraseña: §", "secret: §", "token = §", "wachtwoord: §")  # fmt: skip
NAMED_RESOURCE = (
    "secret: §", "secretName: §", "      - secret:¶          secretName: §", "existingSecret: §",
    "secretKeyRef:¶  name: §¶  key: password", "imagePullSecrets:¶  - name: §", "secrets:¶  - §",
    "kubectl get secret §", "kubectl delete secret § -n shop", "secret_name = §", "secretRef: §",
    "--from=secret/§",
)  # fmt: skip


def chosen_samples(draw: Draw, rounds: int) -> Iterator[Sample]:
    """``rounds`` passwords of each build in each surroundings."""
    for kind, value in CHOSEN.items():
        for group, places in (("password", STRONG), ("secret", SECOND)):
            for name, place in places.items():
                if group == "secret" and "." in kind and name in ("json", "yaml"):
                    continue  # resources are named so
                for _ in range(rounds):
                    secret = value(draw)
                    text = place.replace("¶", "\n").replace("§", secret)
                    yield Sample(
                        text, (secret,), (), "credential", f"chosen:{group}", f"{kind}/{name}"
                    )


def harmless_names(draw: Draw, rounds: int) -> Iterator[tuple[str, str]]:
    """(category, text): names of things, with a number, behind labels of secrets."""
    for group, names, places in (
        ("name", NAMES, NAMED_BY), ("resource", RESOURCES, NAMED_RESOURCE),
    ):  # fmt: skip
        for kind, name in names.items():
            for place in places:
                for _ in range(max(1, rounds // 2)):
                    text = place.replace("¶", "\n").replace("§", name(draw))
                    yield f"config:{group}-{kind}", text
