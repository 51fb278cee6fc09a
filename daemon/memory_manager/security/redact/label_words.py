"""Word lists of the label reader: what people call a secret, in several languages. Data only.

Contract: redaction.md 4.3.
"""

from __future__ import annotations

from typing import Final

PASSWORD_WORDS: Final = frozenset(
    "pw password passwd passwort passphrase passcode passwrd passw pass pwd psw pswd paswd passkey "
    "passwords sshpass psk storepass keypass pgpassword pgpass requirepass masterauth userpass "
    "dbpass rootpass kennwort "
    "parole "
    "senha senhas contrasena contraseña contrasenya clave mdp motdepasse haslo hasło "
    "wachtwoord parola parolam parolası sifre sifrem şifre şifrem şifresi jelszo "
    "lozinka heslo salasana losenord lösenord adgangskode "
    "passord adgangskoden passordet lösenordet lozinka jelszava κωδικός κωδικος "
    "sandi пароль пароля паролем".split()
)
SECRET_WORDS: Final = frozenset(
    "secret secrets token apikey apitoken authtoken accesstoken refreshtoken accesskey secretkey "
    "clientsecret privatekey authkey apisecret appsecret appkey credential credentials creds "
    "bearer jwt "
    "sharedkey masterkey encryptionkey signingkey bottoken sessiontoken idtoken passtoken "
    "xoxb webhooksecret hmac secretaccesskey accountkey sharedaccesskey storagekey "
    "segredo secreto ficha jeton geheimnis zugangstoken tajne sekret sleutel anahtar "
    "токен секрет ключ".split()
)
KEY_WORDS: Final = frozenset("key keys chave clé cle llave schlüssel schluessel klucz".split())
KEY_QUALIFIERS: Final = frozenset(
    "api access secret private client auth encryption encrypt signing sign master account shared "
    "subscription "
    "license licence service app application consumer storage admin root deploy deployment server "
    "hmac "
    "jwt aes rsa ssh gpg pgp webhook integration ingest write session cookie django flask rails "
    "wallet deployer preshared psk decryption vault seal unseal bot developer dev prod production "
    "live customer user merchant de".split()
)
WEAK_WORDS: Final = frozenset(
    "auth authorization authentication cookie sig signature pin otp totp "
    "authcode csrf xsrf nonce salt seed dsn login connection connectionstring conn".split()
)
BLOCKING_QUALIFIERS: Final = frozenset(
    "primary foreign sort cache public pub idempotency partition row range hash hot short shortcut "
    "object s3 "
    "translation i18n react map dict sorting group unique natural candidate surrogate composite "
    "index "
    "next page pagination continuation cursor sync csrfparam publishable publickey semantic dedupe "
    "design syntax lexer css color colour theme arrow foreignkey ssm kms json config registry hkey "
    "registrykey file lookup query field sitekey routing route message record binding".split()
)
"""In front of the word: ``cache_key``, ``next_token``, ``publishable_key``."""

BLOCKING_SUFFIXES: Final = frozenset(
    "url uri endpoint href type types count counts counter budget limit limits limiter max min "
    "usage "
    "name names ref refs reference id ids hash hashed hashes digest policy policies field fields "
    "hint "
    "hints method methods mode provider providers length len size bytes chars expiry expires "
    "expired "
    "expiration expire ttl lifetime age path paths file files filename dir directory label labels "
    "placeholder regex pattern prefix suffix format enabled disabled required optional version "
    "algorithm alg strength validator validation form reset error errors message title description "
    "column index manager service store storage class factory handler helper util utils client "
    "rotation rotated created updated at date time timestamp issued issuer audience scope scopes "
    "status "
    "state valid invalid missing present verify verified verification check checksum checked "
    "fingerprint thumbprint kind rule rules list map table schema model input output button "
    "header headers param params parameter attribute property env var variable arn alias resource "
    "location region kms manager operator engine backend source dialog screen page view prompt "
    "generator generate rounds cost iterations attempts retries ring chain board stroke down up "
    "press word words "
    "frame code codes event binding bindings map equals contains changed change confirmation "
    "estimate tokens per total used left remaining window cap quota price".split()
)
"""After the word: ``token_type``, ``password_hash``, ``secret_name``."""

BLOCKING_ANYWHERE: Final = frozenset(
    "sha sha1 sha256 sha512 md5 hash hashed digest commit fingerprint thumbprint trace traceparent "
    "traceid etag checksum "
    "integrity tokenizer tokenization tokenizations keyboard keyword keymap keystroke hotkey "
    "monkey turkey author authors "
    "authority passthrough passed passing passes passenger bypass compass tokenize tokenized "
    "encoder decoder vocab bpe embedding foreign primary".split()
)

PASSWORD_PHRASES: Final = (
    "mot de passe",
    "palavra-passe",
    "palavra passe",
    "parola d'ordine",
    "密码",
    "密碼",
    "口令",
    "パスワード",
    "비밀번호",
    "암호",
    "пароль",
    "hasło",
    "contraseña",
    "şifre",
    "كلمة المرور",
    "كلمة السر",
    "كلمة مرور",
    "كلمة سر",
    "الرقم السري",
    "סיסמה",
    "รหัสผ่าน",
    "mật khẩu",
    "kata sandi",
    "暗証番号",
    "通行密码",
    "登录密码",
    "パスフレーズ",
    "パスコード",
    "패스워드",
    "비번",
    "passord",
    "lösenord",
    "jelszó",
    "šifra",
    "κωδικός",
    "पासवर्ड",
    "mot-de-passe",
    "код доступа",
    "parolă",
    "zaporka",
)
SECRET_PHRASES: Final = (
    "密钥",
    "密鑰",
    "秘钥",
    "令牌",
    "凭证",
    "秘密鍵",
    "トークン",
    "シークレット",
    "apiキー",
    "アクセスキー",
    "토큰",
    "시크릿",
    "비밀키",
    "api 키",
    "токен",
    "секрет",
    "секретный ключ",
    "ключ api",
    "api ключ",
    "رمز",
    "مفتاح",
    "unlock code",
    "access code",
    "código de acesso",
    "codigo de acesso",
    "código de acceso",
    "codigo de acceso",
    "code d'accès",
    "codice di accesso",
    "zugangscode",
    "zugriffscode",
    "код доступа",
    "chave de api",
    "chave da api",
    "clave de api",
    "clave secreta",
    "clé api",
    "clé secrète",
    "clé d'api",
    "api-schlüssel",
    "geheimer schlüssel",
    "klucz api",
    "api anahtarı",
    "gizli anahtar",
    "api-sleutel",
    "geheime sleutel",
    "toegangssleutel",
    "toegangstoken",
    "tajny klucz",
    "klucz tajny",
    "klucz prywatny",
    "klucz dostępu",
    "token dostępu",
    "chave de acesso",
    "chave secreta",
    "chave privada",
    "clave de acceso",
    "clave privada",
    "llave secreta",
    "clave api",
    "clé d'accès",
    "clé privée",
    "clef secrète",
    "clef api",
    "jeton d'accès",
    "zugriffstoken",
    "zugriffsschlüssel",
    "zugangsschlüssel",
    "geheimschlüssel",
    "privater schlüssel",
    "токен доступа",
    "ключ доступа",
    "закрытый ключ",
    "приватный ключ",
    "访问密钥",
    "訪問令牌",
    "私钥",
    "私鑰",
    "金鑰",
    "アクセストークン",
    "apiトークン",
    "秘密キー",
    "비밀 키",
    "액세스 키",
    "개인 키",
    "개인키",
    "인증 키",
    "erişim anahtarı",
    "erişim belirteci",
    "özel anahtar",
    "المفتاح السري",
    "رمز الوصول",
    "مفتاح api",
    "chiave segreta",
    "chiave api",
    "chiave privata",
    "chiave di accesso",
    "hemlig nyckel",
    "api-nyckel",
    "hemmelig nøgle",
    "api-nøgle",
    "titkos kulcs",
    "tajný klíč",
    "api klíč",
    "секретний ключ",
    "ключ доступу",
    "khóa bí mật",
    "khoá api",
    "kunci rahasia",
    "kunci api",
    "गुप्त कुंजी",
)

STEMS: Final = (
    "passw",
    "passphrase",
    "passcode",
    "passkey",
    "motdepasse",
    "pwd",
    "secret",
    "token",
    "key",
    "auth",
    "credential",
    "creds",
    "bearer",
    "cookie",
    "kennwort",
    "senha",
    "contrase",
    "clave",
    "chave",
    "haslo",
    "wachtwoord",
    "parol",
    "sifre",
    "segredo",
    "jeton",
    "geheimnis",
    "sekret",
    "sleutel",
    "anahtar",
    "schlüssel",
    "schluessel",
    "klucz",
    "heslo",
    "jelszo",
    "lozinka",
    "salasana",
    "losenord",
    "lösenord",
    "passord",
    "adgangskode",
)
"""Lower-case literals that start the reading of a label; with the next ones every word above
contains one of them."""
WHOLE_STEMS: Final = frozenset(
    "pass pw psw pswd psk mdp pat jwt sshpass storepass keypass pgpass requirepass userpass dbpass "
    "rootpass".split()
)
"""The same for literals that are a whole word of a label, or stand inside other words by chance."""

VENDOR_WORDS: Final = frozenset(
    "abstractapi abuseipdb accuweather adafruit adobe adyen agora ahrefs aikido airbrake airtable "
    "aiven alchemy algolia alibaba aliyun alpaca amplitude anthropic anypoint apify apimetrics "
    "apiflash apilayer apollo appcues appfollow appoptics appsflyer artifactory asana assemblyai "
    "atera atlassian auth0 autodesk avalara aviationstack axiom azure backblaze bandwidth "
    "bannerbear baremetrics beamer besttime binance bitbucket bitfinex bitly bitmex bitrise "
    "bittrex blazemeter blocknative blynk bombbomb borgbase brandfetch braintree braze brevo "
    "browserstack bscscan buddy bugherd bugsnag buildkite bunnycdn buttercms bybit calendarific "
    "calendly campayn cannyio capsulecrm cartesia censys cerebras chargebee chartmogul checkly "
    "checkout circleci clarifai clearbit clickhouse clickup clockify clockwork cloudant "
    "cloudconvert cloudflare cloudinary cloudmersive cloudsight cloudsmith codacy codecov "
    "codeclimate cohere coinapi coinbase coinlayer coinmarketcap commercetools composio "
    "confluent contentful contentstack convertkit copper couchbase coveralls crowdin "
    "cryptocompare currencylayer databricks datadog datagov datarobot deepai deepgram deepl "
    "deepseek detectify dialpad digitalocean discord disqus docusign doppler dotmailer dronahq "
    "droneci dropbox dynatrace easypost edamam elastic elasticsearch elevenlabs enigma etherscan "
    "etsy everhour exoscale facebook falai fastly fastspring figma filestack finicity finnhub "
    "firebase firecrawl fixer fleetbase flickr flightapi formbucket foursquare freshbooks "
    "freshdesk freshservice front fullcontact fullstory gemini geocode geocodify getresponse "
    "giphy gocardless goodday gorgias grafana graphcms greptile groq gumroad gyazo happyscribe "
    "harvest hellosign helpscout heroku hetzner honeycomb hootsuite hotjar hubspot "
    "huggingface humanloop hunter hypertrack ibmcloud imagekit influx influxdb infobip infomaniak "
    "infracost infura instantly intercom interzoid invoiceocean ipapi ipdata ipgeolocation "
    "ipinfo ipstack iterable jumpcloud kagi kickbox klaviyo kraken kucoin lark launchdarkly "
    "leaseweb lemlist lemonsqueezy lexigram linear linkedin linode liveagent livekit "
    "lob locationiq "
    "loggly logzio lokalise looker mailboxlayer mailchimp mailerlite mailersend mailgun mailjet "
    "mailmodo mailtrap mandrill mapbox mapquest marketstack mattermost meilisearch meraki "
    "messagebird microsoft midtrans miro mistral mixpanel mollie monday moonshot moosend moralis "
    "mux nasdaq neon netlify newrelic newsapi ngrok nimble noticeable notion novita numverify "
    "nutshell nvidia nylas nytimes ocrspace okta ollama omnisend onedesk onesignal onfido openai "
    "openrouter opencage openweather openweathermap opsgenie optimizely orbit ovh paddle pagerduty "
    "pandadoc papertrail parseur partnerstack paypal paystack pendo perplexity pexels phrase "
    "pinecone pinterest pipedrive pixabay plaid planetscale planview plivo polygon positionstack "
    "posthog postman postmark prismic privacy prodpad productboard pubnub pulumi pusher qdrant "
    "qualaroo quandl quickbase quickbooks rabbitmq railway rapidapi raygun razorpay "
    "readme rechargepayments "
    "recurly reddit render replicate rentman rescuetime resend retell revenuecat ringcentral "
    "roboflow rollbar rootly runpod salesforce samsara saucelabs scraperapi "
    "scrapingbee screenshotapi securitytrails segment semaphore sendbird sendgrid sendinblue "
    "sentry serpapi serper sheety shipengine shippo shipstation shodan shopify shortcut shotstack "
    "shutterstock signalwire simplesat slack smartsheet smooch snowflake snyk sonar sonarcloud "
    "sonarqube sparkpost spoonacular spotify sportsmonk square squarespace stability statuscake "
    "statuspage stormglass strava stream stripe supabase surveymonkey swiftype tableau talkjs "
    "tatum tavily taxjar telegram telnyx tiingo timezoneapi todoist togetherai tomorrowio tomtom "
    "toggl tradier travisci trello twelvedata twilio twitch twitter tyntec typeform typesense "
    "unify unsplash uplead upstage upstash uptimerobot urlscan userstack vatlayer vault vercel "
    "verifier vertexai vimeo virustotal vonage voyage vultr wandb weatherapi weatherbit "
    "weatherstack webflow weightsandbiases wepay whoxy wistia wiz woocommerce "
    "workato worldcoinindex worldweather "
    "xai xata xendit yandex yelp youneedabudget youtube zapier zendesk zenrows zenserp zeplin "
    "zerobounce zerotier zhipu zoho zoominfo zoom zulip zuplo".split()
)
"""Names of services: beside one of them ``key`` is strong, and alone they label a random value."""

VENDOR_COMPANIONS: Final = frozenset(
    "api key token secret access private auth sdk rest app application client project prod "
    "production live test dev staging personal service server master admin bot webhook ingest "
    "write read license io ai com cloud account org team workspace user default main my new old "
    "internal shared v1 v2 v3 1 2 3 http header x bearer pat".split()
)
"""What may stand beside a service name in a label without changing its meaning."""

AMBIGUOUS_VENDORS: Final = frozenset(
    "apollo axiom beamer braze buddy censys checkout clockwork copper discord elastic enigma "
    "everhour fixer front gemini harvest hunter instantly iterable kraken lark linear monday mux "
    "neon nimble noticeable notion nutshell orbit paddle pendo phrase plaid polygon privacy readme "
    "render replicate segment semaphore shortcut smooch square stability stream unify vault "
    "verifier voyage wiz zoom cartesia amplitude facebook twitter youtube telegram slack google "
    "stripe sentry azure microsoft elasticsearch rabbitmq firebase grafana sonar".split()
)
"""Service names that are also words, or stand in front of many other things: alone they are no
label."""

PAT_COMPANIONS: Final = frozenset(
    "github gitlab gh ado devops azure personal access bot deploy ci git my bitbucket atlassian "
    "jira databricks airtable".split()
)
"""Beside one of these, or alone, ``pat`` is a personal access token and no pattern."""
