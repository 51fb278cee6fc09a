"""Secrets behind labels of fourteen languages (redaction.md 4.3, 15.1)."""

from __future__ import annotations

from collections.abc import Callable

from secrets_generator_draw import Draw, Shape, Value

# language: (label, the sentence's way of saying it), several a language
LABELS: dict[str, tuple[str, ...]] = {
    "en": ("password", "passphrase", "access key", "API key", "client secret", "secret", "pwd"),
    "pt": ("senha", "palavra-passe", "chave de acesso", "chave secreta", "chave da API"),
    "es": ("contraseña", "clave de acceso", "clave secreta", "clave de API"),
    "fr": ("mot de passe", "clé secrète", "clé d'API", "jeton d'accès"),
    "de": ("Passwort", "Kennwort", "Zugriffstoken", "geheimer Schlüssel", "API-Schlüssel"),
    "pl": ("hasło", "klucz API", "tajny klucz", "token dostępu"),
    "ru": ("пароль", "секретный ключ", "токен доступа", "ключ API"),
    "zh": ("密码", "密钥", "口令", "访问令牌", "密碼", "API密钥"),
    "ja": ("パスワード", "秘密鍵", "アクセストークン", "APIキー", "暗証番号"),
    "ko": ("비밀번호", "암호", "비밀 키", "API 키", "액세스 토큰"),
    "tr": ("şifre", "parola", "gizli anahtar", "API anahtarı"),
    "nl": ("wachtwoord", "geheime sleutel", "API-sleutel", "toegangstoken"),
    "ar": ("كلمة المرور", "كلمة السر", "المفتاح السري", "رمز الوصول"),
    "it": ("parola d'ordine", "chiave segreta"),
}
SENTENCES: dict[str, tuple[str, ...]] = {
    "en": ("The {} is {}.", "my {} = {}", "{}: {}", "new {} ({}) works"),
    "pt": ("A {} é {}.", "{}: {}", "a nova {} é {}, guarda bem", "{} = {}"),
    "es": ("La {} es {}.", "{}: {}", "mi {} es {} desde ayer", "{} = {}"),
    "fr": ("Le {} est {}.", "{} : {}", "mon {} est « {} »", "{} = {}"),
    "de": ("Das {} lautet {}.", "{}: {}", "mein {} ist {} seit gestern", "{} = {}"),
    "pl": ("{} to {}.", "{}: {}", "moje {} to {}", "{} = {}"),
    "ru": ("{}: {}", "мой {} {}", "{} — {}", "{} = {}"),
    "zh": ("{}：{}", "{}是{}，不要外传", "我的{}为 {}", "{}:{}"),
    "ja": ("{}は{}です", "{}：{}", "{}: {}", "{} = {}"),
    "ko": ("{}: {}", "{}는 {} 입니다", "{}은 {}", "{} = {}"),
    "tr": ("{}: {}", "{} = {}", "yeni {} {} oldu", "{}m: {}"),
    "nl": ("Het {} is {}.", "{}: {}", "mijn {} is {} sinds gisteren", "{} = {}"),
    "ar": ("{}: {}", "{} هي {}", "{} = {}", "{}：{}"),
    "it": ("La {} è {}.", "{}: {}", "{} = {}", "{}: '{}'"),
}


def _drawer(language: str, sentence: str) -> Callable[[Draw], Value]:
    def draw(source: Draw) -> Value:
        label, secret = source.pick(LABELS[language]), source.password()
        return Value(sentence.format(label, secret), (secret,), (label,))

    return draw


def language_shapes() -> list[Shape]:
    """One shape a language and sentence; Italian is beyond the contract's list."""
    return [
        Shape(f"language:{language}", f"{language}-{number}", _drawer(language, sentence))
        for language, sentences in SENTENCES.items()
        for number, sentence in enumerate(sentences)
    ]
