"""Who is there, and what they do: a day pressed into ten minutes, the same at each start. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

SEED = "berth"
DAY_S = 600.0
QUIET_S = 60.0  # the first minute of the first day is written out: what is to be seen comes soon
H100, A100 = "h100", "a100"
ORGANISATION = "Research"
CALLED, SLEEPY = "defects", "summaries"  # endpoints: one that programs call, one that few do
GUARANTEED = 2  # H100s of each project; who is below the organisation has it through that


@dataclass(frozen=True)
class Team:
    """A project and its people; the first one owns it. ``kinds``: what their jobs are called."""

    slug: str
    name: str
    people: tuple[str, ...]
    jobs: tuple[str, ...]
    in_organisation: bool


TEAMS = (
    Team(
        "vision",
        "Vision",
        ("aiko", "ben", "chloe", "daisuke"),
        ("train-resnet", "segment-cells", "sweep-lr", "detect-defects"),
        in_organisation=True,
    ),
    Team(
        "language",
        "Language",
        ("emma", "farid", "grace", "hiro"),
        ("finetune-7b", "evaluate", "tokenise", "distil"),
        in_organisation=True,
    ),
    Team(
        "robotics",
        "Robotics",
        ("ines", "jonas", "kenji", "lena"),
        ("grasping", "simulate-arm", "policy-ppo", "track-hands"),
        in_organisation=False,
    ),
)


@dataclass(frozen=True)
class Registered:
    """A model that is there from the beginning, with how good each of its versions is."""

    who: str
    name: str
    about: str
    versions: tuple[dict[str, float], ...]


MODELS = (
    Registered(
        "aiko",
        CALLED,
        "Finds scratches and dents on parts",
        ({"accuracy": 0.912}, {"accuracy": 0.941}, {"accuracy": 0.958}),
    ),
    Registered(
        "emma",
        SLEEPY,
        "Shortens reports to five sentences",
        ({"rouge": 0.382}, {"rouge": 0.417}),
    ),
)


@dataclass(frozen=True)
class Submit:
    """A job that computes nothing for ``seconds``. ``limited``: it says how long it may take."""

    at_s: float
    who: str
    name: str
    seconds: int
    gpus: int = 1
    kind: str = H100
    limited: bool = False


@dataclass(frozen=True)
class Cancel:
    """Somebody thinks better of what waits longest of theirs."""

    at_s: float
    who: str


@dataclass(frozen=True)
class Open:
    """A workspace with one GPU and a time limit."""

    at_s: float
    who: str
    minutes: int
    kind: str = A100


@dataclass(frozen=True)
class Resume:
    """Somebody whose workspace was parked goes on with it, the one parked longest first."""

    at_s: float


@dataclass(frozen=True)
class Search:
    """A search for the learning rate: short trials, two at a time, on CPUs."""

    at_s: float
    who: str
    name: str
    trials: int = 8
    seconds: int = 15


@dataclass(frozen=True)
class Measure:
    """A test of what comes through between two replicas; the one before becomes the baseline."""

    at_s: float
    who: str


@dataclass(frozen=True)
class Deploy:
    """An endpoint on CPUs, called as its model is. ``sleeps``: after so many minutes."""

    at_s: float
    who: str
    version: str
    sleeps: int = 0


@dataclass(frozen=True)
class Canary:
    """The next version beside it."""

    at_s: float
    who: str
    version: str


@dataclass(frozen=True)
class Split:
    """The share of the requests that the canary of an endpoint gets."""

    at_s: float
    who: str
    endpoint: str
    percent: int


@dataclass(frozen=True)
class Ask:
    """One request, which wakes an endpoint that sleeps."""

    at_s: float
    endpoint: str


Act = Submit | Cancel | Open | Resume | Search | Measure | Deploy | Canary | Split | Ask


def day(number: int) -> list[Act]:
    """Return the acts of one day in their order; day 0 begins with the opening."""
    random = Random(f"{SEED}-{number}")  # noqa: S311 - a script, no secret
    acts = [*_opening()] if number == 0 else []
    acts += _submissions(random, QUIET_S if number == 0 else 0.0)
    for at_s in range(90, int(DAY_S), 100):
        acts.append(Cancel(at_s, random.choice(random.choice(TEAMS).people)))
    for at_s in range(130, int(DAY_S) - 60, 150):
        acts.append(Open(at_s, random.choice(random.choice(TEAMS).people), random.randint(3, 6)))
    acts += [Split(180, "aiko", CALLED, 25), Split(420, "aiko", CALLED, 10)]
    acts += [Ask(at_s, SLEEPY) for at_s in range(240, int(DAY_S), 240)]
    acts += [Resume(at_s) for at_s in range(330, int(DAY_S), 120)]
    if number:
        team = TEAMS[number % len(TEAMS)]
        acts += [Search(70, team.people[3], "learning-rate"), Measure(300, "jonas")]
    return sorted(acts, key=lambda act: act.at_s)


def acts(begin_s: float, end_s: float) -> Iterator[Act]:
    """Yield what is to be done from ``begin_s`` until before ``end_s`` of the first day on."""
    for number in range(int(begin_s // DAY_S), int(end_s // DAY_S) + 1):
        for act in day(number):
            if begin_s <= number * DAY_S + act.at_s < end_s:
                yield act


def _opening() -> Iterator[Act]:
    """Vision borrows what is free; Robotics asks for its own and gets it back; others wait."""
    for number in range(1, 7):
        yield Submit(1, "aiko", f"sweep-lr-{number}", 240)
    yield Submit(2, "emma", "finetune-7b", 200, gpus=2)
    yield Submit(4, "chloe", "segment-cells", 150, gpus=2, kind=A100)
    yield Open(6, "lena", 4)
    yield Open(9, "kenji", 9)
    yield Open(12, "grace", 9)
    yield Deploy(3, "aiko", f"{CALLED}/v2")
    yield Deploy(3, "emma", f"{SLEEPY}/v2", sleeps=1)
    yield Canary(12, "aiko", f"{CALLED}/v3")
    yield Split(22, "aiko", CALLED, 10)
    yield Submit(20, "ines", "grasping-1", 90)
    yield Submit(20, "ines", "grasping-2", 120)
    yield Submit(28, "farid", "evaluate", 60, gpus=4, limited=True)
    yield Submit(34, "ben", "train-resnet", 80, gpus=2)
    yield Submit(40, "jonas", "policy-ppo", 45, limited=True)
    yield Search(15, "daisuke", "learning-rate")
    yield Measure(24, "jonas")
    yield Measure(55, "jonas")


def _submissions(random: Random, from_s: float) -> Iterator[Act]:
    """About as much as there is: in the first half of the day most of Vision, then of Language."""
    at_s = from_s
    while (at_s := at_s + random.expovariate(1 / 20)) < DAY_S:
        weights = (4, 2, 2) if at_s < DAY_S / 2 else (1, 5, 2)
        (team,) = random.choices(TEAMS, weights)
        yield Submit(
            at_s,
            random.choice(team.people),
            random.choice(team.jobs),
            seconds=int(min(240, max(20, random.lognormvariate(4.2, 0.5)))),
            gpus=random.choice((1, 1, 1, 2, 2, 4)),
            kind=A100 if random.random() < 0.3 else H100,  # noqa: PLR2004 - almost a third
            limited=random.random() < 0.5,  # noqa: PLR2004 - half
        )


@dataclass(frozen=True)
class Held:
    """One time that a job of the script held GPUs, in seconds before the demonstration began."""

    who: str
    kind: str
    gpus: int
    asked_s: float
    granted_s: float
    ended_s: float


def past(days: int, exists: dict[str, int]) -> list[Held]:
    """Return how days before the first one went where who came first was served first."""
    free = {kind: [float("-inf")] * number for kind, number in exists.items()}
    turn = dict.fromkeys(exists, float("-inf"))  # nobody passes
    held = []
    for number in range(-days, 0):
        for act in day(number):
            if not isinstance(act, Submit) or act.gpus > exists.get(act.kind, 0):
                continue
            asked = number * DAY_S + act.at_s
            devices = sorted(free[act.kind])
            granted = turn[act.kind] = max(asked, turn[act.kind], devices[act.gpus - 1])
            ended = granted + act.seconds
            free[act.kind] = [*devices[act.gpus :], *[ended] * act.gpus]
            if ended < 0:
                held.append(Held(act.who, act.kind, act.gpus, asked, granted, ended))
    return held
