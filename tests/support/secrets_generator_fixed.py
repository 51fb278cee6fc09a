"""Harmless texts without random parts: placeholders, marks, references, code, prose, contact data.

A line each, ``group category|text``; ``¶`` is a line break, ``~`` nothing (it splits a prefix).
"""

FIXED = """
placeholder changeme|password: changeme
placeholder changeme-2|DB_PASSWORD=changeme¶API_KEY=change-me
placeholder your|API_KEY=YOUR_API_KEY_HERE
placeholder your-2|api_key: "your-api-key-here"
placeholder your-3|OPENAI_API_KEY=your_openai_api_key
placeholder angle|token = <your-token>
placeholder angle-2|password: <your-secret-password>
placeholder angle-3|curl -H "Authorization: Bearer <token>" https://acme.io
placeholder x|TOKEN=xxxxxxxxxxxxxxxxxxxxxxxx
placeholder x-2|GITHUB_TOKEN=gh~p_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
placeholder x-3|AWS_SECRET_ACCESS_KEY=XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX
placeholder x-4|SLACK=xox~b-xxxxxxxxxxxx-xxxxxxxxxxxx-xxxxxxxxxxxxxxxxxxxxxxxx
placeholder stars|password: ********
placeholder stars-2|"secret": "***"
placeholder dots|keys look like gh~p_... or sk~-ant-...
placeholder dots-2|api_key=sk~-... in your .env
placeholder todo|secret: TODO
placeholder replace|client_secret: REPLACE_ME
placeholder example|password = "example"
placeholder null|"password": null, "token": None, secret: ~, api_key: nil
placeholder empty|password="" token='' API_KEY=
placeholder bool|use_token: true, password_required: false, secret=undefined
placeholder aws|AKIA~IOSFODNN7EXAMPLE
placeholder aws-pair|aws_access_key_id = AKIA~IOSFODNN7EXAMPLE¶aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY~EXAMPLEKEY
placeholder curly|https://user:{password}@host/db
placeholder percent|postgres://%s:%s@%s/%s
placeholder bracket|password=[your password]
placeholder insert|token: <INSERT TOKEN HERE>
mark own|token=[REDACTED:labelled-secret]
mark own-2|postgres://app:[REDACTED]@db.internal:5432/main
mark own-3|Authorization: Bearer [REDACTED:labelled-secret], see [REDACTED:jwt]
mark own-4|[REDACTED:private-key]¶password: [REDACTED:labelled-secret]
mark stars|password: ***REDACTED***
mark angle|secret: <redacted>
mark xmemo|token=[REDACTED_SECRET] api_key=[REDACTED_API_KEY] [REDACTED_JWT]
mark xmemo-2|[REDACTED_BEARER_TOKEN] [REDACTED_AWS_ACCESS_KEY_ID] [REDACTED_GOOGLE_API_KEY]
mark word|api_key=REDACTED
reference shell|PASSWORD=${DB_PASSWORD}¶TOKEN=$API_TOKEN
reference shell-default|export API_KEY="${API_KEY:-}"
reference windows|set TOKEN=%API_TOKEN%
reference jinja|token: {{ vault.api_token }}
reference jinja-2|password: "{{ lookup('env', 'DB_PASSWORD') }}"
reference command|PASSWORD="$(pass show db/prod)"
reference command-2|TOKEN=`cat /run/secrets/token`
reference yaml-tag|password: !vault secret/data/db
reference cloudformation|Password: !Sub '{{resolve:secretsmanager:MyDb:SecretString:password}}'
reference op|token: op://Private/GitHub/token
reference keyvault|@Microsoft.KeyVault(SecretUri=https://kv.vault.azure.net/secrets/db/)
reference python|api_key = os.environ["API_KEY"]
reference python-2|password=os.getenv("DB_PASSWORD", "")
reference node|const token = process.env.GITHUB_TOKEN;
reference terraform|password = var.db_password
reference terraform-2|token = data.vault_generic_secret.gh.data["token"]
reference actions|token: ${{ secrets.GITHUB_TOKEN }}
reference rust|let token = env::var("API_TOKEN")?;
reference go|token := os.Getenv("API_TOKEN")
reference helm|password: {{ .Values.db.password | quote }}
code type|password: string; token?: string | null;
code type-2|def login(username: str, password: str, token: str | None = None) -> bool:
code type-3|private final String apiKey;
code type-4|secret_key: Optional[SecretStr] = Field(default=None)
code call|token = generate_token(user_id, ttl=3600)
code call-2|const apiKey = await getApiKey(user.id);
code call-3|password = getpass.getpass("Password: ")
code attribute|self.password = password¶self.token = token
code attribute-2|headers["Authorization"] = "Bearer " + token
code attribute-3|headers = {"Authorization": f"Bearer {token}"}
code template|`Authorization: Bearer ${accessToken}`
code compare|if (password !== confirmPassword) throw new Error("password mismatch")
code generic|Map<String, SecretKey> keys = new HashMap<String, SecretKey>();
code sql|SELECT id, password_hash FROM users WHERE token = $1 AND secret_id IS NOT NULL
code sql-2|ALTER TABLE users ADD COLUMN password varchar(255) NOT NULL
code regex|token\\s*[:=]\\s*["']?([A-Za-z0-9_-]{20,})["']?
code regex-2|re.compile(r"gh[pousr]_[A-Za-z0-9]{36}")
code css|.password-input, #token-field { color: #ff0000 }
code html|<input type="password" name="password" id="login-password" autocomplete="current-password">
code html-2|<label for="api-key">API key</label>
code camel|getAccessTokenFromRefreshToken secretKeyRef passwordEncoderFactory
code camel-2|token = useAccessTokenSilentlyOrRedirect
code class|org.springframework.security.crypto.password.DelegatingPasswordEncoder
code import|from django.contrib.auth.tokens import PasswordResetTokenGenerator
code constant|TOKEN_EXPIRY_SECONDS = 3600¶PASSWORD_MIN_LENGTH = 12
code enum|TokenType.ACCESS_TOKEN, GrantType.CLIENT_CREDENTIALS
code assert|assert response.json()["token_type"] == "bearer"
code lambda|key=lambda item: item.priority
code sort|sorted(rows, key=operator.itemgetter("created_at"))
code dict|{"token": token, "secret": secret, "password": password}
code slice|token = header[len("Bearer "):]
code ts|const [password, setPassword] = useState("")
code graphql|mutation { login(email: $email, password: $password) { token } }
code proto|string access_token = 1; string refresh_token = 2;
code flag|parser.add_argument("--token", help="the API token", required=True)
code usage|usage: tool [--token TOKEN] [--password PASSWORD] FILE
code usage-2|tool login --password-stdin < password.txt
code choice|password = password1 if password1 == password2 else None
code choice-2|token = tokens[0] if len(tokens) == 1 else token_v2
code path-of-types|let secret: SecretString = SecretString::new(env_v2);
code renamed|from a.ed448 import Ed448PrivateKey as Ed448PrivateKey, X25519PublicKey
code default|def recover(self, startToken:Token=None, offendingToken:Token=None):
code literal-end|left.assign(**{key_token: 0}).merge(right)
address gist|gist://username:token@id/file or gist://id/file
code passes|PASS: widget_resize12_layout (0.3 s)¶PASS: parser_unicode_42¶opt pass: licm_hoist_2
code passed-of|pass: 12_of_14_tests, shards pass: 3-of-4-done
config region|secret: payments-eu-west-1
config dated|secret: tls_cert_2025_q1
code netrc|u'machine {hostname} login token password {auth_token}'
code doc|:param password: the user's password, at least 12 characters
config label|token_url: https://auth.acme.io/oauth/token
config label-2|token_type: bearer, auth_method: password, author: JaneDoe1984
config label-3|secret_name: db-credentials-prod, secret_id: sec-2024-11
config label-4|secretKeyRef:¶  name: db-credentials¶  key: password
config label-5|passwordPolicy: strong-8-plus, password_field: user_pwd_2
config label-6|primary_key: user_id2, sort_key: created_at_2024, cache_key: v2:home
config label-7|vaultKey: 'inf-prod-db-id'
config label-8|secretKey: "OAUTH2_PROXY_CLIENT_ID"
config label-9|tokenizer: cl100k_base, token_budget: 4000
config label-10|existingSecret: postgres-credentials
config label-11|imagePullSecrets:¶  - name: registry-credentials
config label-12|key_name: deploy-2024-key, keyspace: shop_v2
config label-13|passthrough: proxy2-enabled, passed: 120, passing: all-9
config filtered|jwt.secret=@vault.jwt_v2@
config anchor|password: &pw_ref_1 !env DB_PASSWORD¶backup_password: *pw_ref_1
config gradle|org.slf4j:slf4j-api:2.0.6=compileClasspath,runtimeClasspath
config cron|*/5 2 * * 1-5 /usr/local/bin/rotate-token --quiet
config i18n|"password": "Enter your password", "token": "Your token has expired"
config i18n-2|"password.label": "Passwort eingeben", "token.help": "Das Token finden Sie im Profil"
config i18n-3|password: 비밀번호를 입력하세요
config permission|permissions:¶  id-token: write¶  contents: read
config ssh|PasswordAuthentication no¶PubkeyAuthentication yes¶IdentityFile ~/.ssh/id_ed25519
config pool|token_pool_size = 20, key_rotation_days = 90
config basic|Basic authentication and Bearer tokens are supported
prose en|Your password must be 12 characters or longer and contain a symbol.
prose en-2|The token is required and the secret is optional.
prose en-3|I forgot my password again, please reset the password for bob.
prose en-4|The API key is stored in the vault; the secret is rotated monthly.
prose en-5|Tokens start with gh~p_ and have 40 characters.
prose en-6|The password was changed yesterday by the administrator.
prose en-7|Error: invalid password for user bob, token expired at noon
prose en-8|A private key file starts with -----BEGIN PRIVATE ~KEY----- and ends with a footer.
prose en-9|Passwords: never reuse them. Token: a piece of text. Secret: something nobody knows.
prose en-10|the secret is out: Kubernetes simplifies deployments
prose en-11|Recovery codes are printed once; keep your backup codes in a safe place.
prose en-12|My password manager is excellent and the key is turning in the lock.
prose pt|Esqueceu a senha? Clique aqui para redefinir a senha do utilizador.
prose pt-2|A palavra-passe é obrigatória e a chave é opcional.
prose pt-3|A senha deve ter pelo menos doze caracteres.
prose es|La contraseña es obligatoria y debe tener ocho caracteres.
prose es-2|¿Olvidó su contraseña? La clave es la paciencia.
prose fr|Le mot de passe est obligatoire. La clé est sous le paillasson.
prose fr-2|Votre mot de passe doit contenir au moins huit caractères.
prose de|Das Passwort ist erforderlich. Der Schlüssel liegt unter der Matte.
prose de-2|Das Kennwort muss mindestens zwölf Zeichen lang sein.
prose pl|Hasło jest wymagane i musi mieć osiem znaków.
prose ru|Пароль обязателен и должен содержать восемь символов.
prose ru-2|Забыли пароль? Ключ к успеху — терпение.
prose zh|忘记密码？请点击这里重置密码。密码长度至少八位。
prose zh-2|密钥是必需的，口令不能为空。
prose ja|パスワードは必須です。八文字以上で入力してください。
prose ja-2|パスワードを忘れた場合はこちら
prose ko|비밀번호는 필수입니다. 여덟 자 이상 입력하세요.
prose tr|Şifre zorunludur ve en az sekiz karakter olmalıdır.
prose nl|Het wachtwoord is verplicht en moet acht tekens bevatten.
prose ar|كلمة المرور مطلوبة ويجب أن تتكون من ثمانية أحرف
prose words|internationalizationandlocalization antidisestablishmentarianism
prose asia|the ASIAANDPACIFICREGION office and AKIAFOREVERANDALWAYS band
prose bip39|the able about above absent absorb abstract absurd abuse access accident
prose bip39-2|abandon ability able about above absent absorb abstract absurd abuse access zoo
address git|git clone git@github.com:acme/shop.git
address npm|npm i @acme/button@1.2.3 left-pad@1.3.0 @types/node@20
address port|http://localhost:3000/@vite/client
address search|https://www.google.com/search?q=reset+password+token&hl=en
address docs|https://docs.github.com/en/authentication/keeping-your-account-and-data-secure
address mailto|mailto:bob@acme.io?subject=token
address path|/v1/users/me/tokens/current
address userinfo|ssh://git@acme.io:22/shop.git and https://bob@acme.io/x
address image|registry.acme.io:5000/team/app:1.2.3@latest
address date|2025-01-02T03:04:05Z, 02/01/2025, 14:30, Mon Jan 5 10:00:00 2026 +0000
address version|v1.2.3-rc.4+build.567, 2024.11.1, 10.0.22631.4317
address page|https://acme.io/list?page=2&sort=created_at&key=name
address scp|scp build/app.tar.gz deploy@10.0.0.5:/srv/app/
contact mail|Write to maria.lopez@acme.io or bob@acme.io
contact phone|Call +351 912 345 678 or (020) 7946 0958
contact address|Rua Augusta 12, 1100-053 Lisboa
contact handle|telegram: @maria_lo, discord: bob#1234
contact card|pay with 4111 1111 1111 1111 and IBAN PT50 0002 0123 1234 5678 9015 4
"""  # noqa: E501
