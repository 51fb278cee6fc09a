"""Ways to hand over a secret that no label announces, and what looks like them.

Contract: redaction.md 4.3, 13.6, 15.3.
"""

from __future__ import annotations

import random

import pytest

from memory_manager.security.redact import sanitize_row, sanitize_server_write

_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
CARRIERS = (
    "zip -P {} backup.zip notes",
    "7z x backup.7z -p{}",
    "openssl enc -aes-256-cbc -k {} -in notes",
    "smbclient //files/share -U bob%{}",
    "http -a bob:{} GET https://api.example.org",
    "kubectl create secret generic app --from-literal=DSN={}",
    "aws ssm put-parameter --name /app/db --type SecureString --value {}",
    "aws secretsmanager put-secret-value --secret-id app --secret-string {}",
    "net user bob {} /add",
    r"net use Z: \\files\share /user:bob {}",
    r"net use Z: \\files\share {} /user:bob",
    "WIFI:S:our office;T:WPA;P:{};;",
    "rabbitmqctl change_password bob {}",
    "cargo login {}",
    "poetry config pypi-token.internal {}",
    "snmp-server community {} RO",
    "xfreerdp /u:bob /p:{} /v:host",
    "$p = ConvertTo-SecureString '{}' -AsPlainText -Force",
    "requests.get(url, auth=('bob', '{}'))",
    "requests.get(url, auth=HTTPBasicAuth('bob', '{}'))",
    "SET PASSWORD FOR 'bob'@'%' = PASSWORD('{}');",
    "INSERT INTO users (name, password, age) VALUES ('bob', '{}', 3);",
    "echo {} | docker login -u bob --password-stdin",
    "echo '{}' | wrangler secret put MAILER",
    "echo 'bob:{}' | chpasswd",
    "log in as admin with {}",
    "creds: admin / {}",
    "credentials for staging are bob:{}",
    "unlock code: {}",
    "printf '{}' | docker secret create db_pw -",
    "curl -b 'sid={}' https://example.org",
    "lftp -u bob,{} sftp://files",
    "cqlsh -u bob -p {} db",
    "sudo -S <<< '{}' apt update",
    "bob:{}@tcp(db:3306)/app",
    "smtp.login('bob', '{}')",
    "the admin pw changed to {} yesterday",
    "o código de acesso é {}",
    "adgangskoden er {}",
    'network={{\n ssid="home"\n psk="{}"\n}}',
    "define('AUTH_KEY',         '{}');",
)
HARMLESS = (
    "zip -r backup.zip notes -P",
    "7z x backup.7z -pdf",
    "http -a bob GET https://api.example.org",
    "kubectl create configmap app --from-literal=MODE=production",
    "kubectl create secret generic app --from-literal=DSN=$DSN",
    "aws ssm put-parameter --name /app/mode --type String --value production-eu-1",
    "net user bob /delete",
    r"net use Z: \\files\share /user:bob /persistent:yes",
    "the application password that were used from here has 2 readers",
    "TOTP key rotation, TOTP seed below",
    "password: field_2, then password: user_12",
    "rabbitmqctl add_user bob $PASSWORD_OF_BOB",
    "cargo login --registry internal",
    "$p = ConvertTo-SecureString $env:DEPLOY_SECRET -AsPlainText -Force",
    "requests.get(url, auth=(user, password))",
    "INSERT INTO users (name, password) VALUES (?, ?);",
    "INSERT INTO users (name, password) VALUES (:name, :password);",
    "echo $TOKEN | docker login -u bob --password-stdin",
    "log in as admin with two factors enabled",
    "credentials are stored in the vault: see docs/setup",
    "printf 'done' | docker secret ls",
    "curl -b cookies.txt https://example.org",
    "smtp.login(user, password)",
    "the app password is shown only once here",
    "creds: ask Maria / Jonas before noon",
    "MY_APP_PASSPHRASE=encrypted",
    "unlock code: see the envelope in the drawer",
    "commit = api.commits(model, token=token)[0].commit_id",
    'def parse(self, token):\n    """validate policy token"""\n    return token',
    "this form is not usable to pass to `suffix=` here",
    "Pass `dtype=torch.float32` to avoid it.",
    '<assemblyIdentity publicKeyToken="1fc8b3b9a1e18e3b"/>',
)


def _value(seed: str) -> str:
    draw = random.Random(seed)
    return "".join(draw.choice(_LETTERS + "23456789") for _ in range(14)) + "7x"


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_value_handed_over_without_a_label_goes(carrier: str) -> None:
    for round_number in range(4):
        value = _value(f"{carrier}{round_number}")
        text = carrier.format(value)
        cleaned = sanitize_server_write(text)
        assert value[3:9] not in cleaned.text
        before = carrier.partition("{}")[0].replace("{{", "{")
        assert cleaned.text.startswith(before)
        assert not sanitize_server_write(cleaned.text).applied


@pytest.mark.parametrize("text", HARMLESS)
def test_what_looks_alike_stays(text: str) -> None:
    assert sanitize_server_write(text).text is text


def test_new_forms_of_vendor_tokens_go_whole() -> None:
    draw = random.Random("forms")
    body = "".join(draw.choice(_LETTERS + "0123456789") for _ in range(36))
    for token in (
        "ghs" + "_123456_" + body,
        "AVNS" + "_" + body[:19],
        "api" + "_live." + body[:11] + "." + body[:32],
        "acme" + "_blob_rw_" + body[:16] + "_" + body[:30],
    ):
        cleaned = sanitize_server_write(f"now {token} works").text
        assert cleaned.startswith("now [REDACTED:"), token
        assert body[4:12] not in cleaned
        assert body[-6:] not in cleaned


def test_a_name_and_a_number_with_a_slash_between_are_no_path() -> None:
    number = str(random.Random("slash").randrange(1_000_000, 9_999_999))
    cleaned = sanitize_row({"metadata": {"credentials": {"first": {"of": f"Juniper/{number}"}}}})
    assert number not in str(cleaned.row)
