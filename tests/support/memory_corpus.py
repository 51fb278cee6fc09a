"""A seeded generator of realistic memories and questions; every sentence and list here is our own.

Row ``i`` of a seed is always the same, whatever the total, so a small corpus is a prefix of a large
one. Several writers, projects, code identifiers, versions, ports; some Spanish, Chinese, Japanese
and Korean.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

_ADJECTIVES = (
    "amber brisk cobalt dusty eager frosty gentle hollow ivory jagged keen lunar mellow nimble "
    "oaken pale quiet rapid silver tidal umber vivid windy young zesty copper marble"
).split()
_THINGS = (
    "anchor beacon canyon dynamo ember falcon garden harbor island jigsaw kettle lantern meadow "
    "nebula orchard paddle quarry ribbon saddle thicket urchin valley walnut yarrow compass "
    "trellis foundry"
).split()
_PEOPLE = (
    "Agnieszka Bram Chidi Daniela Elif Farouk Greta Hiroshi Ines Jonas Kavita Lucía Mehmet Nora "
    "Oskar Priya Quentin Rosa Sanjay Tove Uma Viktor Wanjiru Ximena Yusuf Zofia 小林 민지 王伟"
).split()
_VERBS = (
    "load parse merge flush resolve render publish retry encode schedule validate rotate expire "
    "collect index throttle migrate compact dispatch hydrate revoke snapshot normalise replay"
).split()
_NOUNS = (
    "invoice session payload cursor ledger tenant webhook bucket shard token profile report queue "
    "snapshot manifest template locale gateway checksum backlog receipt envelope digest replica "
    "carousel voucher sensor playlist shipment calendar attachment discount contract timeline"
).split()
_COMPONENTS = (
    "billing worker|search gateway|upload service|mail relay|nightly importer|mobile client|"
    "admin console|rate limiter|audit exporter|image resizer|feature flag store|login page|"
    "report builder|metrics collector|release pipeline|translation memory|checkout flow|"
    "inventory sync|push notifier|document viewer"
).split("|")
_REASONS = (
    "the old one blocked the event loop|customers asked for it twice in one week|the vendor drops "
    "support next spring|two replicas disagreed after the failover|it doubled the cold start|the "
    "test suite became flaky on slow disks|the licence did not fit|memory grew by a third under "
    "load|nobody could explain the previous default|the certificate chain was incomplete|retries "
    "arrived out of order|the index no longer fitted into the page cache"
).split("|")
_HABITS = (
    "short commit subjects in the imperative|tabs only in makefiles|a written plan before any "
    "refactoring|reviews before lunch|metric units everywhere|no force pushes after review|tests "
    "named after behaviour|one migration per pull request|dark themes in all editors|summaries of "
    "at most five lines|explicit error codes instead of booleans|British spelling in documents"
).split("|")
_PLACES = (
    "Lisbon Kraków Nairobi Osaka Toronto Bergen Valencia Pune Gwangju Taipei Porto Tallinn"
).split()
_FOODS = (
    "pierogi|cold brew coffee|rye bread|mango lassi|tofu stew|empanadas|lentil soup|plum cake"
).split("|")

_ENGLISH = (
    "We decided to move the {component} of {project} to {lib} {version} because {reason}.",
    "The {component} listens on port {port} in staging and reads {path} at start.",
    "{person} fixed {error} in `{function}`: the {noun} was closed before {verb_ing} finished.",
    "In {project} the function `{function}` lives in {path}; it must never touch the {noun}.",
    "{person} prefers {habit} and asked every agent on {project} to keep to it.",
    "Incident of {date}: the {component} answered {error} for {minutes} minutes, since {reason}.",
    "Deploy {version} of {project} went out on {date}; `{constant}` is now {number}.",
    "To reproduce, run `{command}` in the {project} checkout, then watch the {noun} counter.",
    "The customer in {place} wants the {noun} export by {date}; {person} owns it.",
    "{person} moved to {place} and now works on the {component} three days a week.",
    "{person} told me over lunch that {food} is the favourite dish of the whole {project} team.",
    "Rollback plan for {project}: restore the {noun} from {date}, set `{constant}` to {number}.",
    "`{function}` returns an empty {noun} when the {component} is offline; callers must check.",
    "The {noun} table of {project} has {number} rows and grows by {minutes} a minute.",
    "Do not raise `{constant}` above {number}: {reason}.",
    "Meeting with {person} and {person2}: the {component} gets a second {noun} next quarter.",
    "{person} said that the {day} {does} the {day2}, and that the {day3} can wait until {date}.",
    "For {person}'s {day}: bring the {day2}, no {day3}, and call {person2} first.",
    "The {day} near the {day2} in {place} {does} the {day3} of {person2}.",
    "{person} lost a {day} between the {day2} and the {day3} while the {component} was down.",
)
_SPANISH = (
    "El puerto del {component} de {project} es {port}; lo cambió {person} el {date}.",
    "Decidimos no usar {lib} {version} en {project} porque tardaba {minutes} minutos en arrancar.",
    "{person} pidió que los informes de {project} se envíen desde {place} cada lunes.",
    "La función `{function}` falla con {error} si la sesión ya está cerrada.",
)
_CHINESE = (
    "{project}项目的测试环境端口是{port}，由{person}负责维护。",
    "我们决定在{date}之前把{lib}升级到{version}，否则构建会失败。",
    "重跑{slug}之后出现{error}，需要先清理缓存再启动服务。",
)
_JAPANESE = (
    "{project}の本番環境では{constant}を{number}に設定しています。",
    "{person}さんは{date}までに{function}を修正する予定です。",
)
_KOREAN = (
    "{project} 프로젝트의 배포는 {date}에 {person}님이 진행했습니다.",
    "{function} 함수는 포트 {port}에서 오류 {error}를 반환합니다.",
)
_QUESTIONS = (
    "Which port does the {component} use?",
    "Why did we move the {component} of {project} away from {lib}?",
    "Who fixed {error} in {function}?",
    "What does {person} prefer when working on {project}?",
    "where is {function} defined",
    "What happened to the {component} on {date}?",
    "What is {constant} set to?",
    "How do I reproduce the problem with the {noun} counter?",
    "favourite dish of the {project} team",
    "which customer in {place} is waiting for the {noun} export",
    "¿Quién cambió el puerto del {component} de {project}?",
    "{project}项目的端口是多少",
    "{slug}",
    "rollback plan {project} {noun}",
    "What did {person} say about the {day} and the {day2}?",
    "what should I bring for the {day} of {person}",
)
_EVERYDAY = (
    "afternoon agenda airport album alarm ankle apartment apron archive argument attic autumn "
    "balcony ballot bargain basement battery beach bicycle blanket blister border bottle bracelet "
    "branch breeze bridge broom bruise budget bus cabin candle canvas captain carpet castle cattle "
    "cellar chapter cheese chimney choir cinema cliff clinic clover coach coastline comet concert "
    "cottage cousin cradle crater crowd cucumber curtain cushion dairy daughter deadline dentist "
    "desert dessert diary dinner disc dock drawer drizzle drummer dust easel echo elbow elevator "
    "engine errand evening exam fabric factory farewell fence ferry festival fiddle fireplace "
    "flavour flight flour fog forecast fountain fridge funeral gallery garlic ghost glacier glove "
    "grandmother gravel guitar hallway hammer harvest headache heater helmet herb hockey holiday "
    "honey horizon hostel hotel hurricane illness injury insurance jacket journal jungle keyboard "
    "kitchen kitten knee ladder lake laundry lawn lemon library lighthouse lizard luggage magazine "
    "mansion maple market mattress medal melody mirror mountain mushroom museum mustard neighbour "
    "nephew notebook novel nurse oar oven oyster painting pancake parade parcel passport pasture "
    "pebble pepper photograph pianist picnic pillow pipeline pirate plaster platform poem polish "
    "pond porch postcard potato puddle pumpkin puppet rabbit railway rain recipe rehearsal "
    "restaurant river roof rowing rug sailor salad sandal scarf school scooter shelf shirt "
    "shoulder sister skating sketch sleeve smoke snow soap sofa spider spoon staircase station "
    "stomach storm stove strawberry street suitcase summit sunset sweater swimming tailor teacher "
    "telescope tent theatre throat thunder ticket tiger toast tomato towel traffic train tram "
    "trumpet tunnel twin umbrella uncle vacation valley violin volcano waiter wallet wardrobe "
    "wedding whale wheel whistle window winter wolf workshop yoghurt zebra"
).split()
_DOES = (
    "reminds me of|comes before|was cheaper than|smells like|stands behind|replaces|follows|is "
    "nothing without|belongs to|ruined|saved|needs|hides|outlived|looks better than|interrupted"
).split("|")
_LIBRARIES = "httpkit tinyqueue parseq gridcache papercut-orm lumen-ui sockline ferrite".split()
_WRITERS = "hermes|codex-cli|DeepSeek Harness|openclaw|vscode|claude-code|memlocket-dev".split("|")
_TYPES = ("semantic",) * 6 + ("episodic",) * 3 + ("procedural", "working")


@dataclasses.dataclass(frozen=True, slots=True)
class CorpusMemory:
    """One generated memory: what an agent would send, plus who would send it."""

    number: int
    content: str
    path: str
    bucket: str
    scope: str
    memory_type: str
    writer: str  # agent id

    def remember_body(self) -> dict[str, object]:
        return {
            "content": self.content,
            "path": self.path,
            "bucket": self.bucket,
            "scope": self.scope,
            "memory_type": self.memory_type,
        }


class Corpus:
    """Deterministic for one seed. ``projects`` is how many project names the texts are about."""

    def __init__(self, seed: int = 20261, projects: int = 400) -> None:
        self._seed = seed
        shuffled = [f"{a}-{t}" for a in _ADJECTIVES for t in _THINGS]
        random.Random(seed).shuffle(shuffled)
        self.projects = shuffled[:projects]

    def memory(self, number: int) -> CorpusMemory:
        rng = random.Random(f"{self._seed}:row:{number}")
        slots = self._slots(rng)
        language = rng.random()
        if language < 0.84:
            patterns = rng.sample(_ENGLISH, rng.choice((1, 1, 2, 2, 3)))
        elif language < 0.92:
            patterns = rng.sample(_SPANISH, rng.choice((1, 2)))
        elif language < 0.96:
            patterns = [rng.choice(_CHINESE)]
        else:
            patterns = [rng.choice(_JAPANESE if language < 0.98 else _KOREAN)]
        project = slots["project"]
        return CorpusMemory(
            number=number,
            content=" ".join(pattern.format(**slots) for pattern in patterns),
            path=f"projects/{project}/{rng.choice(_NOUNS)}",
            bucket=rng.choice(("work", "work", "work", "private", "public")),
            scope=f"{rng.choice(('hermes', 'dsh', 'team'))}/{project}",
            memory_type=rng.choice(_TYPES),
            writer=rng.choice(_WRITERS),
        )

    def memories(self, count: int, start: int = 0) -> Iterator[CorpusMemory]:
        for number in range(start, start + count):
            yield self.memory(number)

    def question(self, number: int) -> str:
        rng = random.Random(f"{self._seed}:question:{number}")
        return rng.choice(_QUESTIONS).format(**self._slots(rng))

    def questions(self, count: int) -> list[str]:
        return [self.question(number) for number in range(count)]

    def _slots(self, rng: random.Random) -> dict[str, object]:
        # A few busy projects and a long tail, as in a real vault; likewise for everyday words.
        project = self.projects[int(len(self.projects) * rng.random() ** 2.2)]
        days = [_EVERYDAY[int(len(_EVERYDAY) * rng.random() ** 1.5)] for _ in range(3)]
        verb, noun, other = rng.choice(_VERBS), rng.choice(_NOUNS), rng.choice(_NOUNS)
        person, person2 = rng.sample(_PEOPLE, 2)
        camel = f"{verb}{noun.title()}{other.title()}"
        function = camel if rng.random() < 0.4 else f"{verb}_{noun}_{other}"
        folder = project.replace("-", "_")
        version = f"{rng.randint(0, 9)}.{rng.randint(0, 30)}.{rng.randint(0, 9)}"
        error = rng.choice(("E", "ERR_", "HTTP ", "TS", "ORA-"))
        return {
            "project": project,
            "component": rng.choice(_COMPONENTS),
            "lib": rng.choice(_LIBRARIES),
            "version": f"v{version}" if rng.random() < 0.5 else version,
            "reason": rng.choice(_REASONS),
            "port": rng.randint(1025, 65_000),
            "path": f"{folder}/{rng.choice(_NOUNS)}/{verb}_{noun}.py",
            "person": person,
            "person2": person2,
            "error": f"{error}{rng.randint(100, 9_999)}",
            "function": function,
            "noun": noun,
            "verb_ing": f"{verb} {other}",
            "habit": rng.choice(_HABITS),
            "date": f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
            "minutes": rng.randint(2, 95),
            "number": rng.randint(3, 9_000),
            "constant": f"{noun}_{other}_LIMIT".upper(),
            "command": f"make {verb}-{noun} SEED={rng.randint(1, 999)}",
            "place": rng.choice(_PLACES),
            "food": rng.choice(_FOODS),
            "does": rng.choice(_DOES),
            "day": days[0],
            "day2": days[1],
            "day3": days[2],
            "slug": f"{verb}-{noun}",
        }
