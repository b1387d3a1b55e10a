"""Sealed texts: only the private key opens them, nothing can be changed, keys can be replaced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import sealing

PUBLIC, PRIVATE = sealing.new_pair()


@given(st.text(max_size=2000))
def test_what_was_sealed_is_opened_by_the_private_key(text):
    assert sealing.unseal(sealing.seal(text, PUBLIC), [PRIVATE]) == text


def test_the_same_text_is_sealed_differently_each_time():
    assert sealing.seal("x", PUBLIC) != sealing.seal("x", PUBLIC)


def test_the_public_half_follows_from_the_private_one():
    assert sealing.public_of(PRIVATE) == PUBLIC


def test_an_older_key_beside_the_new_one_still_opens():
    _public, newer = sealing.new_pair()
    sealed = sealing.seal("old", PUBLIC)
    assert sealing.unseal(sealed, [newer, PRIVATE]) == "old"
    with pytest.raises(sealing.SealError, match="another key"):
        sealing.unseal(sealed, [newer])


@given(st.integers(min_value=0, max_value=200), st.sampled_from("abcXYZ01-_"))
def test_a_changed_text_is_refused(position, letter):
    sealed = sealing.seal("a kubeconfig", PUBLIC)
    begin = sealed.rindex(".") + 1
    at = begin + position % (len(sealed) - begin - 1)
    changed = sealed[:at] + letter + sealed[at + 1 :]
    if changed != sealed:
        with pytest.raises(sealing.SealError):
            sealing.unseal(changed, [PRIVATE])


@pytest.mark.parametrize("text", ["", "v1", "v1.x.y", "v2.a.b", "v1..", "v1.a.ä", "\0"])
def test_nonsense_is_refused_with_a_sentence(text):
    with pytest.raises(sealing.SealError):
        sealing.unseal(text, [PRIVATE])


@pytest.mark.parametrize("key", ["", "qq", "ä" * 43, "A" * 42])
def test_a_key_that_is_none_is_refused_and_not_said(key):
    with pytest.raises(sealing.SealError) as refusal:
        sealing.seal("x", key)
    assert not key or key not in str(refusal.value)
