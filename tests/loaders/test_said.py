"""What the copying program says reaches people in their language."""

import ast
from pathlib import Path

import pytest
from django.utils.translation import override

from loaders.messages import SAID, in_words
from loaders.models import Load

PROGRAM = Path(__file__).resolve().parents[2] / "dataplane/copy"


def sentences(source: Path) -> set[str]:
    """Every literal of a module that is a sentence, documentation left out."""
    tree = ast.parse(source.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    told = {
        ast.get_docstring(node, clean=False)
        for node in ast.walk(tree)
        if isinstance(node, documented)
    }
    texts = {
        n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }
    return {t for t in texts - told if " " in t and t.endswith(".") and t[0].isupper()}


def test_every_sentence_of_the_program_is_known():
    said = set().union(*(sentences(path) for path in PROGRAM.rglob("*.py")))
    assert len(said) > 50
    assert said - SAID == set()
    assert SAID - said == set()  # nor is one kept that nobody says any more


def test_a_sentence_is_told_in_the_readers_language_and_a_name_as_it_is():
    with override("ja"):
        assert in_words("The volume is full.") == "ボリュームがいっぱいです。"
        assert in_words("There is no bucket “x”.") == "There is no bucket “x”."
        assert in_words("") == ""
    assert in_words("The volume is full.") == "The volume is full."


@pytest.mark.django_db
def test_the_page_of_a_load_tells_it_so(load, alice, as_user):
    row = load(alice)
    Load.objects.filter(pk=row.pk).update(
        launch=1,
        desired="stopped",
        phase="stopped",
        observed_generation=row.generation,
        result="failed",
        result_code="denied",
        result_message="The credential has expired.",
        errors=[
            {"key": "a", "code": "changed", "message": "The object changed while it was copied."}
        ],
    )
    client = as_user(alice)
    page = client.get(row.get_absolute_url(), headers={"accept-language": "ja"}).content.decode()
    assert "資格情報の有効期限が切れています。" in page
    assert "The credential has expired." not in page
    assert "コピー中にオブジェクトが変更されました。" in page
