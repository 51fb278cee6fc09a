"""Words that names of things are made of, in code, settings and manifests. Data only.

A name with a number in it, ``user_2_name``, holds one of them; a password of words and a number,
as people choose it, hardly ever does. Contract: redaction.md 4.3.
"""

from __future__ import annotations

from typing import Final

from memory_manager.security.redact.label_words import (
    BLOCKING_ANYWHERE,
    BLOCKING_QUALIFIERS,
    BLOCKING_SUFFIXES,
    KEY_QUALIFIERS,
    KEY_WORDS,
    PASSWORD_WORDS,
    SECRET_WORDS,
    WEAK_WORDS,
)

# these are among the words around labels too, but a password may well be made of them
_EVERYDAY: Final = frozenset(
    "board chain stroke down up press word words frame ring map window contains monkey turkey "
    "compass passenger passing arrow theme colour color hot react candidate salt seed pin".split()
)
_NAMING: Final = frozenset(
    "abstract access account act action active actual adapter add addr address admin after agent "
    "alias all alloc alpha alt amount and another answer any app application area arg args "
    "argument array asset async attr auto aux avg axis back backup bad bar base baz basic batch "
    "before begin beta bin bit bits blob body bool boot bot box branch broker browser bucket buf "
    "buffer build bundle byte call callback camel canary cap case cert certificate certs channel "
    "char check child chunk ci class clean cli close cloud cluster cmd code col com combo comment "
    "common company compare complete conf config configmap configuration confirm confirmed conn "
    "const constant consumer container content context control cookie copy core correct count "
    "cpu crt crypt crypto ctx cur curr current custom customer daemon data database dataset db "
    "debug "
    "decode decoded decrypt decrypted def default defaults delete demo deploy deployment dest dev "
    "device dict diff digit dir disk display dns doc docker docs domain draft driver dst dummy "
    "dump dynamic echo edge edit element else email emb empty enc encode encoded encrypt "
    "encrypted end engine entity entry enum env environment eq err eval event ex exact example "
    "exec expected export expr ext external extra failed fake false fetch field file fill filter "
    "final find first fixture flag flags float flow fmt foo for form found from full func "
    "function gateway gen generate generated get getter git given global good grant group guest "
    "guid hand handle handler hdr head header heap helm help hex hidden hook host hosts hour html "
    "http https icon ident identifier idx if image img impl import in incoming index info ingress "
    "init initial inline inner input insert instance int integer internal invite is item iter iv "
    "job join json jump kafka keep keystore kind kube label lambda last latest launch layer left "
    "legacy len length level lib line link linux list listener live load loader loc local locale "
    "lock log logged login logout long loop mail main make manual mapping mariadb mask mass "
    "master match material max mem member memory merge message meta metadata method middle min "
    "minio missing mock mod mode model module mongo mongodb mount msg multi mut my mysql name "
    "named namespace nested net network new next nginx node none normal not note null num "
    "number obj object of offset old on op opaque open operator opt option optional options or "
    "oracle order "
    "org orig original os other out outer output owner pack package page pair panel param parent "
    "parse parsed parser part partner path payload peer pem pending perm phone pipeline pkg "
    "plain play plugin pod point pointer pool port pos postgres postgresql pre prepared prev "
    "previous print prior priv private prod producer production profile project prom prompt prop "
    "protected proto protocol provider proxy ptr public pull push put query queue rabbitmq raw "
    "read reader real rec receiver record redis ref regex region registry rel release remote "
    "remove repeat replica repo reporter req request require required res reset resource response "
    "rest restore result ret retry return rev reverse right role root round route row rsa rule "
    "run runner runtime safe sample save saved schema scope script search section secure select "
    "selected self sender seq serial server service services session set setter setting settings "
    "setup shadow shard share shared shell short should side sign signed simple sink site size "
    "slot smtp snake some sort source spec sql src ssh ssl stack stage staging standard start stat "
    "state static step stop storage store str stream string strong struct stub style sub suffix "
    "super sync sys system tab table tag target task team temp template tenant term test tester "
    "tests text thing this thread ticket time tls tmp todo tool top total trait tree trigger true "
    "trust tuple txt type typed uid unit unix unused update updated upload upper url use user "
    "username users usr util uuid val valid validated value values var variable vec vector verify "
    "version view vip visible vm volume wait was weak web webhook wildcard widget with without "
    "work worker workflow workspace wrapper write writer wrong xml yaml year your zero zone "
    # kinds of secrets, of ciphers and of what is around them
    "aes aead argon bcrypt blake blowfish chacha cipher curve ecdsa elgamal gcm cbc hkdf hmac kdf "
    "keyring keytab ldap letsencrypt oauth oidc pbkdf pgp pkcs poly saml scram scrypt sso totp "
    "twofish sealed vault acme credentials issuer bearer otp mfa hashed salted pepper "
    # regions, units and what is said of passwords
    "north south east west central northeast southeast two three four five six piece space attempt "
    "attempts century char characters chars cycle day days decade digits hour hours letter "
    "letters lowercase minute minutes month months node quarter second seconds symbols times "
    "uppercase week weeks yearly monthly weekly daily rotation character "
    # the same in other languages
    "usuario utilizador nome nombre campo novo nova nuevo nueva antigo antiga anterior banco dados "
    "datos base servidor prueba teste exemplo ejemplo atual actual utilisateur nom champ nouveau "
    "nouvelle ancien base donnees serveur essai exemple actuel benutzer feld neu neues neuer alt "
    "altes datenbank server beispiel aktuell wert gebruiker naam veld nieuw oud waarde voorbeeld "
    "utente campo nuovo nuova vecchio valore esempio prova uzytkownik nazwa pole nowe stare "
    "wartosc kullanici alan yeni eski deger sunucu valor chave clave wachtwoord passwort".split()
)
NAME_WORDS: Final = (
    _NAMING
    | PASSWORD_WORDS
    | SECRET_WORDS
    | KEY_WORDS
    | (
        (BLOCKING_ANYWHERE | BLOCKING_QUALIFIERS | BLOCKING_SUFFIXES | KEY_QUALIFIERS | WEAK_WORDS)
        - _EVERYDAY
    )
)
