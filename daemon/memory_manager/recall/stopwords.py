"""Stop words and question words of thirteen languages, and which of them a query means. Pure.

A list applies when the query itself speaks its language: it holds that language's stop words, or
its script. So ``die`` goes out of a German question and stays in "did the server die". Contract:
recall.md 7.3.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from memory_manager.recall.scripts import (
    CYRILLIC,
    DEVANAGARI,
    HAN,
    HANGUL,
    HIRAGANA_ONLY,
    KANA,
    strip_diacritics,
)


def _words(text: str) -> frozenset[str]:
    return frozenset(strip_diacritics(word) for word in text.split())


LATIN_LISTS: dict[str, frozenset[str]] = {
    "en": _words(
        """a about after again all also am an and any anybody anyone anything are aren as at be
        because been before being both but by can could couldn d did didn do does doesn doing don
        during each either else ever every everyone few for from further get gets getting give go
        goes going gone got had hadn has hasn have haven having he her here hers herself him
        himself his how however i if in into is isn it its itself just kind know let like ll m
        many me might mine more most much must my myself no nor not now of off often on once one
        ones only onto or other others our ours ourselves out over own please re s said same say
        says shall shan she should shouldn since so some somebody someone something sometimes sort
        still such t tell than that the their theirs them themselves then there these they thing
        things this those through to too toward towards under until up upon us ve very was wasn we
        were weren what whatever when where whether which while who whoever whom whose why will
        with within without won would wouldn yes yet you your yours yourself yourselves
        """
    ),
    "es": _words(
        """a al algo algun alguna algunas alguno algunos ante antes aquel aquella asi aun aunque
        cada como con contra cual cuales cuando cuanto cuantos de del desde donde dos durante e el
        ella ellas ellos en entre era eran eres es esa esas ese eso esos esta estaba estamos estan
        estar estas este esto estos estoy fue fueron ha habia han has hasta hay he hemos la las le
        les lo los mas me mi mis mucho muy nada ni no nos nosotros nuestra nuestro o os otra otro
        otros para pero poco por porque pues que quien quienes se sea ser si sido sin sobre sois
        somos son soy su sus tambien tan tanto te tengo ti tiene tienen toda todas todo todos tu
        tus un una unas uno unos usted vosotros y ya yo
        """
    ),
    "pt": _words(
        """a ao aos aquela aquele aquilo as ate com como da das de dela dele deles depois do dos e
        ela elas ele eles em entre era eram essa essas esse esses esta estas estava este estes
        estou eu foi foram ha isso isto ja la lhe lhes lo mais mas me mesmo meu meus minha minhas
        muito na nao nas nem no nos nossa nosso num numa o onde os ou para pela pelas pelo pelos
        por porque porquê qual quais quando quanto quantos que quem sao se seja sem ser seu seus
        so sobre somos sou sua suas tambem te tem tem tenho ter teu teve tinha tu tua um uma umas
        uns voce voces
        """
    ),
    "fr": _words(
        """a ai ainsi alors apres as au aucun aujourd aussi autre aux avait avant avec avez avoir
        c ce ceci cela celle celui ces cet cette ceux chaque chez comme comment d dans de depuis
        des donc dont du elle elles en encore entre es est et etaient etais etait etes etre eu eux
        fait fut ici il ils j je l la le les leur leurs lors lui m ma mais me mes moi moins mon n
        ne ni nos notre nous on ont ou où par parce pas pendant peu peut plus pour pourquoi qu
        quand que quel quelle quelles quels qui quoi s sa sans se sera ses si son sont sous sur t
        ta te tes toi ton tous tout toute toutes tres tu un une vos votre vous y
        """
    ),
    "de": _words(
        """ab aber alle allem allen aller alles als also am an ander andere anderen auch auf aus
        bei beim bin bis bist da damit dann das dass dein deine dem den denn der des dich die dies
        diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines
        er es etwas euch euer fur fuer gegen habe haben hat hatte hatten hier hin hinter ich ihm
        ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede jedem jeden jeder jedes jener
        jetzt kann kein keine keinem keinen keiner konnen koennen man mehr mein meine meinem
        meinen meiner mich mir mit muss nach nicht nichts noch nun nur ob oder ohne sehr sein
        seine seinem seinen seiner seit sich sie sind so sollte solche sondern sonst uber ueber um
        und uns unser unsere unter viel vom von vor wann war waren warum was weg weil welche
        welchem welchen welcher welches wem wen wenn wer werde werden wessen wie wieder will wir
        wird wirst wo woher wohin wurde wurden zu zum zur zwar zwischen
        """
    ),
    "it": _words(
        """a agli ai al alla alle allo anche ancora avere aveva c che chi ci cio come con contro
        cosa cui da dagli dai dal dalla dalle dallo degli dei del dell della delle dello di dopo
        dove e ed era erano essere fu fra gli ha hai hanno ho i il in io l la le lei li lo loro
        lui ma mi mia mie miei mio molto ne negli nei nel nell nella nelle nello no noi non nostra
        nostro o ogni per perche piu poi prima qual quale quali quando quanta quanti quanto quel
        quella quelle quelli quello questa queste questi questo qui se sei senza si sia siamo
        siete sono sopra sta stato su sua sue sugli sui sul sulla suo suoi ti tra tu tua tue tuo
        tutti tutto un una uno vi voi vostra vostro
        """
    ),
    "nl": _words(
        """aan al alle alles als altijd andere ben bij daar dan dat de der deze die dit doch doen
        door dus een eens en er ge geen geweest haar had heb hebben heeft hem het hier hij hoe
        hoeveel hun iemand iets ik in is ja je jij jou jouw jullie kan kon kunnen maar me meer men
        met mij mijn moet na naar niet niets nog nu of om omdat onder ons onze ook op over reeds
        te tegen toch toen tot u uit uw van veel voor waar waarom wanneer want waren was wat we
        wel welk welke werd wezen wie wij wil worden wordt zal ze zei zelf zich zij zijn zo zonder
        zou
        """
    ),
}

CYRILLIC_LIST = _words(
    """а без более больше был была были было быть в вам вас весь во вот все всего всех вы где да
    даже для до его ее если есть еще же за здесь и из или им их к как какая какие какой каком
    какую ко когда который которая которые кто куда ли между меня мне много может мой моя мы на
    над надо нам нас наш не него нее нет ни них но ну о об однако он она они оно от откуда очень
    по под потому почему при про с сам свой своя себя сейчас сколько со так также такой там тебя
    тем теперь то тоже только том тот тут ты у уже хотя чего чей чем через что чтобы чье эта эти
    это этого этой этом этот я
    """
)  # ru

DEVANAGARI_LIST = _words(
    """अगर अपना अपनी अपने अब आप इन इस इसका इसके इसे उन उनका उनके उस उसका उसकी उसके उसे एक एवं ऐसा
    और कई कब कर करता करते करना करने कहां कहाँ का काफी कि कितना कितनी कितने किया किस किसका किसकी
    किसके किसने किसे की कुछ के को कोई कौन कौनसा कौनसी क्या क्यों गई गए गया जब जहां जहाँ जाता जाती
    जाते जिस जैसा जैसे जो तक तब तथा तुम तो था थी थे दिया द्वारा न नहीं ने पर फिर बहुत भी मुझे में
    मेरा मेरी मेरे मैं यदि यह यहां यहाँ या ये रहा रही रहे लिए वह वहां वहाँ वाला वाली वाले वे सब
    साथ से हम हमारा हमारे ही हुआ हुई हुए हूँ हूं है हैं हो होता होती होते होना आणि आता आपण आपला
    आपली आपले आम्ही आहे आहेत इथे कधी करण्यात करत करून का काय कारण कशी कसा कसे किंवा किती कुठे
    कुठला कुठली कुठल्या कोण कोणता कोणती कोणते कोणत्या कोणाचा कोणाची कोणाला खूप चा ची चे जर जी जे
    तर तसे ती तिचा तिची तिथे ते तेथे त्या त्याचा त्याची त्यांचा त्यांनी त्याने तुझा तुझी तू नाही
    नको पण परंतु पाहिजे फक्त बद्दल मग मला माझा माझी माझे मात्र मी म्हणजे म्हणून येथे ला वर व शकतो
    सर्व साठी ही हा हे होणार होतं होता होती होते होय
    """
)  # hi and mr: one list, their function words rarely mean anything in the other language

HAN_LIST = frozenset(
    """什么 甚么 什麼 甚麼 怎么 怎麼 怎样 怎樣 怎么样 为什么 為什麼 为何 為何 哪里 哪裡 哪儿 哪个
    哪個 哪些 哪 谁 誰 谁的 多少 几个 幾個 如何 是否 何时 何時 什么时候 什麼時候 吗 嗎 呢 吧 啊 的
    了 着 和 与 與 及 或 是 在 有 也 都 就 我 你 他 她 它 我们 我們 你们 你們 他们 他們 这 這 那
    这个 這個 那个 那個 这些 這些 那些 一个 一個 因为 因為 所以 但是 如果 以及 关于 關於 请问 請問
    是什么 是什麼 有没有 有沒有 是谁 是誰 是多少 在哪里 在哪裡 在哪""".split()
)  # zh

KANA_LIST = frozenset(
    """何 何の 何が 何を 何です なに なん なんの どこ どこに どこで どこの だれ 誰 誰が 誰の 誰に
    いつ いつから どう どうやって どの どのよう どのように どれ どちら なぜ どうして いくつ いくら
    これ それ あれ この その あの ここ そこ です ですか でした でしたか ます ますか ました
    ましたか ません ください について という とは には では から まで より など もの こと ため
    する した して している いる ある あります ありますか います いますか なる なった の は が を
    に で と も へ や か ね よ""".split()
)  # ja

HANGUL_LIST = frozenset(
    """무엇 무엇이 무엇을 무엇인가 무엇인가요 무엇입니까 무엇이야 무슨 뭐 뭐야 뭐예요 뭔가 뭘 누가
    누구 누구를 누구의 누구인가 누구인가요 누구입니까 누구야 어느 어디 어디야 어디에 어디서
    어디에서 어디인가 어디인가요 어디입니까 어디예요 언제 언제야 언제인가 언제인가요 언제입니까
    어떤 어떻게 어떤가요 왜 얼마 얼마나 얼마인가 얼마인가요 얼마입니까 몇 며칠 이 그 저 것 것은
    것이 것을 이것 그것 저것 및 또는 그리고 그러나 하지만 때문에 위해 위한 대한 대해 통해 있는
    있나 있나요 있는가 있습니까 있다 있어 없는 없다 하는 하나요 했나 했나요 하였나 했는가 했습니까
    한다 한가 되는 되나요 됐나요 되었나 되었나요 되었는가 되었습니까 인가 인가요 입니까 이다 나는
    내가 너는 우리 우리는 그는 그녀는 좀 더 가장 수 등""".split()
)  # ko

# Stop words of one language that are content words, names or abbreviations of another.
_AMBIGUOUS = _words(
    """am an art as come da dare den des die do due e est hat he i in is la ma man mine mis no on os
    over pas per pour sea se sin son sono sur ten ton van vers war was will"""
)


def latin_stop_words(terms: Sequence[str]) -> frozenset[str]:
    """The terms to leave out: those of the languages the terms themselves speak.

    The language with most stop words wins; another one counts too when it brings two stop words
    of its own. Ambiguous words alone prove no language.
    """
    hits = {code: {t for t in terms if t in listed} for code, listed in LATIN_LISTS.items()}
    # Words that prove a language count first; ties go by the order of the lists.
    best = max(hits, key=lambda code: (len(hits[code] - _AMBIGUOUS), len(hits[code])))
    chosen = set(hits[best])
    if chosen <= _AMBIGUOUS:
        return frozenset()
    for found in hits.values():
        own = found - hits[best]
        if len(own) >= 2 and len(own - _AMBIGUOUS) >= 1 and 2 * len(found) > len(hits[best]):
            chosen |= found
    return frozenset(chosen)


def script_stop_words(text: str) -> Collection[str]:
    """Stop words of the scripts other than Latin that stand in ``text``."""
    found: set[str] = set()
    if CYRILLIC.search(text):
        found |= CYRILLIC_LIST
    if DEVANAGARI.search(text):
        found |= DEVANAGARI_LIST
    if KANA.search(text):
        found |= KANA_LIST
    elif HAN.search(text):
        found |= HAN_LIST
    if HANGUL.search(text):
        found |= HANGUL_LIST
    return found


_UNSPACED_QUESTION_WORDS = sorted(
    (word for word in HAN_LIST | KANA_LIST if len(word) > 1 and not HIRAGANA_ONLY.fullmatch(word)),
    key=len,
    reverse=True,
)


def without_question_words(run: str) -> list[str]:
    """A Han or Kana run of a query cut at its question words, which no space sets apart.

    Only words written with Han are cut: a hiragana ending may be part of any word.
    """
    if HANGUL.search(run):
        return [run]
    for word in _UNSPACED_QUESTION_WORDS:
        run = run.replace(word, " ")
    return run.split()
