"""Changes reach browsers: over datagrams on one machine, as server-sent events."""

import asyncio
import socket
from types import SimpleNamespace

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.test import AsyncRequestFactory

from runtime import bus, sse


@pytest.fixture
def unix_bus(settings, tmp_path):
    settings.BERTH_BUS, settings.BERTH_BUS_DIR = "unix", tmp_path
    return tmp_path


async def test_a_message_reaches_readers_of_its_topic_only(unix_bus):
    async with bus.subscription(["workspace:a"]) as a, bus.subscription(["workspace:b"]) as b:
        assert bus.send(["workspace:a", "user:1"], {"kind": "workspace"}) == 1
        assert await a.get(timeout_s=30) == {"kind": "workspace"}
        assert await b.get(timeout_s=0.05) is None


@pytest.fixture
def clock(monkeypatch):
    at = [100.0]
    monkeypatch.setattr(bus, "time", SimpleNamespace(monotonic=lambda: at[0]))
    return at


async def _say(reader, *messages):
    """Send each, and wait until it was heard."""
    for message in messages:
        bus.send(["t"], message)
        assert await reader.get(timeout_s=30) == message


async def _heard(reader):
    """All that is there already."""
    messages = []
    while (message := await reader.get(timeout_s=0.05)) is not None:
        messages.append(message)
    return messages


async def test_what_was_said_before_a_stream_was_open_comes_first(unix_bus, clock):
    async with bus.subscription(["t"], age_s=1.0) as first:
        assert await _heard(first) == [bus.RESYNC]  # nobody listened a second ago
        clock[0] = 110.0
        await _say(first, {"n": "old"})
        clock[0] = 120.0
        await _say(first, {"n": 1}, {"n": 2})
    async with bus.subscription(["t"], age_s=5.0) as late:
        assert await _heard(late) == [{"n": 1}, {"n": 2}]
        await _say(late, {"n": 3})
    async with bus.subscription(["other"], age_s=5.0) as stranger, bus.subscription(["t"]) as plain:
        assert await _heard(stranger) == await _heard(plain) == []


async def test_who_missed_more_than_is_kept_looks_at_everything(unix_bus, clock, monkeypatch):
    monkeypatch.setattr(bus, "KEPT", 3)
    async with bus.subscription(["t"]) as reader:
        clock[0] = 110.0
        await _say(reader, *({"n": n} for n in range(4)))
    async with bus.subscription(["t"], age_s=1.0) as late:
        assert await _heard(late) == [bus.RESYNC]


def test_the_listener_ends_with_its_loop(unix_bus):
    async def hear():
        async with bus.subscription(["t"]):
            assert len(list(unix_bus.glob("*.sock"))) == 1

    asyncio.run(hear())
    assert list(unix_bus.glob("*.sock")) == []


async def test_a_slow_reader_is_told_to_look_again_and_holds_nobody_up(unix_bus):
    async with bus.subscription(["t"]) as slow:
        for i in range(bus.QUEUE * 3):
            slow.offer({"t"}, {"n": i})
        first = await slow.get(timeout_s=1)
        assert first == bus.RESYNC


async def test_a_listener_that_died_is_forgotten(unix_bus):
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    dead.bind(str(unix_bus / "1-dead.pages.sock"))
    dead.close()
    assert bus.send(["t"], {}) == 0
    assert list(unix_bus.iterdir()) == []


async def test_subscribe_yields_messages(unix_bus):
    stream = bus.subscribe(["t"])
    waiting = asyncio.ensure_future(anext(stream))
    async with asyncio.timeout(30):
        # what is sent before it listens is lost
        while not list(unix_bus.iterdir()):  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.02)
        bus.send(["t"], {"n": 1})
        assert await waiting == {"n": 1}
    await stream.aclose()


def test_too_large_a_message_becomes_a_request_to_look_again():
    topics, message = bus.unpack(bus.pack(["t"], {"x": "y" * 9000}))
    assert (topics, message) == ({"t"}, {"kind": "resync"})


def test_rubbish_on_the_bus_is_nothing():
    assert bus.unpack(b"\xff") == (set(), {})
    assert bus.unpack(b'{"t":3}') == (set(), {})


def test_a_message_waits_for_the_commit(db, monkeypatch, django_capture_on_commit_callbacks):
    sent = []
    monkeypatch.setattr(bus, "send", lambda *a: sent.append(a))
    with django_capture_on_commit_callbacks(execute=True):
        bus.publish(["t"], {"n": 1})
        bus.publish([], {"n": 2})
        assert sent == []
    assert sent == [(["t"], {"n": 1})]


class TestStream:
    @pytest.fixture
    def signed_in(self, transactional_db, make_user):
        user = make_user("dora")
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session.create()

        def request(topics="user:x", headers=None, **more):
            asked = {"topics": topics, **more}
            made = AsyncRequestFactory().get("/events/stream", asked, headers=headers)
            made.session, made.user = SessionStore(session.session_key), user
            return made

        request.session, request.user = session, user
        return request

    @staticmethod
    def view(allowed=("user:x",)):
        return sse.make_stream(lambda user, ip, asked: [t for t in asked if t in allowed])

    async def test_a_change_is_told(self, signed_in, unix_bus):
        response = await self.view()(signed_in())
        assert response["Content-Type"] == "text/event-stream"
        parts = response.streaming_content
        assert "hello" in (await anext(parts)).decode()
        bus.send(["user:x"], {"kind": "workspace", "uid": "u"})
        told = (await asyncio.wait_for(anext(parts), 30)).decode()
        assert told == 'event: changed\ndata: {"kind": "workspace", "uid": "u"}\n\n'
        await parts.aclose()

    async def test_what_changed_between_page_and_stream_is_told(self, signed_in, unix_bus):
        parts = (await self.view()(signed_in(age="9999"))).streaming_content
        assert "hello" in (await anext(parts)).decode()
        told = (await asyncio.wait_for(anext(parts), 30)).decode()
        assert told == 'event: resync\ndata: {"kind": "resync"}\n\n'  # from before it listened
        await parts.aclose()

    @pytest.mark.parametrize("more", [{}, {"age": ""}, {"age": "soon"}])
    async def test_without_an_age_nothing_is_told_again(self, signed_in, unix_bus, more):
        async with bus.subscription(["user:x"]) as before:
            bus.send(["user:x"], {"n": 1})
            assert await before.get(timeout_s=30) == {"n": 1}
        parts = (await self.view()(signed_in(**more))).streaming_content
        assert "hello" in (await anext(parts)).decode()
        bus.send(["user:x"], {"n": 2})
        assert '{"n": 2}' in (await asyncio.wait_for(anext(parts), 30)).decode()
        await parts.aclose()

    async def test_topics_of_others_are_not_there(self, signed_in):
        assert (await self.view()(signed_in("user:y"))).status_code == 404

    async def test_without_a_session_there_is_no_stream(self, signed_in):
        request = signed_in()
        await sync_to_async(signed_in.session.delete)()
        assert (await self.view()(request)).status_code == 401

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "http://w.nb.testserver:8001"},
            {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
            {
                "Sec-Fetch-Site": "same-site",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "iframe",
            },
        ],
    )
    async def test_b1_another_page_gets_no_stream_and_takes_none_of_its_visitors(
        self, signed_in, unix_bus, headers
    ):
        for _ in range(sse.places.most + 1):
            assert (await self.view()(signed_in(headers=headers))).status_code == 403
        own = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
        assert (await self.view()(signed_in(headers=own))).status_code == 200

    async def test_f2_streams_are_bounded_for_each_user(self, signed_in, unix_bus):
        held = []
        for _ in range(sse.places.most):
            parts = (await self.view()(signed_in())).streaming_content
            await anext(parts)
            held.append(parts)
        refused = await self.view()(signed_in())
        assert refused.status_code == 429
        assert refused["Retry-After"]
        for parts in held:
            await parts.aclose()
        assert (await self.view()(signed_in())).status_code == 200
        assert not sse.places

    @pytest.mark.parametrize("how", ["session", "user", "topic"])
    async def test_the_stream_ends_when_the_right_ends(self, signed_in, unix_bus, monkeypatch, how):
        # It ends because it is told to: in between come heartbeats, as many as the look takes long.
        monkeypatch.setattr(sse, "HEARTBEAT_S", 3600.0)
        monkeypatch.setattr(sse, "RECHECK_S", -1.0)
        monkeypatch.setattr(sse, "TICK_S", 0.02)
        allowed = ["user:x"]
        parts = (await self.view(allowed)(signed_in())).streaming_content
        await anext(parts)
        if how == "session":
            await sync_to_async(signed_in.session.delete)()
        elif how == "user":
            signed_in.user.is_active = False
            await sync_to_async(signed_in.user.save)()
        else:
            allowed.clear()
        async with asyncio.timeout(60):
            assert [part async for part in parts] == []  # ends by itself


@pytest.mark.redis
async def test_messages_travel_over_redis_and_a_reader_that_was_cut_looks_again(
    settings, redis_url
):
    settings.BERTH_BUS, settings.BERTH_REDIS_URL = "redis", redis_url
    async with bus.subscription(["t"]) as mine:
        assert await mine.get(timeout_s=30) == bus.RESYNC  # now it listens
        sent = await sync_to_async(bus.send)(["t"], {"n": 1})
        assert sent >= 1
        assert await mine.get(timeout_s=30) == {"n": 1}


def test_e5_a_redis_that_is_down_is_asked_once_and_left_in_peace(settings, monkeypatch):
    bus_of = bus.RedisBus("redis://127.0.0.1:9/0")
    clock = [1000.0]
    monkeypatch.setattr(bus, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with pytest.raises(Exception, match="refused"):
        bus_of.send(["t"], {})
    monkeypatch.setattr(bus_of, "_client", None)  # who asks makes another one
    clock[0] += bus._REST_S - 0.1
    assert bus_of.send(["t"], {}) == 0
    assert bus_of._client is None
    clock[0] += 0.2
    with pytest.raises(Exception, match="refused"):
        bus_of.send(["t"], {})
